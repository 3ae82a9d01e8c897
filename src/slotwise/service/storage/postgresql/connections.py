"""Connections to one PostgreSQL database, and its errors in one clear sentence."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore
from typing import Any

import psycopg
from psycopg import Connection, errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy.exc import DBAPIError

from slotwise.errors import InvalidInput
from slotwise.service.errors import StoreUnavailable

__all__ = ["Connections", "postgresql_errors"]

MAX_READERS = 16
"""Reads under way at once; more wait for one of them."""
MAX_IDLE = 8
_DEFAULTS = {
    "connect_timeout": "3",
    "application_name": "slotwise",
    # A machine that vanishes says nothing: without these a write would wait for minutes.
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
_SLOW_S = 0.5
_REST_S = 1.0
"""After an attempt to connect that took long, others fail at once for so long."""
_OUTAGES = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.InternalError,
    errors.InsufficientPrivilege,
    errors.UndefinedTable,
)


class Connections:
    """Opens connections and keeps those of readers for the next one.

    No connection has a state that outlives a transaction, so a pooler in transaction mode may
    stand between. A call that needs a new connection opens it itself: the pool of psycopg opens
    them in a thread, so that a call would wait for its whole timeout while the server is down.
    """

    def __init__(self, address: str, shown: str = "") -> None:
        self.shown = shown or "in PostgreSQL"
        try:
            given = conninfo_to_dict(address)
        except psycopg.ProgrammingError as error:
            rule = "an address such as postgresql://user@host/database"
            raise InvalidInput.of("store", rule, self.shown, str(error).strip()) from None
        self._conninfo = make_conninfo("", **(_DEFAULTS | given))
        self._idle: list[Connection[tuple[Any, ...]]] = []
        self._reading = BoundedSemaphore(MAX_READERS)
        self._failed_at = -_REST_S
        self._failure = ""
        self.closed = False

    def connect(self) -> Connection[tuple[Any, ...]]:
        """Open a connection; each statement is a transaction of its own unless one is begun."""
        if self.closed:
            raise StoreUnavailable(f"the store {self.shown} is closed")
        started = time.monotonic()
        if started < self._failed_at + _REST_S:
            raise StoreUnavailable(self._failure)
        try:
            # Prepared statements belong to a session, which a pooler gives to others.
            return psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=None)
        except psycopg.OperationalError as error:
            self._failure = f"the store {self.shown} cannot be reached: {_reason(error)}"
            if time.monotonic() > started + _SLOW_S:
                self._failed_at = time.monotonic()
            raise StoreUnavailable(self._failure) from error

    @contextmanager
    def reading(self) -> Iterator[Connection[tuple[Any, ...]]]:
        """Return a connection inside a transaction that sees one moment."""
        begin = b"BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
        with self._reading:
            connection = self._begun(begin)
            try:
                yield connection
                connection.execute(b"ROLLBACK")
            except BaseException:
                connection.close()
                raise
            if self.closed or len(self._idle) >= MAX_IDLE:
                connection.close()
            else:
                self._idle.append(connection)

    def _begun(self, begin: bytes) -> Connection[tuple[Any, ...]]:
        """Begin on an idle connection, or on a new one where the idle ones are dead."""
        while self._idle and not self.closed:
            connection = self._idle.pop()
            try:
                connection.execute(begin)
            except psycopg.Error:
                connection.close()
            else:
                return connection
        connection = self.connect()
        connection.execute(begin)
        return connection

    def close(self) -> None:
        """Close what is idle; safe to call twice."""
        self.closed = True
        while self._idle:
            self._idle.pop().close()


@contextmanager
def postgresql_errors() -> Iterator[None]:
    """Turn what makes a database unusable for now into `StoreUnavailable`.

    A broken constraint and a wrong statement are no outage but a mistake in the code: they are
    raised as they are.
    """
    try:
        yield
    except (*_OUTAGES, DBAPIError) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        if not isinstance(cause, _OUTAGES):
            raise
        raise StoreUnavailable(f"the store cannot be used now: {_reason(cause)}") from error


def _reason(error: psycopg.Error) -> str:
    """Return what the database said, in one line and without the place that it said it at."""
    if error.diag.message_primary:
        return error.diag.message_primary
    lines = str(error).strip().splitlines()
    fatal = [line.rpartition("FATAL:")[2] for line in lines if "FATAL:" in line]
    return (fatal or lines or [type(error).__name__])[-1].strip()
