"""Faults: kill -9, SIGTERM, a store that goes away."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from slotwise.service import server as server_module
from slotwise.service.refusals import StoreUnavailable
from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from slotwise.service.storage.group_commit import GroupCommitter
from tests.service import crash_harness
from tests.service.conftest import http, problem_of, until
from tests.service.forked_server import ForkedServer
from tests.stores.store_rows import reads


def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path: Path) -> None:
    result = crash_harness.run(cycles=3, folder=tmp_path, seed=1)
    assert result["acknowledged"] >= 60
    assert result["died_of_faults"] == 1


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_by_kill_9_for_long(tmp_path: Path) -> None:
    crash_harness.run(cycles=100, folder=tmp_path, seed=2)


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_finishes_what_is_under_way(tmp_path: Path, stop: signal.Signals) -> None:
    """The server leaves by itself, with every answer given kept."""
    start = crash_harness.Server if stop is signal.SIGTERM else ForkedServer  # once in full
    server = start(tmp_path / "stop.db")
    key = server.admin_key()
    acknowledged = crash_harness.Acknowledged()
    with crash_harness.client_of(server.url, key) as client:
        client.put("/v1/pools/home", json=crash_harness.POOL).raise_for_status()
        link = {"url": "https://shop.example/1"}
        client.put("/v1/pools/home/links/l1", json=link).raise_for_status()
    senders = [
        threading.Thread(
            target=crash_harness.send, args=(server.url, key, f"stop-{number}", acknowledged)
        )
        for number in range(3)
    ]
    for sender in senders:
        sender.start()
    acknowledged.wait_for(30)
    assert len(acknowledged.events) >= 30, "the server stopped by itself"
    assert server.end(stop) == 0
    for sender in senders:
        sender.join()
    again = ForkedServer(tmp_path / "stop.db")
    try:
        crash_harness.check(again.url, key, acknowledged)
    finally:
        assert again.stop() == 0


def test_without_the_store_pages_are_answered_and_feedback_waits(
    server: BackgroundServer,
    admin: httpx.Client,
    visitor: httpx.Client,
    make_pool: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = make_pool()
    page = admin.post(f"/v1/pools/{pool}/decide").json()
    link = page["links"][0]
    click = {"type": "click", "decision_id": page["decision_id"], "link_id": link["link_id"]}
    store: Any = server.context.service.store
    monkeypatch.setattr(GroupCommitter, "RETRY_S", 0.05)

    def away(*arguments: object, **named: object) -> None:
        raise StoreUnavailable("the store is away: the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(store, "commit", away)
        served = admin.post(f"/v1/pools/{pool}/decide")
        assert served.status_code == 200
        assert len(served.json()["links"]) == 2
        for refused in (
            admin.post("/v1/events", json=click),
            admin.post("/v1/events:batch", json={"events": [click]}),
            admin.patch(f"/v1/pools/{pool}", json={"click_floor": 0.1}),
        ):
            assert refused.status_code == 503
            assert problem_of(refused)["type"] == "store-away"
            assert int(refused.headers["retry-after"]) >= 1
        followed = visitor.get(link["click_url"])
        assert followed.headers["location"] == link["url"]
        assert visitor.get("/healthz").status_code == 200
        assert visitor.get("/readyz").json() == {
            "ready": True,
            "store_available": False,
            "learning": True,
        }
    until(lambda: admin.post("/v1/events", json=click).status_code != 503)
    report = admin.get(f"/v1/decisions/{page['decision_id']}").json()
    assert report["clicked"] == [link["link_id"]]
    late = admin.get(f"/v1/decisions/{served.json()['decision_id']}")
    assert late.status_code == 200, "a page answered without the store is stored when it is back"


def test_many_senders_of_the_same_event_count_it_once(
    server: BackgroundServer, admin: httpx.Client, pool: str
) -> None:
    page = admin.post(f"/v1/pools/{pool}/decide").json()
    one = {"decision_id": page["decision_id"], "link_id": page["links"][0]["link_id"]}
    sale = {
        "type": "conversion",
        "conversion_id": f"{pool}-raced",
        "revenue_micros": 1_000,
        "currency": "EUR",
        **one,
    }

    def report(_: int) -> list[str]:
        answer = admin.post("/v1/events:batch", json={"events": [{"type": "click", **one}, sale]})
        return [outcome["outcome"] for outcome in answer.json()["outcomes"]]

    with ThreadPoolExecutor(8) as senders:
        outcomes = list(senders.map(report, range(40)))
    for place in range(2):
        answered = [pair[place] for pair in outcomes]
        assert answered.count("accepted") == 1
        assert answered.count("duplicate") == 39
    received = admin.get(f"/v1/decisions/{one['decision_id']}").json()
    assert received["revenue_micros"] == {one["link_id"]: 1_000}


def test_a_strict_service_answers_a_page_after_its_commit(tmp_path: Path) -> None:
    settings = Settings(port=0, store=f"sqlite:///{tmp_path / 'strict.db'}", durability="strict")
    with BackgroundServer(settings) as server, http(server.url, server.admin_key) as admin:
        admin.put("/v1/pools/home", json=crash_harness.POOL).raise_for_status()
        service: Any = server.context.service
        for _ in range(20):
            page = admin.post("/v1/pools/home/decide").json()
            assert reads(service.store).decision(page["decision_id"]) is not None


def test_a_killed_writer_costs_one_refusal_and_nothing_else(tmp_path: Path) -> None:
    settings = Settings(port=0, store=f"sqlite:///{tmp_path / 's.db'}")
    with (
        BackgroundServer(settings, separate_writer=True) as server,
        http(server.url, server.admin_key) as admin,
    ):
        pool = crash_harness.POOL | {"click_window_s": 600, "revenue_window_s": 600}
        admin.put("/v1/pools/home", json=pool).raise_for_status()
        link = {"url": "https://shop.example/1"}
        admin.put("/v1/pools/home/links/l1", json=link).raise_for_status()
        first = _click(admin.post("/v1/pools/home/decide").json())
        assert admin.post("/v1/events", json=first).json()["outcome"] == "accepted"
        store: Any = server.context.service.store
        store._writer._process.kill()
        store._writer._process.wait()
        second = _click(admin.post("/v1/pools/home/decide").json())
        refused = admin.post("/v1/events", json=second)
        assert refused.status_code == 503
        assert problem_of(refused)["type"].endswith("store-away")
        until(lambda: server.context.service.health().store_available)  # by another writer
        assert admin.post("/v1/events", json=first).json()["outcome"] == "duplicate"
        assert admin.post("/v1/events", json=second).json()["outcome"] == "accepted"
        assert server.context.service.health().n_lost_decisions == 0


def test_clicks_on_links_in_an_outage_count_with_their_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is renamed for a while; links and beacons are clicked meanwhile."""
    monkeypatch.setattr(GroupCommitter, "RETRY_S", 0.05)
    path = tmp_path / "s.db"
    settings = Settings(port=0, store=f"sqlite:///{path}", clicks_per_s=1e6)
    with BackgroundServer(settings) as server, http(server.url, server.admin_key) as admin:
        pool = crash_harness.POOL | {"click_window_s": 600, "revenue_window_s": 600}
        admin.put("/v1/pools/home", json=pool).raise_for_status()
        link = {"url": "https://shop.example/1"}
        admin.put("/v1/pools/home/links/l1", json=link).raise_for_status()
        service: Any = server.context.service
        pages = [admin.post("/v1/pools/home/decide").json() for _ in range(5)]
        service.flush().result()
        path.rename(tmp_path / "away.db")
        refused = admin.post("/v1/events", json=_click(pages[0]))
        assert refused.status_code == 503
        pages += [admin.post("/v1/pools/home/decide").json() for _ in range(5)]
        for k, page in enumerate(pages):
            address = httpx.URL(page["links"][0]["click_url"]).raw_path.decode()
            followed = admin.post(address) if k % 2 else admin.get(address)
            assert followed.status_code == (204 if k % 2 else 302)
        (tmp_path / "away.db").rename(path)
        until(lambda: service.health().store_available)
        service.flush().result()
        for page in pages:
            received = admin.get(f"/v1/decisions/{page['decision_id']}").json()
            assert received["clicked"] == ["l1"]


def test_a_writer_that_stands_still_is_a_store_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GroupCommitter, "STUCK_S", 0.2)
    monkeypatch.setattr(GroupCommitter, "RETRY_S", 0.05)
    monkeypatch.setattr(server_module, "_TICKS_PER_S", 1)  # every tick looks for what is stuck
    settings = Settings(port=0, store=f"sqlite:///{tmp_path / 's.db'}")
    with (
        BackgroundServer(settings, separate_writer=True) as server,
        http(server.url, server.admin_key) as admin,
    ):
        pool = crash_harness.POOL | {"click_window_s": 600, "revenue_window_s": 600}
        until(lambda: admin.put("/v1/pools/home", json=pool).is_success)
        link = {"url": "https://shop.example/1"}
        until(lambda: admin.put("/v1/pools/home/links/l1", json=link).is_success)
        store: Any = server.context.service.store
        writer = store._writer._process
        writer.send_signal(signal.SIGSTOP)
        try:
            click = _click(admin.post("/v1/pools/home/decide").json())
            refused = admin.post("/v1/events", json=click)
            assert refused.status_code == 503
            assert problem_of(refused)["type"] == "store-away"
            assert not admin.get("/readyz").json()["store_available"]
            assert admin.post("/v1/pools/home/decide").status_code == 200
        finally:
            writer.send_signal(signal.SIGCONT)
        until(lambda: admin.post("/v1/events", json=click).is_success)
        report = admin.get(f"/v1/decisions/{click['decision_id']}").json()
        assert report["clicked"] == [click["link_id"]]
        assert store._writer._process is writer


def _click(page: dict[str, Any]) -> dict[str, Any]:
    link_id = page["links"][0]["link_id"]
    return {"type": "click", "decision_id": page["decision_id"], "link_id": link_id}
