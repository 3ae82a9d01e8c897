"""Back up a SQLite store while it is in use, and restore it.

Used by `cli` and `reporting`.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from slotwise.errors import InvalidInput, MissingData, UnsupportedState
from slotwise.service.refusals import StoreUnavailable
from slotwise.service.storage.maintenance import existing_store
from slotwise.service.storage.sqlite import SqliteStore, WriterLock, create_private
from slotwise.service.storage.verify import Verification, verify

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
