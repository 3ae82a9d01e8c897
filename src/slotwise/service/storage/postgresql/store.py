"""The shared store: one PostgreSQL database that many replicas write and read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from threading import Lock
from typing import Any

import psycopg
from psycopg import Connection, errors
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from slotwise.service.errors import StoreUnavailable
from slotwise.service.storage.commands import Operation
from slotwise.service.storage.contract import StoreReader
from slotwise.service.storage.migrations import upgrade
from slotwise.service.storage.postgresql.batch import (
    Clock,
    Outrun,
    PostgresqlBatch,
    needs_exclusive,
)
from slotwise.service.storage.postgresql.connections import Connections, postgresql_errors
from slotwise.service.storage.postgresql.locks import MIGRATING, WRITING, lock_sql
from slotwise.service.storage.postgresql.session import PostgresqlSession
from slotwise.service.storage.postgresql.sharing import PostgresqlSharing
from slotwise.service.storage.sql.reads import SqlReader

__all__ = ["PostgresqlStore"]

# All of it is gone with the transaction. A replica that stands still in the middle of one must not
# keep the others waiting, and a commit is on disk when it returns, whatever the server's default.
_BEGIN = """
    BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
    SET LOCAL idle_in_transaction_session_timeout = '4s';
    SET LOCAL lock_timeout = '10s';
    SET LOCAL statement_timeout = '60s';
    SELECT set_config('synchronous_commit', 'on', true)
    WHERE current_setting('synchronous_commit') = 'off';
"""
# The lock first: the clock must be read as it is when nobody can change it any more.
_READ_CLOCK = "SELECT closed_until_us, latest_us, n_resets, learner_epoch FROM store_clock"
_BEGIN_SHARED = f"{_BEGIN} SELECT {lock_sql(WRITING, shared=True)}; {_READ_CLOCK}".encode()
_BEGIN_EXCLUSIVE = f"{_BEGIN} SELECT {lock_sql(WRITING)}; {_READ_CLOCK}".encode()


class PostgresqlStore:
    """Keeps everything in one PostgreSQL database; the class `Store` says what that means.

    Any number of processes may have it open. Each writes over one connection and reads over
    others; `sharing` says which of them learns. `direct` is the address for what needs a session
    of its own, where `address` leads to a pooler in transaction mode; `shown` is the address
    without its password.
    """

    def __init__(self, address: str, direct: str = "", shown: str = "") -> None:
        self._connections = Connections(address, shown)
        self._write_lock = Lock()
        self._writer: Connection[tuple[Any, ...]] | None = None
        self._latest_us = 0
        self.sharing = PostgresqlSharing(Connections(direct or address, shown))
        try:
            with postgresql_errors():
                self._migrate()
                self.sharing.read_clock()
        except BaseException:
            self.close()
            raise

    def commit(self, operations: Sequence[Operation]) -> list[object]:
        """Apply all operations in one transaction; None unless the operation answers."""
        exclusive = needs_exclusive(operations)
        with self._write_lock, postgresql_errors():
            if exclusive:
                return self._transact(operations, exclusive=True)
            try:
                return self._transact(operations, exclusive=False)
            except (Outrun, errors.DeadlockDetected, errors.SerializationFailure):
                return self._transact(operations, exclusive=True)

    @contextmanager
    def transaction(self) -> Iterator[PostgresqlSession]:
        """Write in one transaction, while no replica does."""
        with self._write_lock, postgresql_errors():
            connection, _ = self._begin(_BEGIN_EXCLUSIVE)
            try:
                yield PostgresqlSession(connection)
                connection.execute(b"COMMIT")
            except BaseException:
                self._roll_back(connection)
                raise

    def alone(self) -> AbstractContextManager[None]:
        """Keep all replicas from learning; raise `StoreUnavailable` when one runs."""
        return self.sharing.alone()

    @contextmanager
    def reading(self) -> Iterator[StoreReader]:
        """Return a reader of this moment."""
        with postgresql_errors(), self._connections.reading() as connection:
            yield SqlReader(PostgresqlSession(connection))

    def check(self) -> None:
        """Raise `StoreUnavailable` when the store cannot be written."""
        self.commit(())

    def close(self) -> None:
        """Release all connections, and with them the lead; safe to call twice."""
        self.sharing.stop()
        with self._write_lock:
            self._connections.close()
            self._drop_writer()

    def _transact(self, operations: Sequence[Operation], exclusive: bool) -> list[object]:
        connection, clock = self._begin(_BEGIN_EXCLUSIVE if exclusive else _BEGIN_SHARED)
        clock = clock._replace(latest_us=max(clock.latest_us, self._latest_us))
        try:
            session = PostgresqlSession(connection)
            batch = PostgresqlBatch(session, clock, exclusive, self.sharing.used_epoch)
            answers = batch.apply(operations)
            connection.execute(b"COMMIT")
        except BaseException:
            self._roll_back(connection)
            raise
        self._latest_us = batch.latest_us
        return answers

    def _begin(self, begin: bytes) -> tuple[Connection[tuple[Any, ...]], Clock]:
        """Begin on the connection that writes, or on a new one when it is dead."""
        if self._connections.closed:
            raise StoreUnavailable(f"the store {self._connections.shown} is closed")
        if self._writer is not None:
            try:
                return self._writer, _last_row(self._writer, begin)
            except psycopg.OperationalError:
                if not self._writer.broken:
                    self._roll_back(self._writer)
                    raise
                self._drop_writer()
        self._writer = self._connections.connect()
        try:
            return self._writer, _last_row(self._writer, begin)
        except psycopg.Error:
            self._drop_writer()
            raise

    def _roll_back(self, connection: Connection[tuple[Any, ...]]) -> None:
        try:
            connection.execute(b"ROLLBACK")
        except psycopg.Error:
            self._drop_writer()

    def _drop_writer(self) -> None:
        if self._writer is not None:
            with suppress(psycopg.Error):
                self._writer.close()
            self._writer = None

    def _migrate(self) -> None:
        """Bring the schema to the present version, in one transaction; others wait for it."""
        engine = create_engine(
            "postgresql+psycopg://", creator=self._connections.connect, poolclass=NullPool
        )
        with engine.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            connection.exec_driver_sql(f"SELECT {lock_sql(MIGRATING)}")
            upgrade(connection)
            connection.exec_driver_sql("COMMIT")


def _last_row(connection: Connection[tuple[Any, ...]], begin: bytes) -> Clock:
    """Run the statements that begin a transaction and return the row of the last one."""
    cursor = connection.execute(begin)
    while cursor.nextset():
        pass
    [row] = cursor.fetchall()
    return Clock(*row)
