"""Receivers of alerts that are added by calls: who may be one, what they get, what is stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from slotwise.service.alert_conditions import Alert
from slotwise.service.alert_receivers import AlertReceivers
from slotwise.service.alerting import AlertWatch
from slotwise.service.limits import MAX_ALERT_RECEIVERS
from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from slotwise.service.storage.backup import back_up
from slotwise.service.webhook import AlertReceiver, Webhook
from tests.service.alerting.receiver import Receiver
from tests.service.conftest import POOL, http, problem_of

NOW = datetime(2026, 1, 5, 10, tzinfo=UTC)
SLACK = "https://hooks.slack.com/services/T0/B0/token"
PATH = "/v1/alerts/receivers"
MISSED = Alert(kind="floor-missed", pool_id="home", detail="Too few clicks.")
FAILED = Alert(kind="learning-failed", pool_id="shop", detail="It fails.")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


def settings_of(folder: Path, **others: Any) -> Settings:
    return Settings(port=0, store=f"sqlite:///{folder / 's.db'}", **others)


def test_a_receiver_is_added_listed_tested_and_removed(receiver: Receiver, tmp_path: Path) -> None:
    settings = settings_of(tmp_path, alert_hosts="alerts.example, 127.0.0.1")
    with BackgroundServer(settings) as server, http(server.url, server.admin_key) as admin:
        admin.put("/v1/pools/home", json=POOL).raise_for_status()
        assert admin.get("/v1/alerts").json()["receivers"] == []
        body = {"url": receiver.url, "pool_id": "home", "alerts": ["floor-missed"]}
        made = admin.post(PATH, json=body)
        assert made.status_code == 201
        [listed] = admin.get("/v1/alerts").json()["receivers"]
        assert listed == made.json()
        assert {name: listed[name] for name in body} == body
        assert listed["format"] == "json"
        assert listed["by"] == "first admin key"
        tested = admin.post("/v1/alerts:test", json={"receiver_id": listed["receiver_id"]}).json()
        assert (tested["delivered"], tested["url"]) == (True, receiver.url)
        assert json.loads(receiver.got[0][1])["state"] == "test"
        assert admin.delete(f"{PATH}/{listed['receiver_id']}").json() == listed
        assert admin.get("/v1/alerts").json()["receivers"] == []
        again = admin.delete(f"{PATH}/{listed['receiver_id']}")
        assert problem_of(again)["type"] == "unknown-receiver"
        unknown = admin.post("/v1/alerts:test", json={"receiver_id": listed["receiver_id"]})
        assert problem_of(unknown)["type"] == "unknown-receiver"
        changes = server.context.service.directory.changes("alert receivers")
        assert [change.action for change in changes] == ["receiver.remove", "receiver.add"]
        keys = server.context.service.directory.keys()
        [admin_key] = [key for key in keys if key.scopes]
        assert {change.changed_by for change in changes} == {admin_key.key_id}


def test_receivers_outlive_a_restart_and_a_backup(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    with BackgroundServer(settings) as server, http(server.url, server.admin_key) as admin:
        made = admin.post(PATH, json={"url": SLACK}).json()
        key = server.admin_key
    back_up(tmp_path / "s.db", tmp_path / "copy.db")
    for name in ("s.db", "copy.db"):
        opened = Settings(port=0, store=f"sqlite:///{tmp_path / name}")
        with BackgroundServer(opened) as server, http(server.url, key) as admin:
            assert admin.get("/v1/alerts").json()["receivers"] == [made]


def test_the_address_of_a_chat_is_never_shown(tmp_path: Path) -> None:
    with (
        BackgroundServer(settings_of(tmp_path)) as server,
        http(server.url, server.admin_key) as admin,
    ):
        made = admin.post(PATH, json={"url": SLACK})
        assert (made.json()["url"], made.json()["format"]) == ("https://hooks.slack.com/…", "slack")
        assert "token" not in made.text + admin.get("/v1/alerts").text


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("https://alerts.example/token", "a webhook of Slack or Teams, or on a host of"),
        ("https://hooks.slack.com.evil.example/token", "a webhook of Slack or Teams, or on a"),
        ("https://169.254.169.254/token", "a webhook of Slack or Teams, or on a host of"),
        ("http://127.0.0.1:9/token", "a webhook of Slack or Teams, or on a host of"),
        ("http://hooks.slack.com/token", "an https address without a user name"),
        ("https://me:token@hooks.slack.com/token", "an https address without a user name"),
        ("https://hooks.slack.com\\@evil.example/token", "an https address without a user name"),
        ("https://evil.example\\.hooks.slack.com/token", "an https address without a user name"),
        ("https://evil.example#.hooks.slack.com/token", "a webhook of Slack or Teams, or on a"),
        ("file:///etc/token", "an https address without a user name"),
        ("", "an https address without a user name"),
    ],
)
def test_only_hosts_that_the_operator_allows_are_called(
    tmp_path: Path, url: str, rule: str
) -> None:
    with (
        BackgroundServer(settings_of(tmp_path)) as server,
        http(server.url, server.admin_key) as admin,
    ):
        problem = problem_of(admin.post(PATH, json={"url": url}))
        assert problem["errors"][0]["pointer"] == "/url"
        assert problem["errors"][0]["detail"].startswith(f"`url` must be {rule}")
        assert "token" not in str(problem)
        assert admin.get("/v1/alerts").json()["receivers"] == []


def test_a_host_that_is_no_longer_allowed_gets_nothing(receiver: Receiver, tmp_path: Path) -> None:
    settings = settings_of(tmp_path, alert_hosts="127.0.0.1")
    with BackgroundServer(settings) as server, http(server.url, server.admin_key) as admin:
        made = admin.post(PATH, json={"url": receiver.url}).json()
        assert made["allowed"]
        key = server.admin_key
    with BackgroundServer(settings_of(tmp_path)) as server, http(server.url, key) as admin:
        [listed] = admin.get("/v1/alerts").json()["receivers"]
        assert not listed["allowed"]
        refused = admin.post("/v1/alerts:test", json={"receiver_id": listed["receiver_id"]})
        assert problem_of(refused)["type"] == "unknown-receiver"
        assert problem_of(admin.post("/v1/alerts:test"))["type"] == "conflict"
        assert receiver.got == []


def test_the_address_of_the_settings_stays(receiver: Receiver, tmp_path: Path) -> None:
    settings = settings_of(tmp_path, alert_url=receiver.url)
    with BackgroundServer(settings) as server, http(server.url, server.admin_key) as admin:
        admin.post(PATH, json={"url": SLACK}).raise_for_status()
        listed = admin.get("/v1/alerts").json()["receivers"]
        assert [one["url"] for one in listed] == [receiver.url, "https://hooks.slack.com/…"]
        assert listed[0]["made_at"] is None
        refused = admin.delete(f"{PATH}/settings")
        assert problem_of(refused)["type"] == "conflict"
        assert admin.post("/v1/alerts:test").json()["url"] == receiver.url


def test_unknown_pools_kinds_and_too_many_are_refused(tmp_path: Path) -> None:
    with (
        BackgroundServer(settings_of(tmp_path)) as server,
        http(server.url, server.admin_key) as admin,
    ):
        unknown = admin.post(PATH, json={"url": SLACK, "pool_id": "nowhere"})
        assert problem_of(unknown)["type"] == "unknown-pool"
        wrong = admin.post(PATH, json={"url": SLACK, "alerts": ["weather"]})
        assert problem_of(wrong)["type"] == "validation"
        for _ in range(MAX_ALERT_RECEIVERS):
            admin.post(PATH, json={"url": SLACK}).raise_for_status()
        problem = problem_of(admin.post(PATH, json={"url": SLACK}))
        assert problem["type"] == "conflict"
        assert "the most is 20" in problem["detail"]


def test_each_receiver_gets_its_alerts_and_their_ends() -> None:
    looks = iter([[MISSED, FAILED], [MISSED, FAILED], [MISSED], [], [], []])
    present = [
        AlertReceiver(receiver_id="all", url=SLACK),
        AlertReceiver(receiver_id="floors", url=SLACK, alerts=("floor-missed",)),
        AlertReceiver(receiver_id="shop", url=SLACK, pool_id="shop"),
    ]
    watch = AlertWatch(
        lambda: [Webhook(one, "secret", "https://links.example") for one in present],
        lambda: next(looks),
        lambda: NOW,
    )

    def sent() -> list[tuple[str, str, str]]:
        watch.check()
        found = []
        while not watch._waiting.empty():
            webhook, message = watch._waiting.get()
            found.append((webhook.receiver.receiver_id, message.alert, message.state))
        return sorted(found)

    assert sent() == []
    assert sent() == [
        ("all", "floor-missed", "started"),
        ("all", "learning-failed", "started"),
        ("floors", "floor-missed", "started"),
        ("shop", "learning-failed", "started"),
    ]
    present[1:2] = [AlertReceiver(receiver_id="late", url=SLACK, pool_id="home")]
    assert sent() == [("late", "floor-missed", "started")]
    assert sent() == [("all", "learning-failed", "ended"), ("shop", "learning-failed", "ended")]
    assert sent() == [("all", "floor-missed", "ended"), ("late", "floor-missed", "ended")]
    present.clear()
    watch.check()
    assert len(list(looks)) == 1  # nothing is looked at where nobody receives alerts


def test_what_another_process_added_is_read(tmp_path: Path) -> None:
    with (
        BackgroundServer(settings_of(tmp_path)) as server,
        http(server.url, server.admin_key) as admin,
    ):
        service = server.context.service
        other = AlertReceivers(service.store, service.committer, ())
        added = other.add(AlertReceiver(url=SLACK), "somebody", 1_000_000).result()
        [listed] = admin.get("/v1/alerts").json()["receivers"]
        assert (listed["receiver_id"], listed["by"]) == (added.receiver_id, "somebody")
