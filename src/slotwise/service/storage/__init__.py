"""Where the service keeps what it must not lose: the contract, its stores, backup and verification.

Knows no policy. It may import `counting` and the service's records.
"""

from __future__ import annotations

from pathlib import Path

from slotwise.errors import InvalidInput
from slotwise.service.storage.contract import Store, StoreReader
from slotwise.service.storage.memory import MemoryStore
from slotwise.service.storage.sqlite.store import SqliteStore

__all__ = ["MemoryStore", "SqliteStore", "Store", "StoreReader", "open_store", "sqlite_path"]


def open_store(address: str) -> Store:
    """Open the store at an address; an empty place gets a new store.

    `sqlite:///shop.sqlite` (or just a path) is a file, relative to the working directory;
    `sqlite:////var/lib/shop.sqlite` an absolute one; `memory:` lasts as long as the process.

    >>> with open_store("memory:").reading() as reader:
    ...     reader.pools()
    []
    """
    if address == "memory:":
        return MemoryStore()
    return SqliteStore(sqlite_path(address))


def sqlite_path(address: str) -> Path:
    """Return the file of a SQLite address.

    >>> sqlite_path("sqlite:///shop.sqlite").name
    'shop.sqlite'
    >>> sqlite_path("postgresql://db/shop")
    Traceback (most recent call last):
    slotwise.errors.InvalidInput: `store` must be a path, sqlite:///path or memory:, ...
    """
    path = address.removeprefix("sqlite:///")
    if not path or "://" in path or path == "memory:":
        raise InvalidInput.of("store", "a path, sqlite:///path or memory:", address)
    return Path(path)
