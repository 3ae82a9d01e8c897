"""Maintenance of stores: back up, restore, move between engines, purge and shift times.

Used by `cli`, `learning` and `reporting`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from sqlalchemy import Table

from slotwise.errors import InvalidInput, MissingData, UnsupportedState
from slotwise.service.refusals import StoreUnavailable
from slotwise.service.storage import is_postgresql, open_postgresql, public_address, sqlite_path
from slotwise.service.storage.contract import Operation, PurgeViews, Store
from slotwise.service.storage.schema import SCHEMA_VERSION, Row, metadata, store_clock
from slotwise.service.storage.sql_reads import StoreReader
from slotwise.service.storage.sqlite import (
    SqliteFile,
    SqliteStore,
    WriterLock,
    create_private,
)
from slotwise.service.storage.verify import Verification, verify

if TYPE_CHECKING:
    from slotwise.service.storage.postgresql import PostgresqlStore


def existing_store(path: Path) -> Path:
    """Return the path of an existing store, or raise `MissingData`."""
    if not path.is_file():
        raise MissingData(f"there is no store at {path}; name it with --store")
    return path


def open_existing(address: str) -> Store:
    """Open a store to write it; one in a file must not be in use, one in PostgreSQL may be."""
    if is_postgresql(address):
        return open_postgresql(address)
    return SqliteStore(existing_store(sqlite_path(address)))


def open_existing_to_read(address: str) -> Store | SqliteFile:
    """Open a store to read it; a service may use it, start and stop meanwhile.

    A store in a file is not locked, unless it has an older schema: it is then migrated first, as a
    running service would have done.
    """
    if is_postgresql(address):
        return open_postgresql(address)
    path = existing_store(sqlite_path(address))
    if not _has_present_schema(path):
        with suppress(StoreUnavailable):
            SqliteStore(path).close()
    return SqliteFile(path)


def _has_present_schema(path: Path) -> bool:
    """Return whether a file is a store that needs no migration; does not write."""
    try:
        with closing(sqlite3.connect(path)) as connection:
            found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.DatabaseError:
        return False
    return bool(found == (SCHEMA_VERSION,))


def only_sqlite(address: str, command: str, instead: str) -> Path:
    """Return the file of a SQLite store; for PostgreSQL raise an error with advice."""
    if is_postgresql(address):
        rule = f"a SQLite file for `slotwise {command}`"
        raise InvalidInput.of("store", rule, public_address(address), instead)
    return sqlite_path(address)


_PAGES_A_STEP = 1_000
"""Pages copied in one step; the service may write between two steps."""


def back_up(store: Path, target: Path) -> None:
    """Copy a consistent state of a store to a new file; the store may be in use.

    The copy gets its name only when it is complete and on disk. It is not verified: that would read
    every row, and `restore` verifies it in any case.
    """
    existing_store(store)
    if target.exists():
        raise InvalidInput.of("target", "a new file", str(target))
    partial = target.with_name(target.name + ".partial")
    try:
        _remove(partial)
        create_private(partial)
        with closing(sqlite3.connect(store)) as source, closing(sqlite3.connect(partial)) as copy:
            _check_contents(source, store)
            source.backup(copy, pages=_PAGES_A_STEP)
            # A copy is one file, without a separate write-ahead log.
            copy.execute("PRAGMA journal_mode = DELETE")
        force_to_disk(partial)
        partial.rename(target)
        force_to_disk(target.parent)
    except OSError as error:
        raise StoreUnavailable(f"the backup {target} cannot be written: {error}") from error
    except sqlite3.DatabaseError as error:
        raise StoreUnavailable(f"the store {store} cannot be copied: {error}") from error
    finally:
        with suppress(OSError):
            _remove(partial)


def restore(backup: Path, store: Path, overwrite: bool = False) -> Verification:
    """Replace the store by a verified copy of a backup; the service must be stopped.

    An existing store is only replaced with `overwrite`, and is then renamed with the suffix
    `.replaced`.
    """
    if not backup.is_file():
        raise MissingData(f"there is no backup at {backup}")
    if store.exists() and not overwrite:
        advice = "give --overwrite to replace it"
        raise InvalidInput.of("store", "a place without a store", str(store), advice)
    lock = WriterLock(store)
    fresh = store.with_name(store.name + ".restoring")
    _remove(fresh)
    try:
        back_up(backup, fresh)
        report = _verified(fresh)
        if store.exists():
            _take_over(store)
            store.replace(store.with_name(store.name + ".replaced"))
            for ending in ("-wal", "-shm"):
                store.with_name(store.name + ending).unlink(missing_ok=True)
        fresh.rename(store)
        force_to_disk(store.parent)
        return report
    finally:
        _remove(fresh)
        lock.release()


def _check_contents(connection: sqlite3.Connection, path: Path) -> None:
    """Check that a file has the tables of a store and no triggers, views or virtual tables."""
    connection.execute("PRAGMA trusted_schema = OFF")
    found = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    if "alembic_version" not in {name for _, name, _ in found}:
        raise UnsupportedState(f"{path.name} is a database, but not a store of slotwise")
    for kind, name, sql in found:
        is_virtual = (sql or "").upper().startswith("CREATE VIRTUAL")
        if kind in ("trigger", "view") or is_virtual:
            raise UnsupportedState(
                f"{path.name} has a {'virtual table' if is_virtual else kind} {name!r}, which no "
                "store of slotwise has; remove it with sqlite3 if you know what it is"
            )


def _verified(path: Path) -> Verification:
    """Verify a store that is not in use, and leave one file."""
    with closing(SqliteStore(path)) as store:
        report = verify(store)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    if report.damage:
        raise UnsupportedState(f"{path.name} is damaged: {report.damage}")
    if report.mismatches:
        raise UnsupportedState(f"{path.name} does not add up: {report.mismatches[0]}")
    return report


def _take_over(store: Path) -> None:
    """Raise `StoreUnavailable` when another process has the store open."""
    try:
        with closing(sqlite3.connect(store, timeout=0, isolation_level=None)) as connection:
            # Leaving WAL mode requires that no other connection is open.
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("COMMIT")
    except sqlite3.DatabaseError as error:
        raise StoreUnavailable(f"stop the service first: {store} is in use ({error})") from error


def force_to_disk(path: Path) -> None:
    """Force a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    for ending in ("", "-journal", "-wal", "-shm", ".lock"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


_CLOCK = ("closed_until_us", "latest_us", "n_resets", "learner_epoch")


_SqlStore: TypeAlias = "SqliteStore | PostgresqlStore"


class Moved(NamedTuple):
    """The contents of the target after a move."""

    n_rows: int
    verification: Verification


def move_store(source: str, target: str, tell: Callable[[float], None] = lambda _: None) -> Moved:
    """Copy all rows of an unused store to an empty one; `tell` is called with the share done.

    After an interruption, the next call continues where it stopped: every table is copied in key
    order, and the target records its source. No service opens the target before the move is
    complete and every row has been compared.
    """
    if not is_postgresql(source):
        existing_store(sqlite_path(source))
    if public_address(source) == public_address(target):
        raise InvalidInput.of("target", "another store than the source", public_address(target))
    with _alone(source) as old, _alone(target) as new:
        _begin(old, new, source, target)
        tables = [table for table in metadata.sorted_tables if table is not store_clock]
        sizes = {table.name: _n_rows(old, table) for table in tables}
        n_done, n_all = 0, 2 * sum(sizes.values()) or 1
        for step in (_copy, _compare):
            for table in tables:
                for n_rows in step(old, new, table):
                    n_done += n_rows
                    tell(n_done / n_all)
        verification = verify(new)
        if verification.mismatches:
            raise UnsupportedState(f"the store does not add up: {verification.mismatches[0]}")
        # The clock comes last: it marks the move as complete.
        [values] = _fetch(old, f"SELECT {', '.join(_CLOCK)} FROM store_clock")
        _set_clock(new, moving_from="", **dict(zip(_CLOCK, values, strict=True)))
        return Moved(sum(sizes.values()), verification)


@contextmanager
def _alone(address: str) -> Iterator[_SqlStore]:
    """Use a store exclusively, while no service runs on it."""
    is_shared = is_postgresql(address)
    opened = open_postgresql(address) if is_shared else SqliteStore(sqlite_path(address))
    with closing(opened) as store, store.alone():
        yield store


def _fetch(store: _SqlStore, sql: str, **parameters: object) -> list[tuple[Any, ...]]:
    with store.transaction() as session:
        return session.fetch(sql, **parameters)


def _begin(old: _SqlStore, new: _SqlStore, source: str, target: str) -> None:
    [(still_moving,)] = _fetch(old, "SELECT moving_from FROM store_clock")
    if still_moving:
        raise UnsupportedState(
            f"{public_address(source)} is incomplete: finish its move from {still_moving}"
        )
    [(moving_from,)] = _fetch(new, "SELECT moving_from FROM store_clock")
    if moving_from == public_address(source):
        return
    if moving_from or any(
        _n_rows(new, table) for table in metadata.sorted_tables if table is not store_clock
    ):
        rule = "an empty place, or one that this move was interrupted at"
        raise InvalidInput.of("target", rule, public_address(target))
    _set_clock(new, moving_from=public_address(source))


def _set_clock(store: _SqlStore, **values: object) -> None:
    updates = ", ".join(f"{name} = :{name}" for name in values)
    with store.transaction() as session:
        session.execute(f"UPDATE store_clock SET {updates}", **values)


def _n_rows(store: _SqlStore, table: Table) -> int:
    return int(_fetch(store, f"SELECT COUNT(*) FROM {table.name}")[0][0])


def _rows(store: _SqlStore, table: Table, start: int) -> Iterator[Sequence[Row]]:
    """Yield the rows of a table in the order of its key, after the first `start` rows."""
    with store.reading() as reader:
        yield from reader.all_rows(table, start)


def _copy(old: _SqlStore, new: _SqlStore, table: Table) -> Iterator[int]:
    n_there = _n_rows(new, table)
    yield n_there
    for rows in _rows(old, table, n_there):
        with new.transaction() as session:
            session.insert(table, rows)
        yield len(rows)


def _compare(old: _SqlStore, new: _SqlStore, table: Table) -> Iterator[int]:
    """Raise `UnsupportedState` unless both have the same rows."""
    both = zip(_rows(old, table, 0), _rows(new, table, 0), strict=False)
    n_same = 0
    for ours, theirs in both:
        if [_as_stored(row) for row in ours] != [_as_stored(row) for row in theirs]:
            break
        n_same += len(ours)
        yield len(ours)
    if n_same != _n_rows(old, table) or n_same != _n_rows(new, table):
        raise UnsupportedState(f"the rows of {table.name} differ after the move; start it again")


def _as_stored(row: Row) -> tuple[Any, ...]:
    """Return a row without the character 0, which PostgreSQL cannot store."""
    return tuple(one.replace("\0", "\ufffd") if isinstance(one, str) else one for one in row)


STEP = 500
"""Views of one commit; limits how long other writes wait for it."""
MAX_STEPS = 100
"""Commits for one pool in one call; the rest is deleted in the next."""


def purge(
    reading: Callable[[], AbstractContextManager[StoreReader]],
    commit: Callable[[Operation], object],
    before_us: int,
    max_steps: int = MAX_STEPS,
) -> int:
    """Delete rows that closed before a time, in at most `max_steps` commits for each pool.

    Returns how many views and waiting events were deleted.
    """
    with reading() as reader:
        pool_ids = [pool.pool_id for pool in reader.pools()]
    n_purged = 0
    for pool_id in pool_ids:
        for _ in range(max_steps):
            answer = commit(PurgeViews(pool_id=pool_id, before_us=before_us, limit=STEP))
            assert isinstance(answer, int)
            n_purged += answer
            if answer < STEP:
                break
    return n_purged


_ABOUT_CHANGES = ("pools", "links", "keys", "changes", "ended_sessions")
_TIMES = {"links": ["counted_from_us"]} | {
    table.name: [column.name for column in table.columns if column.name.endswith("_us")]
    for table in metadata.sorted_tables
    if table.name not in _ABOUT_CHANGES
}
"""The columns, by table, with times on which counts depend; 0 means none."""


def set_times_back(path: Path, now_us: int) -> int:
    """Set all times of a store back by as much as its latest one is in the future.

    Returns by how much, 0 when nothing is in the future. Since all times move together, feedback
    stays in its window, and every counter still equals its rows. Policies that learn view by view
    learn again from the rows.
    """
    SqliteStore(path).close()  # a store of an earlier format is migrated
    lock = WriterLock(path)
    try:
        with closing(sqlite3.connect(path)) as connection, connection:
            clock: tuple[int, int]
            [clock] = connection.execute("SELECT closed_until_us, latest_us FROM store_clock")
            by_us = max(0, *(time_us - now_us for time_us in clock))
            if by_us:
                for table, columns in _TIMES.items():
                    for column in columns:
                        connection.execute(
                            f"UPDATE {table} SET {column} = max({column} - ?, 0) "
                            f"WHERE {column} > 0",
                            (by_us,),
                        )
                connection.execute("UPDATE learned SET state = x''")
            return by_us
    finally:
        lock.release()
