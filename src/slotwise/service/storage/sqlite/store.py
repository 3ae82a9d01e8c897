"""The embedded store: one SQLite file, durable at every commit, readable while it is written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Lock

from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from slotwise.service.errors import StoreUnavailable
from slotwise.service.storage.commands import Operation
from slotwise.service.storage.migrations import upgrade
from slotwise.service.storage.sql.batch import SqlBatch
from slotwise.service.storage.sqlite.file import (
    SqliteFile,
    connect_to_write,
    create_private,
    sqlite_errors,
)
from slotwise.service.storage.sqlite.recount import count_clipped_amounts
from slotwise.service.storage.sqlite.session import SqliteSession
from slotwise.service.storage.sqlite.writer_lock import WriterLock

__all__ = ["SqliteStore", "migrate", "open_for_reading"]

_ALL_COUNTED = "v0010"
"""Stores of this version and later have no row that `count_clipped_amounts` looks for."""


def migrate(path: Path, busy_timeout_s: float) -> None:
    """Bring the schema of a file to the present version, in one transaction."""
    engine = create_engine(
        "sqlite://", creator=lambda: connect_to_write(path, busy_timeout_s), poolclass=NullPool
    )
    with engine.connect() as connection:
        # The driver would begin a transaction only with the first change of a row.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        before = upgrade(connection)
        if before is not None and before < _ALL_COUNTED:
            driver = connection.connection.driver_connection
            assert isinstance(driver, sqlite3.Connection)
            count_clipped_amounts(SqliteSession(driver))
        connection.commit()


class SqliteStore(SqliteFile):
    """Keeps everything in one SQLite file; the class `Store` says what that means.

    It is the only writer: a second one, in this or another process, is refused. A file of an
    older version is migrated when it is opened. A file that cannot be used raises
    `StoreUnavailable` and drops the connection it came over; the next call tries a fresh one.
    """

    sharing = None

    def __init__(
        self, path: Path | str, busy_timeout_s: float = 5.0, lock: WriterLock | None = None
    ) -> None:
        super().__init__(path, busy_timeout_s)
        self._write_lock = Lock()
        self._writer: sqlite3.Connection | None = None
        self._lock = lock or WriterLock(self._path)
        try:
            with self._write_lock, sqlite_errors():
                create_private(self._path)
                self._check_file()
                self._open_writer()
        except BaseException:
            self.close()
            raise

    def commit(self, operations: Sequence[Operation]) -> list[object]:
        """Apply all operations in one transaction; None unless the operation answers."""
        with self.transaction() as session:
            return SqlBatch(session).apply(operations)

    @contextmanager
    def transaction(self) -> Iterator[SqliteSession]:
        """Write in one transaction."""
        with self._write_lock, sqlite_errors():
            self._check_file()
            connection = self._writer or self._open_writer()
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield self._session(connection)
                connection.execute("COMMIT")
            except sqlite3.Error:
                self._drop_writer()
                raise
            except BaseException:
                connection.execute("ROLLBACK")
                raise

    def alone(self) -> AbstractContextManager[None]:
        """Do nothing: a store in a file has one writer, which is this one."""
        return nullcontext()

    def check(self) -> None:
        """Raise `StoreUnavailable` when the store cannot be written."""
        self.commit(())

    def close(self) -> None:
        """Release files, connections and the lock; safe to call twice."""
        with self._write_lock:
            super().close()
            self._drop_writer()
            self._lock.release()

    def _open_writer(self) -> sqlite3.Connection:
        migrate(self._path, self._busy_timeout_s)
        self._writer = connect_to_write(self._path, self._busy_timeout_s)
        return self._writer

    def _session(self, connection: sqlite3.Connection) -> SqliteSession:
        return SqliteSession(connection)

    def _drop_writer(self) -> None:
        if self._writer is not None:
            with suppress(sqlite3.Error):
                self._writer.close()
            self._writer = None


def open_for_reading(path: Path) -> SqliteFile:
    """Open a store to read it: beside its writer, or as the writer when there is none.

    Only then can a file of an older version be migrated; a running service has done so.
    """
    try:
        return SqliteStore(path)
    except StoreUnavailable:
        return SqliteFile(path)
