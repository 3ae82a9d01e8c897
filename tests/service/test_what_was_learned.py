"""What was learned survives everything that an operator does, for every kind of pool.

One store is trained once for all kinds, and one for pools that are only large. Each journey takes
a copy of it through a restart, a purge, a move or the like; then what is shown at once, what was
learned, and both after the next fold must be the same.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from slotwise.service.access.keys import new_key
from slotwise.service.records import SECOND_US
from slotwise.service.service import Service
from slotwise.service.settings import ServiceOptions
from slotwise.service.storage.backup import back_up, restore
from slotwise.service.storage.contract import Store
from slotwise.service.storage.maintenance import purge
from slotwise.service.storage.move_store import move_store
from slotwise.service.storage.postgresql import PostgresqlStore
from slotwise.service.storage.sqlite import SqliteStore
from slotwise.service.storage.verify import verify
from tests.service.conftest import until
from tests.service.kinds_of_pools import (
    KINDS,
    LARGE_KINDS,
    TRAINED_US,
    Kind,
    Known,
    assert_same,
    known_of,
    train,
)
from tests.service.private_postgresql import PrivatePostgresql

OPTIONS = ServiceOptions(seed=1, commit_every_ms=0.0)
Everything = dict[str, Known]
Postgresql = Callable[[], PrivatePostgresql]


class Found(NamedTuple):
    """What is known after a journey."""

    at_once: Everything
    later: Everything
    """After the next fold."""
    before: Everything | None = None
    """Right before the journey's last step, where the service had learned since the training."""


def open_store(store: Store) -> Service:
    return Service(store, OPTIONS)


def everything(service: Service) -> Everything:
    pools = service.directory.all_pools()
    return {one.settings.pool_id: known_of(service, one.settings.pool_id) for one in pools}


def seen(service: Service) -> Found:
    """Return what is known at once and after the next fold."""
    at_once = everything(service)
    service.learner.learn(TRAINED_US + SECOND_US // 10)
    return Found(at_once, everything(service))


def finish(service: Service, path: Path | str) -> None:
    service.close()
    store = SqliteStore(path) if isinstance(path, Path) else PostgresqlStore(path)
    assert verify(store).mismatches == ()
    store.close()


class Trained(NamedTuple):
    """What a training has left."""

    closed: Path
    """The store after the service has stopped."""
    killed: Path
    """The store as a kill of the running service leaves it, with its write-ahead log."""
    before: Everything


def trained(folder: Path, kinds: Mapping[str, Kind]) -> Trained:
    path, left = folder / "trained.db", folder / "left.db"
    service = open_store(SqliteStore(path))
    train(service, kinds)
    before = everything(service)
    for name in ("", "-wal"):
        shutil.copy(f"{path}{name}", f"{left}{name}")
    service.close()
    return Trained(path, left, before)


@pytest.fixture(scope="module")
def all_kinds(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return trained(tmp_path_factory.mktemp("learned"), KINDS)


@pytest.fixture(scope="module")
def large_kinds(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return trained(tmp_path_factory.mktemp("large"), LARGE_KINDS)


def copied(path: Path, name: str) -> Path:
    return Path(shutil.copy(path, path.with_name(f"{name}.db")))


def purged(path: Path) -> Path:
    """Delete all rows that may be deleted."""
    store = SqliteStore(path)
    purge(store.reading, lambda one: store.commit([one])[0], TRAINED_US, max_steps=10**6)
    store.close()
    return path


def after_a_restart(path: Path, _: Postgresql) -> Found:
    service = open_store(SqliteStore(path))
    found = seen(service)
    finish(service, path)
    return found


def after_a_purge(path: Path, _: Postgresql) -> Found:
    return after_a_restart(purged(path), _)


def after_forgetting_another_key(path: Path, _: Postgresql) -> Found:
    """All rows are purged, so a pool that starts over has nothing to start from."""
    service = open_store(SqliteStore(purged(path)))
    service.learner.learn(TRAINED_US + 1)
    before = everything(service)
    unused = new_key(["read"], label="unused", now_us=TRAINED_US).record
    service.directory.put_key(unused, "test", TRAINED_US).result()
    forgotten = service.directory.forget_views(unused.key_id, 0, "test", TRAINED_US + 2).result()
    assert forgotten == 0
    service.learner.learn(TRAINED_US + 3)
    found = seen(service)
    finish(service, path)
    return found._replace(before=before)


def after_backup_and_restore(path: Path, _: Postgresql) -> Found:
    copy, again = path.with_suffix(".copy"), path.with_name("restored.db")
    back_up(purged(path), copy)
    restore(copy, again)
    return after_a_restart(again, _)


def after_moving_there(path: Path, postgresql: Postgresql) -> Found:
    address = postgresql().new_database()
    move_store(str(purged(path)), address)
    service = open_store(PostgresqlStore(address))
    at_once = everything(service)
    finish(service, address)
    return Found(at_once, at_once)


def after_moving_there_and_back(path: Path, postgresql: Postgresql) -> Found:
    address, again = postgresql().new_database(), path.with_name("back.db")
    move_store(str(purged(path)), address)
    move_store(address, str(again))
    return after_a_restart(again, postgresql)


def after_another_learns(path: Path, postgresql: Postgresql) -> Found:
    address = postgresql().new_database()
    move_store(str(purged(path)), address)
    options = ServiceOptions(seed=1, commit_every_ms=0.0, fold_every_s=3_600)

    def start() -> Service:
        service = Service(PostgresqlStore(address), options)
        service.start(lambda: TRAINED_US + 1)
        return service

    def leads(service: Service) -> bool:
        service.learner.learn(TRAINED_US + 1)
        return service.learner.is_learning

    with ExitStack() as stack:
        first = start()
        stack.callback(first.close)
        until(lambda: leads(first))
        before = everything(first)
        second = start()
        stack.callback(second.close)
        second.catch_up()
        at_once = everything(second)
        first.close()
        until(lambda: leads(second))
        later = everything(second)
    return Found(at_once, later, before)


Journey = Callable[[Path, Postgresql], Found]
JOURNEYS: dict[str, Journey] = {
    "restart": after_a_restart,
    "kill": after_a_restart,
    "purge": after_a_purge,
    "forget another key": after_forgetting_another_key,
    "backup and restore": after_backup_and_restore,
    "move": after_moving_there,
    "move and back": after_moving_there_and_back,
    "another learner": after_another_learns,
}


def names(slow: Iterable[str] = ()) -> list[object]:
    """Return the names of all journeys, marked by what they need."""
    system = ("move", "move and back", "another learner")
    marks = {name: [pytest.mark.system] * (name in system) for name in JOURNEYS}
    for name in slow:
        marks[name].append(pytest.mark.slow)
    return [pytest.param(name, marks=marks[name]) for name in JOURNEYS]


def assert_survives(name: str, left: Trained, postgresql: Postgresql) -> None:
    path = copied(left.closed, name.replace(" ", "-"))
    if name == "kill":
        path = copied(left.killed, "killed")
        shutil.copy(f"{left.killed}-wal", f"{path}-wal")
    found = JOURNEYS[name](path, postgresql)
    expected = found.before or left.before
    assert found.at_once.keys() == found.later.keys() == expected.keys() == left.before.keys()
    for pool_id, before in expected.items():
        later = found.later[pool_id]
        assert_same(found.at_once[pool_id], before, pool_id)
        assert later.failure == "", pool_id
        assert later.arrays == before.arrays, pool_id


# Backup and forgetting purge first, too.
@pytest.mark.parametrize("name", names(slow=["purge"]))
def test_what_was_learned_survives(
    name: str, all_kinds: Trained, request: pytest.FixtureRequest
) -> None:
    assert_survives(name, all_kinds, lambda: request.getfixturevalue("postgresql"))


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_what_large_pools_learned_survives(
    name: str, large_kinds: Trained, request: pytest.FixtureRequest
) -> None:
    assert_survives(name, large_kinds, lambda: request.getfixturevalue("postgresql"))
