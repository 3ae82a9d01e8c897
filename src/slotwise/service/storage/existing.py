"""Open a store that is there already, for commands that must not make a new one."""

from __future__ import annotations

from pathlib import Path

from slotwise.errors import InvalidInput, MissingData
from slotwise.service.storage import (
    SqliteStore,
    Store,
    is_postgresql,
    open_postgresql,
    public_address,
    sqlite_path,
)
from slotwise.service.storage.sqlite.file import SqliteFile
from slotwise.service.storage.sqlite.store import open_for_reading

__all__ = ["existing_store", "only_sqlite", "open_existing", "open_existing_to_read"]


def existing_store(path: Path) -> Path:
    """Return the path of a store that is there, or raise `MissingData`."""
    if not path.is_file():
        raise MissingData(f"there is no store at {path}; name it with --store")
    return path


def open_existing(address: str) -> Store:
    """Open a store to write it; one in a file must not be in use, one in PostgreSQL may be."""
    if is_postgresql(address):
        return open_postgresql(address)
    return SqliteStore(existing_store(sqlite_path(address)))


def open_existing_to_read(address: str) -> Store | SqliteFile:
    """Open a store to read it, also beside a running service."""
    if is_postgresql(address):
        return open_postgresql(address)
    return open_for_reading(existing_store(sqlite_path(address)))


def only_sqlite(address: str, command: str, instead: str) -> Path:
    """Return the file of a SQLite store; for one in PostgreSQL say what to do instead."""
    if is_postgresql(address):
        rule = f"a SQLite file for `slotwise {command}`"
        raise InvalidInput.of("store", rule, public_address(address), instead)
    return sqlite_path(address)
