"""Maintenance of stores: open those that exist, purge views and shift times.

Used by `backup`, `cli`, `learning` and `move_store`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path

from slotwise.errors import InvalidInput, MissingData
from slotwise.service.refusals import StoreUnavailable
from slotwise.service.storage import is_postgresql, open_postgresql, public_address, sqlite_path
from slotwise.service.storage.contract import Operation, PurgeViews, Store
from slotwise.service.storage.schema import SCHEMA_VERSION, metadata
from slotwise.service.storage.sql_reads import StoreReader
from slotwise.service.storage.sqlite import SqliteFile, SqliteStore, WriterLock


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
