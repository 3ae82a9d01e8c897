"""The webhook against a receiver on loopback: what it gets, how often, and that nothing waits."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from slotwise.errors import InvalidConfig
from slotwise.service.alert_conditions import Alert
from slotwise.service.alerting import MAX_WAITING, AlertWatch
from slotwise.service.server import BackgroundServer
from slotwise.service.settings import AlertFormat, Settings, load_settings
from slotwise.service.webhook import (
    MAX_CHAT_DETAIL,
    SIGNATURE_HEADER,
    AlertMessage,
    AlertReceiver,
    AlertState,
    Delivery,
    Webhook,
    format_of,
)
from tests.service.alerting.receiver import Receiver
from tests.service.conftest import POOL, Clock, http, problem_of

NOW = datetime(2026, 1, 5, 10, tzinfo=UTC)
MISSED = Alert(kind="floor-missed", pool_id="home", detail="Too few clicks.")
FAILED = Alert(kind="learning-failed", pool_id="home", detail="It fails.")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


def watch_of(url: str, *looks: list[Alert]) -> AlertWatch:
    """Return a watch that sees one list of alerts after the other, and retries at once."""
    seen = iter(looks)
    webhooks = [webhook_of(url)]
    return AlertWatch(lambda: webhooks, lambda: next(seen), lambda: NOW, 3600, (0.0, 0.0, 0.0))


def webhook_of(url: str, **receiver: Any) -> Webhook:
    return Webhook(AlertReceiver(url=url, **receiver), "secret", "https://links.example")


def deliver(webhook: Webhook) -> Delivery:
    watch = watch_of(webhook.receiver.url)
    return watch.deliver(webhook, webhook.message(MISSED, "started", NOW, NOW))


def waiting(watch: AlertWatch) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    while not watch._waiting.empty():
        _, message = watch._waiting.get()
        found.append((message.alert, message.state))
    return found


def test_a_message_is_signed_and_says_what_and_where(receiver: Receiver) -> None:
    webhook = webhook_of(receiver.url + "/hook?team=1")
    delivery = deliver(webhook)
    assert (delivery.delivered, delivery.attempts) == (True, 1)
    [(headers, body)] = receiver.got
    assert json.loads(body) == {
        "alert": "floor-missed",
        "state": "started",
        "pool_id": "home",
        "detail": "Too few clicks.",
        "since": "2026-01-05T10:00:00Z",
        "sent_at": "2026-01-05T10:00:00Z",
        "dashboard": "https://links.example/?pool=home",
    }
    assert headers["content-type"] == "application/json"
    sent, _, signed = headers[SIGNATURE_HEADER].partition(",v1=")
    expected = hmac.new(b"secret", sent.removeprefix("t=").encode() + b"." + body, hashlib.sha256)
    assert signed == expected.hexdigest()
    assert sent == f"t={int(NOW.timestamp())}"


def body_for(receiver: Receiver, form: AlertFormat, alert: Alert, state: AlertState) -> Any:
    """Return what the receiver gets of an alert."""
    webhook = webhook_of(receiver.url, format=form)
    assert webhook.send(webhook.message(alert, state, NOW, NOW)).delivered
    headers, body = receiver.got[-1]
    assert headers["content-type"] == "application/json"
    return json.loads(body)


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("https://hooks.slack.com/services/T0/B0/x", "slack"),
        ("https://hooks.slack-gov.com/services/T0/B0/x", "slack"),
        ("https://prod-12.westeurope.logic.azure.com:443/workflows/0/triggers/x?sig=y", "teams"),
        ("https://0.environment.api.powerplatform.com:443/powerautomate/workflows/0", "teams"),
        ("https://shop.webhook.office.com/webhookb2/0", "teams"),
        ("https://HOOKS.SLACK.COM./services/T0/B0/x", "slack"),
        ("https://hooks.slack.com.evil.example/", "json"),
        ("https://nothooks.slack.com/", "json"),
        ("https://alerts.example/hooks.slack.com", "json"),
        ("http://127.0.0.1:9/", "json"),
        ("", "json"),
    ],
)
def test_the_host_decides_the_format(url: str, form: str) -> None:
    assert format_of(url) == form


def test_slack_gets_a_text_that_mentions_nobody(receiver: Receiver) -> None:
    hostile = Alert(kind="floor-missed", pool_id="home", detail="for <!channel> & <@U1|you>")
    assert body_for(receiver, "slack", hostile, "started") == {
        "text": "*slotwise: floor-missed started in pool home*\n"
        "for &lt;!channel&gt; &amp; &lt;@U1|you&gt;\n"
        "<https://links.example/?pool=home|Open the dashboard>",
        "unfurl_links": False,
    }


def test_teams_gets_an_adaptive_card_without_markdown(receiver: Receiver) -> None:
    hostile = Alert(kind="test", pool_id="", detail="[click](https://evil.example)")
    message = body_for(receiver, "teams", hostile, "test")
    assert message["type"] == "message"
    [attachment] = message["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card = attachment["content"]
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    assert {block["type"] for block in card["body"]} == {"RichTextBlock"}
    runs = [run for block in card["body"] for run in block["inlines"]]
    assert {run["type"] for run in runs} == {"TextRun"}
    assert [run["text"] for run in runs] == ["slotwise: test", hostile.detail]
    assert [one["url"] for one in card["actions"]] == ["https://links.example/"]


@pytest.mark.parametrize("form", ["slack", "teams"])
def test_a_chat_message_is_bounded(receiver: Receiver, form: AlertFormat) -> None:
    long = Alert(kind="floor-missed", pool_id="home", detail="<" * 1_000_000)
    body_for(receiver, form, long, "ended")
    assert len(receiver.got[-1][1]) < 5 * MAX_CHAT_DETAIL


@pytest.mark.parametrize("form", ["slack", "teams"])
def test_the_path_of_a_chat_webhook_is_not_shown(
    receiver: Receiver, tmp_path: Path, form: AlertFormat
) -> None:
    store, url = f"sqlite:///{tmp_path / 's.db'}", f"{receiver.url}/services/T0/token?sig=token"
    settings = Settings(port=0, store=store, alert_url=url, alert_format=form)
    with BackgroundServer(settings) as server, http(server.url, server.admin_key) as admin:
        assert admin.post("/v1/alerts:test").json()["delivered"]
        shown = admin.get("/v1/alerts")
        assert shown.json()["url"] == f"{receiver.url}/…"
        assert "token" not in shown.text


def test_a_format_without_an_address_sends_nothing() -> None:
    assert AlertReceiver(url="", format="slack").shown_url == ""


def test_what_lasts_is_told_once_and_its_end_once() -> None:
    watch = watch_of(
        "http://127.0.0.1:1/",
        [MISSED],
        [MISSED, FAILED],
        [MISSED],
        [],
        [MISSED],
        [],
        [],
        [],
    )
    told = []
    for _ in range(8):
        watch.check()
        told.append(waiting(watch))
    assert told == [
        [],
        [("floor-missed", "started")],
        [],
        [],
        [],
        [],
        [("floor-missed", "ended")],
        [],
    ]
    assert watch.active == {}


@pytest.mark.parametrize(
    ("answers", "delivered", "attempts"),
    [
        ([500, 503, 200], True, 3),
        ([500], False, 4),
        ([302], False, 4),
        ([404, 404, 404, 200], True, 4),
    ],
)
def test_attempts_are_bounded_and_redirects_not_followed(
    receiver: Receiver, answers: list[int], delivered: bool, attempts: int
) -> None:
    receiver.answers = answers
    watch, webhook = watch_of(receiver.url), webhook_of(receiver.url)
    delivery = watch.deliver(webhook, webhook.message(MISSED, "started", NOW, NOW))
    assert (delivery.delivered, delivery.attempts) == (delivered, attempts)
    assert len(receiver.got) == attempts
    assert watch.deliveries[0] == delivery


def test_a_receiver_that_is_not_there_is_said_in_a_sentence() -> None:
    delivery = deliver(webhook_of("http://127.0.0.1:1/"))
    assert not delivery.delivered
    assert delivery.detail.startswith("the receiver cannot be reached: ")


@pytest.mark.parametrize("url", ["https://xn--/", "https://h:abc/", "https://[::1", "https://."])
def test_an_address_that_nobody_can_call_is_said_in_a_sentence(url: str) -> None:
    webhook = webhook_of(url)
    delivery = webhook.send(webhook.message(MISSED, "started", NOW, NOW))
    assert delivery.detail.startswith("the receiver cannot be reached: ")


def test_a_failure_does_not_end_the_delivering(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = watch_of(receiver.url, [MISSED, FAILED], [MISSED, FAILED])
    send = Webhook.send

    def fail_first(webhook: Webhook, message: AlertMessage, attempts: int = 1) -> Delivery:
        if message.alert == "floor-missed":
            raise RuntimeError("out of threads")
        return send(webhook, message, attempts)

    monkeypatch.setattr(Webhook, "send", fail_first)
    watch.check()
    watch.check()
    watch.start()
    assert receiver.came.wait(600)
    watch.stop()
    assert json.loads(receiver.got[0][1])["alert"] == "learning-failed"


def test_a_queue_that_is_full_holds_nobody_up() -> None:
    many = [Alert(kind="floor-missed", pool_id=f"p{n}", detail="") for n in range(MAX_WAITING + 5)]
    watch = watch_of("http://127.0.0.1:1/", many, many)
    watch.check()
    watch.check()
    assert len(waiting(watch)) == MAX_WAITING


@pytest.mark.parametrize(
    "url",
    [
        "http://alerts.example/",
        "http://10.0.0.1/",
        "ftp://alerts.example/",
        "https://",
        "https://me:secret@alerts.example/",
        "file:///etc/passwd",
        "http://127.0.0.1.evil.example/",
        "http://169.254.169.254/latest",
        "https://h:abc/",
        "https://h:99999/",
        "https://h:0/",
        "https://ex ample/",
        "https://h/a b",
        "https://h\n.example/",
        "https://.",
        "https://a..b/",
        "https://xn--/",
        "https://[::1",
        "https://[::1]x/",
        "https://x[::1]/",
    ],
)
def test_addresses_that_are_not_safe_are_refused(url: str) -> None:
    with pytest.raises(InvalidConfig, match="alert_url: must be an https address"):
        load_settings(None, {}, {"alert_url": url})


@pytest.mark.parametrize(
    "url",
    [
        "https://alerts.example/x",
        "https://bücher.example./x",
        "https://alert_hub:8443/?team=1",
        "http://127.0.0.1:9/",
        "http://[::1]:9/",
        "",
    ],
)
def test_addresses_that_are_safe_are_taken(url: str) -> None:
    assert load_settings(None, {}, {"alert_url": url}).alert_url == url


def test_a_service_tells_that_a_floor_is_missed(receiver: Receiver, tmp_path: Path) -> None:
    store, clock = f"sqlite:///{tmp_path / 's.db'}", Clock()
    settings = Settings(port=0, store=store, alert_url=receiver.url, fold_every_s=3600)
    with (
        BackgroundServer(settings, clock_us=clock) as server,
        http(server.url, server.admin_key) as admin,
    ):
        pool = POOL | {"click_floor": 1.9, "click_window_s": 60, "revenue_window_s": 60}
        admin.put("/v1/pools/home", json=pool).raise_for_status()
        links = [{"link_id": f"l{n}", "url": "https://shop.example/"} for n in range(3)]
        admin.post("/v1/pools/home/links:batch", json={"links": links}).raise_for_status()
        service, context = server.context.service, server.context
        for _ in range(600):
            service.decider.decide("home", clock())
        service.flush().result()
        clock.advance(60)
        service.learner.learn(clock())
        watch = context.alerts
        assert watch is not None
        watch.check()
        watch.check()
        assert receiver.came.wait(600)
        [(headers, body)] = receiver.got
        assert json.loads(body)["alert"] == "floor-missed"
        shown = admin.get("/v1/alerts").json()
        assert [one["alert"] for one in shown["active"]] == ["floor-missed"]
        assert shown["url"] == receiver.url
        sent, _, signed = headers[SIGNATURE_HEADER].partition(",v1=")
        message = sent.removeprefix("t=").encode() + b"." + body
        assert signed == hmac.new(shown["secret"].encode(), message, hashlib.sha256).hexdigest()
        tested = admin.post("/v1/alerts:test").json()
        assert tested["detail"] == "the receiver answered 204"
        assert json.loads(receiver.got[-1][1])["alert"] == "test"
        receiver.answers = [500]
        assert not admin.post("/v1/alerts:test").json()["delivered"]


def test_without_an_address_nobody_is_told(tmp_path: Path) -> None:
    settings = Settings(port=0, store=f"sqlite:///{tmp_path / 's.db'}")
    with BackgroundServer(settings) as server, http(server.url, server.admin_key) as admin:
        assert admin.get("/v1/alerts").json()["url"] == ""
        assert problem_of(admin.post("/v1/alerts:test"))["type"] == "conflict"
