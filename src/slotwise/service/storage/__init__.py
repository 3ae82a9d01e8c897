"""Durable storage of the service: the contract, its stores, backup and verification.

Independent of policies. May import `counting` and the service's records.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from slotwise.errors import InvalidInput
from slotwise.extras import missing_package
from slotwise.service.storage.contract import Store
from slotwise.service.storage.sqlite import SqliteStore
from slotwise.service.storage.writer_process import ProcessStore

if TYPE_CHECKING:
    from slotwise.service.storage.postgresql import PostgresqlStore


def open_store(address: str, direct: str = "", separate_writer: bool = False) -> Store:
    """Open the store at an address; create it if there is none.

    `sqlite:///shop.sqlite` (or just a path) is a file, relative to the working directory;
    `sqlite:////var/lib/shop.sqlite` an absolute one; `postgresql://user@host/database` is shared
    with other processes. `direct` is another address of the same PostgreSQL database, for sessions,
    if the first one is a pooler's. With `separate_writer` a separate process writes the file.
    """
    if is_postgresql(address):
        return open_postgresql(address, direct)
    return (ProcessStore if separate_writer else SqliteStore)(sqlite_path(address))


def is_postgresql(address: str) -> bool:
    """Return whether an address is one of PostgreSQL."""
    return address.startswith(("postgresql://", "postgres://"))


def open_postgresql(address: str, direct: str = "") -> PostgresqlStore:
    """Open a store in PostgreSQL; its driver is an optional dependency."""
    try:
        from slotwise.service.storage.postgresql import PostgresqlStore
    except ModuleNotFoundError as error:
        raise missing_package("a store in PostgreSQL", error) from None
    return PostgresqlStore(address, direct, public_address(address))


def public_address(address: str) -> str:
    """Return an address without its password, to be printed.

    >>> public_address("postgresql://shop:secret@db/shop?sslmode=require")
    'postgresql://shop@db/shop?sslmode=require'
    >>> public_address("shop.db")
    'shop.db'
    """
    scheme, found, rest = address.partition("://")
    user, at, place = rest.rpartition("@")
    place, _, query = place.partition("?")
    kept = "&".join(one for one in query.split("&") if one and not one.startswith("password="))
    return f"{scheme}{found}{user.partition(':')[0]}{at}{place}" + (f"?{kept}" if kept else "")


def sqlite_path(address: str) -> Path:
    """Return the file of a SQLite address.

    >>> sqlite_path("sqlite:///shop.sqlite").name
    'shop.sqlite'
    >>> sqlite_path("mysql://db/shop")
    Traceback (most recent call last):
    slotwise.errors.InvalidInput: `store` must be a path, sqlite:///path or postgresql://...
    """
    path = address.removeprefix("sqlite:///")
    if not path or "://" in path or path.endswith("memory:"):  # SQLite's name of no file
        rule = "a path, sqlite:///path or postgresql://user@host/database"
        raise InvalidInput.of("store", rule, public_address(address))
    return Path(path)
