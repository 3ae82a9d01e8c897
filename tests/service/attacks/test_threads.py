"""Long work delays nobody: exports have threads of their own, and the event loop has none of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import msgspec
import pytest

from slotwise.errors import InvalidInput
from slotwise.service.deciding.decisions_by_id import DecisionsById
from slotwise.service.reporting.report_records import RoundRow
from slotwise.service.server import BackgroundServer
from slotwise.service.webhook import AlertMessage, Delivery, Webhook
from tests.service.conftest import POOL, http

N_EXPORTS = 12
"""More than a default pool of threads has on a machine of two cores."""


def test_exports_that_hang_delay_no_report(
    server: BackgroundServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, started = threading.Event(), threading.Event()

    def hang(*_: object) -> Iterator[list[RoundRow]]:
        started.set()
        go_on.wait()
        yield []

    monkeypatch.setattr(server.context.service.reporter, "export", hang)
    with http(server.url, server.admin_key) as admin, ThreadPoolExecutor(N_EXPORTS) as senders:
        exports = [senders.submit(admin.get, "/v1/pools/home/export") for _ in range(N_EXPORTS)]
        started.wait()
        try:
            assert admin.get("/v1/pools/home/stats").status_code == 200
            assert admin.get("/v1/pools/home").status_code == 200
        finally:
            go_on.set()
        assert {export.result().status_code for export in exports} == {200}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/pools", None),
        ("GET", "/v1/pools/home", None),
        ("GET", "/v1/pools/home/links", None),
        ("PATCH", "/v1/pools/home", {"click_floor": 0.1}),
        ("PUT", "/v1/pools/home", POOL),
        ("GET", "/dashboard/pools/home", None),
    ],
)
def test_what_goes_through_all_links_is_not_done_on_the_event_loop(
    server: BackgroundServer,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    path: str,
    body: dict[str, Any] | None,
) -> None:
    threads: list[str] = []
    service = server.context.service
    links = service.directory.links

    def noted(pool_id: str) -> object:
        threads.append(threading.current_thread().name)
        return links(pool_id)

    monkeypatch.setattr(service.directory, "links", noted)
    with http(server.url, server.admin_key) as admin:
        assert admin.request(method, path, json=body).status_code == 200
    assert threads
    assert "slotwise-server" not in threads


def test_a_store_that_hangs_delays_no_page(
    server: BackgroundServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store answers nothing until the end: every page comes before, and readiness tells."""
    go_on = threading.Event()
    store = server.context.service.store
    read = store.reading

    def hang() -> object:
        go_on.wait()
        return read()

    monkeypatch.setattr(store, "reading", hang)
    monkeypatch.setattr(DecisionsById, "REST_S", 600.0)
    with http(server.url, server.admin_key) as admin, ThreadPoolExecutor(N_EXPORTS) as senders:
        admin.timeout = httpx.Timeout(60)  # where it is broken

        def decide(body: dict[str, Any]) -> list[str]:
            page = admin.post("/v1/pools/home/decide", json=body)
            return [link["link_id"] for link in page.json()["links"]]

        try:
            asked = [{"decision_id": f"hang-{number}"} for number in range(N_EXPORTS)]
            first = list(senders.map(decide, asked))
            assert list(senders.map(decide, asked)) == first
            pinned = {"pin": [{"link_id": "l3", "position": 2}]}
            assert all(decide(pinned)[1] == "l3" for _ in asked)
            assert admin.get("/readyz").json()["store_available"] is False
        finally:
            go_on.set()
        monkeypatch.setattr(DecisionsById, "REST_S", 0.0)
        monkeypatch.setattr(server.context.service.decider.by_id, "_rests_until_s", 0.0)
        assert list(senders.map(decide, asked)) == first
        assert admin.get("/readyz").json()["store_available"] is True


def test_evaluations_that_hang_delay_no_export(
    server: BackgroundServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, started = threading.Event(), threading.Event()

    def hang(*_: object) -> None:
        started.set()
        go_on.wait()
        raise InvalidInput("`since` must be later")

    monkeypatch.setattr(server.context.service.reporter, "evaluate", hang)
    with http(server.url, server.admin_key) as admin, ThreadPoolExecutor(N_EXPORTS) as senders:
        path = "/v1/pools/home/evaluate"
        evaluations = [senders.submit(admin.get, path) for _ in range(N_EXPORTS)]
        started.wait()
        try:
            assert admin.get("/v1/pools/home/export").status_code == 200
        finally:
            go_on.set()
        assert {one.result().status_code for one in evaluations} == {422}


def test_test_alerts_that_hang_delay_no_change(
    server: BackgroundServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, started = threading.Event(), threading.Event()
    send = Webhook.send

    def hang(webhook: Webhook, message: AlertMessage) -> Delivery:
        started.set()
        go_on.wait()
        return send(webhook, message)

    monkeypatch.setattr(Webhook, "send", hang)
    settings = msgspec.structs.replace(server.context.settings, alert_url="http://127.0.0.1:9/")
    monkeypatch.setattr(server.context, "settings", settings)
    with http(server.url, server.admin_key) as admin, ThreadPoolExecutor(N_EXPORTS) as senders:
        tests = [senders.submit(admin.post, "/v1/alerts:test") for _ in range(N_EXPORTS)]
        started.wait()
        try:
            changed = admin.patch("/v1/pools/home", json={"click_floor": 0.1})
            assert changed.status_code == 200
        finally:
            go_on.set()
        assert {one.result().status_code for one in tests} == {200}
