"""Copy a SQLite store while it is in use, and put a copy in its place."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from slotwise.errors import InvalidInput, MissingData, UnsupportedState
from slotwise.service.errors import StoreUnavailable
from slotwise.service.storage.existing import existing_store
from slotwise.service.storage.sqlite.file import create_private
from slotwise.service.storage.sqlite.store import SqliteStore
from slotwise.service.storage.sqlite.writer_lock import WriterLock
from slotwise.service.storage.verify import Verification, verify

__all__ = ["back_up", "restore"]

_PAGES_A_STEP = 1_000
"""Pages copied between two chances for the service to write."""


def back_up(store: Path, target: Path) -> None:
    """Copy a store to a new file, at one moment; the store may be in use.

    The copy appears under its name only when it is whole and on disk. It is not verified: that
    reads every row, and `restore` does it in any case.
    """
    existing_store(store)
    if target.exists():
        raise InvalidInput.of("target", "a new file", str(target))
    partial = target.with_name(target.name + ".partial")
    _remove(partial)
    try:
        create_private(partial)
        with closing(sqlite3.connect(store)) as source, closing(sqlite3.connect(partial)) as copy:
            _check_contents(source, store)
            source.backup(copy, pages=_PAGES_A_STEP)
            # A copy is one file: everything in it, nothing in a log beside it.
            copy.execute("PRAGMA journal_mode = DELETE")
        _force_to_disk(partial)
        partial.rename(target)
        _force_to_disk(target.parent)
    except OSError as error:
        raise StoreUnavailable(f"the backup {target} cannot be written: {error}") from error
    except sqlite3.DatabaseError as error:
        raise StoreUnavailable(f"the store {store} cannot be copied: {error}") from error
    finally:
        _remove(partial)


def restore(backup: Path, store: Path, overwrite: bool = False) -> Verification:
    """Put a verified copy of a backup where the store is; the service must be stopped.

    A store that is there already is only replaced when asked, and kept beside the new one
    with the ending `.replaced`.
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
        _force_to_disk(store.parent)
        return report
    finally:
        _remove(fresh)
        lock.release()


def _check_contents(connection: sqlite3.Connection, path: Path) -> None:
    """Check that a file holds the tables of a store and nothing that runs by itself."""
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
    """Verify a store that nobody else uses, and leave one file."""
    store = SqliteStore(path)
    try:
        report = verify(store)
    finally:
        store.close()
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
            # Leaving WAL needs every other connection to be gone.
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("COMMIT")
    except sqlite3.DatabaseError as error:
        raise StoreUnavailable(f"stop the service first: {store} is in use ({error})") from error


def _force_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    for ending in ("", "-journal", "-wal", "-shm", ".lock"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
