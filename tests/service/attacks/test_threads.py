"""Long work delays nobody: exports have threads of their own, and the event loop has none of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from slotwise.service.reporting.report_records import RoundRow
from slotwise.service.server import BackgroundServer
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

    monkeypatch.setattr(server.context.service, "export", hang)
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
    links = service.links

    def noted(pool_id: str) -> object:
        threads.append(threading.current_thread().name)
        return links(pool_id)

    monkeypatch.setattr(service, "links", noted)
    with http(server.url, server.admin_key) as admin:
        assert admin.request(method, path, json=body).status_code == 200
    assert threads
    assert "slotwise-server" not in threads
