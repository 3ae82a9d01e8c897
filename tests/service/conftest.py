"""A service over SQLite that commits by hand, and a real server over real HTTP.

The service is verified after every test. The server is one for all tests of a file; every test
makes its own pool.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import httpx
import pytest
import uvicorn

from slotwise.service import planning, server as server_module
from slotwise.service.records import Scope
from slotwise.service.server import BackgroundServer
from slotwise.service.service import Service
from slotwise.service.settings import ServiceOptions, Settings
from slotwise.service.storage.sqlite import SqliteStore
from slotwise.service.storage.verify import verify
from tests.service import rows
from tests.service.private_postgresql import PrivatePostgresql, private_postgresql

BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
POOL = {
    "slots": 2,
    "click_floor": 0.2,
    "max_revenue": {"amount_micros": 50_000_000, "currency": "EUR"},
    "click_window_s": 1800,
    "revenue_window_s": 86400,
    "policy": {"name": "uniform", "settings": {}},
    "allowed_hosts": ["shop.example"],
}

OpenService = Callable[..., Service]

_pool_numbers = itertools.count()


@pytest.fixture(scope="session", autouse=True)
def servers_stop_at_once() -> Iterator[None]:
    """Let uvicorn look every 0.01 s whether to stop, not every 0.1 s, and then wait as long.

    What a server does once a second it still does once a second.
    """

    def sleep(seconds: float) -> Awaitable[None]:
        return asyncio.sleep(seconds / 10)

    with (
        patch.object(
            uvicorn.server, "asyncio", SimpleNamespace(**vars(asyncio) | {"sleep": sleep})
        ),
        patch.object(server_module, "_TICKS_PER_S", 10 * server_module._TICKS_PER_S),
    ):
        yield


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PrivatePostgresql]:
    """Return a PostgreSQL server for all tests that leave it running."""
    with private_postgresql() as server:
        yield server


@pytest.fixture
def open_service(tmp_path: Path) -> Iterator[OpenService]:
    """Open the service over the test's store; again, after closing it, for a restart."""
    opened: list[Service] = []
    path = tmp_path / "store.db"

    def open_it(**options: Any) -> Service:
        settings = {"seed": 1, "commit_every_ms": 0.0, **options}
        service = Service(SqliteStore(path), ServiceOptions(**settings))
        opened.append(service)
        return service

    yield open_it
    for service in opened:
        service.close()
    store = SqliteStore(path)
    assert verify(store).mismatches == ()
    store.close()


@pytest.fixture
def service(open_service: OpenService) -> Service:
    """Return a service with the pool `home` of five links and two slots."""
    service = open_service()
    service.directory.put_pool(rows.pool(), "test", rows.T0).result()
    service.directory.put_links(
        "home", [rows.link(f"l{k}") for k in range(1, 6)], "test", rows.T0
    ).result()
    return service


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds; the suite's own limit ends a wait in vain."""
    while not holds():
        threading.Event().wait(0.01)


def http(url: str, key: str | None) -> httpx.Client:
    """Return a client that follows no redirects and looks like a browser.

    The server has no TLS; a client that could check certificates takes 17 ms to make.
    """
    headers = {"user-agent": BROWSER} | ({"authorization": f"Bearer {key}"} if key else {})
    return httpx.Client(base_url=url, headers=headers, timeout=600, verify=False)


class Clock:
    """The time of the tests' server: it passes when a test says so, and never stands still."""

    def __init__(self) -> None:
        self._now_us = 1_800_000_000_000_000

    def __call__(self) -> int:
        self._now_us += 10
        return self._now_us

    def advance(self, seconds: float) -> None:
        self._now_us += round(seconds * 1_000_000)


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, clock: Clock) -> Iterator[BackgroundServer]:
    store: Path = tmp_path_factory.mktemp("store") / "slotwise.db"
    settings = Settings(
        port=0,
        store=f"sqlite:///{store}",
        seed=1,
        calls_per_s=1e6,
        clicks_per_s=1e6,
        refused_keys_per_s=1e6,
        fold_every_s=3600,  # tests let it learn themselves
    )
    # Next to other tests, a plan of the lowest priority would take minutes.
    with (
        patch.object(planning, "PRIORITY", 0),
        BackgroundServer(settings, clock_us=clock) as server,
    ):
        yield server


@pytest.fixture
def let_windows_close(server: BackgroundServer, clock: Clock) -> Callable[[float], None]:
    """Let seconds pass and have the service learn what they settle."""

    def close(seconds: float) -> None:
        clock.advance(seconds)
        server.context.service.learner.learn(clock())

    return close


@pytest.fixture(scope="module")
def admin(server: BackgroundServer) -> Iterator[httpx.Client]:
    with http(server.url, server.admin_key) as client:
        yield client


@pytest.fixture(scope="module")
def keyed(
    server: BackgroundServer, admin: httpx.Client
) -> Iterator[Callable[[Scope], httpx.Client]]:
    """Return a client with a key of one scope."""
    with ExitStack() as opened:

        @functools.cache
        def client_of(scope: Scope) -> httpx.Client:
            body: dict[str, object] = {"scopes": [scope]}
            if scope == "page":
                body["pool_id"] = "pool_id"
                admin.put("/v1/pools/pool_id", json=POOL).raise_for_status()
            made = admin.post("/v1/keys", json=body)
            return opened.enter_context(http(server.url, made.json()["key"]))

        yield client_of


@pytest.fixture(scope="module")
def visitor(server: BackgroundServer) -> Iterator[httpx.Client]:
    """Return a client without a key."""
    with http(server.url, None) as client:
        yield client


@pytest.fixture
def make_pool(admin: httpx.Client) -> Callable[..., str]:
    """Make a pool with `n_links` links l1, l2, ... and return its id."""

    def make(n_links: int = 4, **settings: Any) -> str:
        pool_id = f"pool-{next(_pool_numbers)}"
        made = admin.put(f"/v1/pools/{pool_id}", json=POOL | settings)
        assert made.status_code == 200, made.text
        links = [
            {"link_id": f"l{number}", "url": f"https://shop.example/{number}"}
            for number in range(1, n_links + 1)
        ]
        if links:
            added = admin.post(f"/v1/pools/{pool_id}/links:batch", json={"links": links})
            assert added.status_code == 200, added.text
        return pool_id

    return make


@pytest.fixture
def pool(make_pool: Callable[..., str]) -> str:
    return make_pool()


def problem_of(answer: httpx.Response) -> dict[str, Any]:
    """Return a problem answer after checking that it is one."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    problem: dict[str, Any] = answer.json()
    assert problem["status"] == answer.status_code
    assert problem["request_id"] == answer.headers["x-request-id"]
    assert problem["title"]
    return problem
