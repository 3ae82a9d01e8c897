"""A SQLite file that holds a store: its connections, its reads, and whether it is still there."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import DatabaseError

from slotwise.service.errors import StoreUnavailable
from slotwise.service.storage.contract import StoreReader
from slotwise.service.storage.sql.reads import SqlReader
from slotwise.service.storage.sqlite.session import SqliteSession

__all__ = ["SqliteFile", "connect", "connect_to_write", "create_private", "sqlite_errors"]

_PRAGMAS = (
    "PRAGMA cache_size = -32768",
    "PRAGMA temp_store = MEMORY",  # else every large statement makes and removes a file
    "PRAGMA trusted_schema = OFF",
)


def create_private(path: Path) -> None:
    """Create a file that only its owner can read, unless it is there; SQLite copies its mode."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise StoreUnavailable(f"the store {path} cannot be opened: {error.strerror}") from error


def connect(path: Path, busy_timeout_s: float) -> sqlite3.Connection:
    """Open a SQLite file for reading; nothing in it is changed."""
    connection = sqlite3.connect(
        path, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False
    )
    for pragma in _PRAGMAS:
        connection.execute(pragma)
    return connection


def connect_to_write(path: Path, busy_timeout_s: float) -> sqlite3.Connection:
    """Open a SQLite file for writing: WAL, and every commit forced to disk."""
    connection = connect(path, busy_timeout_s)
    for pragma in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL"):
        connection.execute(pragma)
    return connection


class SqliteFile:
    """Reads a store that another process may be writing; the file has the present schema."""

    def __init__(self, path: Path | str, busy_timeout_s: float = 5.0) -> None:
        self._path = Path(path)
        self._busy_timeout_s = busy_timeout_s
        self._idle_readers: list[sqlite3.Connection] = []
        self._closed = False
        self._identity: tuple[int, int] | None = None

    @contextmanager
    def reading(self) -> Iterator[StoreReader]:
        """Return a reader of this moment."""
        with sqlite_errors():
            self._check_file()
            try:
                connection = self._idle_readers.pop()
            except IndexError:
                connection = connect(self._path, self._busy_timeout_s)
            try:
                connection.execute("BEGIN")
                yield SqlReader(SqliteSession(connection))
                connection.execute("ROLLBACK")
            except BaseException:
                connection.close()
                raise
            if self._closed:
                connection.close()
            else:
                self._idle_readers.append(connection)

    def close(self) -> None:
        """Close the connections; safe to call twice."""
        self._closed = True
        while self._idle_readers:
            self._idle_readers.pop().close()

    def _check_file(self) -> None:
        """Raise `StoreUnavailable` when the file is closed, gone, or another one than at first.

        A connection would go on with a removed file, and what it commits would be lost.
        """
        if self._closed:
            raise StoreUnavailable(f"the store {self._path.name} is closed")
        try:
            found = self._path.stat()
        except OSError as error:
            raise StoreUnavailable(f"the store {self._path} is gone: {error.strerror}") from error
        identity = (found.st_dev, found.st_ino)
        if self._identity is None:
            self._identity = identity
        elif identity != self._identity:
            raise StoreUnavailable(
                f"the store {self._path} was replaced by another file; put it back or restart"
            )


@contextmanager
def sqlite_errors() -> Iterator[None]:
    """Turn what makes a file unusable for now into `StoreUnavailable`.

    A broken constraint and a wrong statement (`SQLITE_ERROR`) are no outage but a mistake in
    the code: they are raised as they are.
    """
    try:
        yield
    except (sqlite3.DatabaseError, DatabaseError) as error:
        cause = error.orig if isinstance(error, DatabaseError) else error
        code = getattr(cause, "sqlite_errorcode", None)
        outage = type(cause) in (sqlite3.OperationalError, sqlite3.DatabaseError)
        if outage and code != sqlite3.SQLITE_ERROR:
            raise StoreUnavailable(f"the store cannot be used now: {cause}") from error
        raise
