"""A service over SQLite that commits by hand, verified after every test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slotwise.service.runtime import Service, ServiceOptions
from slotwise.service.stores import SqliteStore
from slotwise.service.verify import verify
from tests.service.core.rows import T0, link, pool

OpenService = Callable[..., Service]


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
    service.put_pool(pool(), "test", T0).result()
    service.put_links("home", [link(f"l{k}") for k in range(1, 6)], "test", T0).result()
    return service
