"""A server that tests attack, over loopback."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import httpx
import pytest

from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from tests.service.conftest import POOL, http

WAIT_S = 600
"""How long a test waits for the server before it fails: never reached when all is well."""
Line = Callable[[], socket.socket]


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BackgroundServer]:
    """Start a server; a module that wants short time limits names them in `LIMITS`."""
    settings = Settings(
        port=0,
        store=f"sqlite:///{tmp_path_factory.mktemp('attacked') / 'slotwise.db'}",
        seed=1,
        max_connections=40,
        clicks_per_s=50.0,
        refused_keys_per_s=20.0,
        trusted_proxies="127.0.0.1",
        **getattr(request.module, "LIMITS", {}),
    )
    with BackgroundServer(settings) as server, http(server.url, server.admin_key) as admin:
        admin.put("/v1/pools/home", json=POOL).raise_for_status()
        links = [{"link_id": f"l{n}", "url": f"https://shop.example/{n}"} for n in range(1, 5)]
        admin.post("/v1/pools/home/links:batch", json={"links": links}).raise_for_status()
        yield server


@pytest.fixture
def line(server: BackgroundServer) -> Iterator[Line]:
    """Open connections to the server, closed after the test."""
    address = httpx.URL(server.url)
    opened: list[socket.socket] = []

    def connect() -> socket.socket:
        opened.append(socket.create_connection((address.host, address.port or 80), WAIT_S))
        return opened[-1]

    yield connect
    for one in opened:
        one.close()


def all_received(line: socket.socket) -> bytes:
    """Return what the server sent until it closed the connection."""
    received = []
    try:
        while part := line.recv(65536):
            received.append(part)
    except ConnectionResetError:
        pass
    return b"".join(received)
