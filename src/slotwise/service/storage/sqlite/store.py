"""The embedded store: one SQLite file, durable at every commit, readable while it is written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

from sqlalchemy import create_engine
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import NullPool

from slotwise.service.errors import StoreUnavailable
from slotwise.service.storage.commands import Operation
from slotwise.service.storage.contract import StoreReader
from slotwise.service.storage.migrations import upgrade
from slotwise.service.storage.sqlite.batch import SqliteBatch
from slotwise.service.storage.sqlite.reads import SqliteReader

__all__ = ["SqliteStore", "connect", "migrate"]

_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA cache_size = -32768",
    "PRAGMA temp_store = MEMORY",  # else every large statement makes and removes a file
)


def connect(path: Path, busy_timeout_s: float) -> sqlite3.Connection:
    """Open a SQLite file as this store needs it: WAL, and every commit forced to disk."""
    connection = sqlite3.connect(
        path, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False
    )
    for pragma in _PRAGMAS:
        connection.execute(pragma)
    return connection


def migrate(path: Path, busy_timeout_s: float) -> None:
    """Bring the schema of a file to the present version, in one transaction."""
    engine = create_engine(
        "sqlite://", creator=lambda: connect(path, busy_timeout_s), poolclass=NullPool
    )
    with engine.connect() as connection:
        # The driver would begin a transaction only with the first change of a row.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        upgrade(connection)
        connection.commit()


class SqliteStore:
    """Keeps everything in one SQLite file; `StoreContract` says what that means.

    A file of an older version is migrated when it is opened. A file that cannot be used raises
    `StoreUnavailable` and drops the connection it came over; the next call tries a fresh one.
    """

    def __init__(self, path: Path | str, busy_timeout_s: float = 5.0) -> None:
        self._path = Path(path)
        self._busy_timeout_s = busy_timeout_s
        self._write_lock = Lock()
        self._writer: sqlite3.Connection | None = None
        self._idle_readers: list[sqlite3.Connection] = []
        self._closed = False
        with self._write_lock, _as_unavailable():
            self._open_writer()

    def commit(self, operations: Sequence[Operation]) -> list[object]:
        """Apply all operations in one transaction; None unless the operation answers."""
        with self._write_lock, _as_unavailable():
            connection = self._writer or self._open_writer()
            try:
                connection.execute("BEGIN IMMEDIATE")
                answers = SqliteBatch(connection).apply(operations)
                connection.execute("COMMIT")
            except sqlite3.Error:
                self._drop_writer()
                raise
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            return answers

    def check(self) -> None:
        """Raise `StoreUnavailable` when the store cannot be written."""
        self.commit(())

    def close(self) -> None:
        """Release files and connections; safe to call twice."""
        with self._write_lock:
            self._closed = True
            while self._idle_readers:
                self._idle_readers.pop().close()
            self._drop_writer()

    @contextmanager
    def reading(self) -> Iterator[StoreReader]:
        """Return a reader of this moment."""
        with _as_unavailable():
            if self._closed:
                raise StoreUnavailable(f"the store {self._path.name} is closed")
            try:
                connection = self._idle_readers.pop()
            except IndexError:
                connection = connect(self._path, self._busy_timeout_s)
            try:
                connection.execute("BEGIN")
                yield SqliteReader(connection)
                connection.execute("ROLLBACK")
            except BaseException:
                connection.close()
                raise
            if self._closed:
                connection.close()
            else:
                self._idle_readers.append(connection)

    def _open_writer(self) -> sqlite3.Connection:
        if self._closed:
            raise StoreUnavailable(f"the store {self._path.name} is closed")
        migrate(self._path, self._busy_timeout_s)
        self._writer = connect(self._path, self._busy_timeout_s)
        return self._writer

    def _drop_writer(self) -> None:
        if self._writer is not None:
            with suppress(sqlite3.Error):
                self._writer.close()
            self._writer = None


@contextmanager
def _as_unavailable() -> Iterator[None]:
    try:
        yield
    except (sqlite3.DatabaseError, DatabaseError) as error:
        cause = error.orig if isinstance(error, DatabaseError) else error
        if type(cause) in (sqlite3.OperationalError, sqlite3.DatabaseError):
            raise StoreUnavailable(f"the store cannot be used now: {cause}") from error
        raise  # a broken constraint or a wrong statement is no outage but a mistake in the code
