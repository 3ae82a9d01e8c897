"""Copy a SQLite store while it is in use, and put a copy in its place."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from slotwise.errors import InvalidInput, MissingData, UnsupportedState
from slotwise.service.errors import StoreUnavailable
from slotwise.service.storage.sqlite.store import SqliteStore
from slotwise.service.storage.verify import Verification, verify

__all__ = ["back_up", "existing_store", "restore"]

_PAGES_A_STEP = 1_000
"""Pages copied between two chances for the service to write."""


def existing_store(path: Path) -> Path:
    """Return the path of a store that is there, or raise `MissingData`."""
    if not path.is_file():
        raise MissingData(f"there is no store at {path}; name it with --store")
    return path


def back_up(store: Path, target: Path) -> Verification:
    """Copy a store to a new file, at one moment, and check the copy; the store may be in use.

    The copy appears under its name only when it is whole, checked and on disk.
    """
    existing_store(store)
    if target.exists():
        raise InvalidInput.of("target", "a new file", str(target))
    partial = target.with_name(target.name + ".partial")
    partial.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(store)) as source, closing(sqlite3.connect(partial)) as copy:
            source.backup(copy, pages=_PAGES_A_STEP)
            # A copy is one file: everything in it, nothing in a log beside it.
            copy.execute("PRAGMA journal_mode = DELETE")
        report = _check(partial)
        _force_to_disk(partial)
        partial.rename(target)
        _force_to_disk(target.parent)
        return report
    except sqlite3.DatabaseError as error:
        raise StoreUnavailable(f"the store {store} cannot be copied: {error}") from error
    finally:
        _remove(partial)


def restore(backup: Path, store: Path, overwrite: bool = False) -> Verification:
    """Put a checked copy of a backup where the store is; the service must be stopped.

    A store that is there already is only replaced when asked, and kept beside the new one
    with the ending `.replaced`.
    """
    if not backup.is_file():
        raise MissingData(f"there is no backup at {backup}")
    if store.exists() and not overwrite:
        advice = "give --overwrite to replace it"
        raise InvalidInput.of("store", "a place without a store", str(store), advice)
    fresh = store.with_name(store.name + ".restoring")
    _remove(fresh)
    try:
        report = back_up(backup, fresh)
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


def _check(path: Path) -> Verification:
    """Check that a file is a whole store of a known version whose counters equal its rows."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("PRAGMA integrity_check").fetchall()
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    if found != [("ok",)]:
        raise UnsupportedState(f"{path.name} is damaged: {found[0][0]}")
    if "alembic_version" not in tables:
        raise UnsupportedState(f"{path.name} is a database, but not a store of slotwise")
    store = SqliteStore(path)
    try:
        report = verify(store)
    finally:
        store.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    if report.mismatches:
        raise UnsupportedState(f"{path.name} does not add up: {report.mismatches[0]}")
    return report


def _take_over(store: Path) -> None:
    """Raise `StoreUnavailable` when another process has the store open for writing."""
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
    for ending in ("", "-journal", "-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
