"""Which replica learns, what the time is, and when something changed: on a session of its own."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import psycopg
from psycopg import Connection

from slotwise.service.errors import StoreUnavailable
from slotwise.service.storage.postgresql.batch import CHANNEL
from slotwise.service.storage.postgresql.connections import Connections
from slotwise.service.storage.postgresql.locks import (
    LEARNING,
    STARTING,
    WRITING,
    lock_sql,
    try_session_lock_sql,
)

__all__ = ["PostgresqlSharing"]

_log = logging.getLogger(__name__)

_EVERY_S = 1.0
"""How often the session is used: proof that this process is alive, and a look for the lock."""
_LISTEN_S = 0.1
"""How long a stop may wait for the end of listening."""
_SILENT = "5s"
"""A process that stands still for so long loses its session, and with it the lock."""
_SET_UP = (
    f"SET idle_session_timeout = '{_SILENT}'",
    "SET lock_timeout = '5s'",
    "SET tcp_keepalives_idle = 2",
    "SET tcp_keepalives_interval = 1",
    "SET tcp_keepalives_count = 3",
    f"LISTEN {CHANNEL}",
)
_LEAD = "UPDATE store_clock SET learner_epoch = learner_epoch + 1 RETURNING learner_epoch"


class PostgresqlSharing:
    """One session that holds the learner's lock, listens, and reads the database's time.

    Whoever gets the lock takes the next epoch. Every write of a learner names the epoch that it
    took over with; the store refuses it when there is a later one. So a learner that stood still
    and wakes up changes nothing.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._stopping = Event()
        self._thread: Thread | None = None
        self._ahead_us = 0
        self.epoch: int | None = None
        """The epoch of this process while it holds the lock."""
        self.used_epoch: int | None = None
        """The epoch that the learner's writes name; None where there is no election."""

    def wall_us(self) -> int:
        """Return the time of day by the database's clock, which all replicas share."""
        return time.time_ns() // 1000 + self._ahead_us

    def read_clock(self) -> None:
        """Compare the clocks over a connection of its own."""
        with self._connections.connect() as connection:
            self._compare(connection)

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Let one replica at a time look for what a first start makes."""
        with self._connections.connect() as connection, connection.transaction():
            connection.execute(f"SELECT {lock_sql(STARTING)}".encode())
            yield

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the learner's lock, so that no replica can take it."""
        with self._connections.connect() as connection:
            locked = connection.execute(f"SELECT {try_session_lock_sql(LEARNING)}".encode())
            if locked.fetchall() != [(True,)]:
                raise StoreUnavailable(
                    f"the store {self._connections.shown} is in use; stop all replicas first"
                )
            yield

    def start(self, told: Callable[[], None]) -> None:
        """Stand for election; `told` is called when something changed, from another thread."""
        if self._thread is None:
            self.used_epoch = -1
            self._thread = Thread(
                target=self._run, args=(told,), name="slotwise-sharing", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """Give the lock back; safe to call twice."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        self._connections.close()

    def _run(self, told: Callable[[], None]) -> None:
        while not self._stopping.is_set():
            try:
                with self._connections.connect() as connection:
                    self._take_part(connection, told)
            except (psycopg.Error, StoreUnavailable) as error:
                if self.epoch is not None:
                    _log.warning("this replica learns no more: %s", str(error).strip())
            self.epoch = None
            self._stopping.wait(_EVERY_S)

    def _take_part(self, connection: Connection[tuple[Any, ...]], told: Callable[[], None]) -> None:
        for statement in _SET_UP:
            connection.execute(statement.encode())
        [(session_id,)] = connection.execute(b"SELECT pg_backend_pid()").fetchall()
        told()  # what was notified before is lost
        while not self._stopping.is_set():
            self._compare(connection)
            if self.epoch is None:
                self._try_to_lead(connection)
            [(now_id,)] = connection.execute(b"SELECT pg_backend_pid()").fetchall()
            if now_id != session_id:
                raise StoreUnavailable(
                    "the session changed under the learner's lock: a pooler stands between; "
                    "set `store_direct` to the database's own address"
                )
            self._listen(connection, told)

    def _listen(self, connection: Connection[tuple[Any, ...]], told: Callable[[], None]) -> None:
        until_s = time.monotonic() + _EVERY_S
        while time.monotonic() < until_s and not self._stopping.is_set():
            for _ in connection.notifies(timeout=_LISTEN_S, stop_after=1):
                told()

    def _try_to_lead(self, connection: Connection[tuple[Any, ...]]) -> None:
        locked = connection.execute(f"SELECT {try_session_lock_sql(LEARNING)}".encode())
        if locked.fetchall() == [(True,)]:
            with connection.transaction():
                # Alone: what the last learner began is committed, or will be refused.
                connection.execute(f"SELECT {lock_sql(WRITING)}".encode())
                [(self.epoch,)] = connection.execute(_LEAD.encode()).fetchall()
            _log.info("this replica learns, epoch %d", self.epoch)

    def _compare(self, connection: Connection[tuple[Any, ...]]) -> None:
        before_us = time.time_ns() // 1000
        [(there_us,)] = connection.execute(
            b"SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        ).fetchall()
        after_us = time.time_ns() // 1000
        self._ahead_us = there_us - (before_us + after_us) // 2
