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

from slotwise.service.counting.views import (
    Counters,
    Level,
    View,
)
from slotwise.service.errors import StoreUnavailable
from slotwise.service.records import (
    ChangeRecord,
    DecisionRecord,
    KeyRecord,
    LinkRecord,
    PoolSettings,
)
from slotwise.service.storage.activity import Activity
from slotwise.service.storage.commands import (
    FoldPosition,
    Learned,
    Operation,
    Progress,
    Refusal,
)
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
        """Read at one moment: every read inside sees the same commits."""
        with self._reader() as reader:
            yield reader

    @contextmanager
    def _reader(self) -> Iterator[SqliteReader]:
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

    def pools(self) -> list[PoolSettings]:
        """Return every pool, by id."""
        with self._reader() as reader:
            return reader.pools()

    def links(self, pool_id: str) -> list[LinkRecord]:
        """Return the links of a pool, by place."""
        with self._reader() as reader:
            return reader.links(pool_id)

    def reset_times(self, pool_id: str) -> dict[str, int]:
        """Return `counted_from_us` of the links whose statistics were ever reset."""
        with self._reader() as reader:
            return reader.reset_times(pool_id)

    def keys(self) -> list[KeyRecord]:
        """Return every key, by id."""
        with self._reader() as reader:
            return reader.keys()

    def changes(self, subject: str, limit: int) -> list[ChangeRecord]:
        """Return changes of a subject (`home/`: of all below `home`, "": of all), newest first."""
        with self._reader() as reader:
            return reader.changes(subject, limit)

    def progress(self) -> Progress:
        """Return how far windows are closed and folded."""
        with self._reader() as reader:
            return reader.progress()

    def counters(self, pool_id: str) -> Counters:
        """Return the counters of a pool."""
        with self._reader() as reader:
            return reader.counters(pool_id)

    def learned(self, pool_id: str) -> Learned | None:
        """Return what the pool published last."""
        with self._reader() as reader:
            return reader.learned(pool_id)

    def decision(self, decision_id: str) -> DecisionRecord | None:
        """Return a decision by its id."""
        with self._reader() as reader:
            return reader.decision(decision_id)

    def view(self, decision_id: str) -> View | None:
        """Return a decision with what was received for it."""
        with self._reader() as reader:
            return reader.view(decision_id)

    def refusals(self, decision_id: str) -> list[Refusal]:
        """Return the events refused for a decision, in order of arrival."""
        with self._reader() as reader:
            return reader.refusals(decision_id)

    def closed_views(
        self, pool_id: str, level: Level, after: FoldPosition, until_us: int, limit: int
    ) -> list[View]:
        """Return views that learn and closed at this level by `until_us`, in folding order."""
        with self._reader() as reader:
            return reader.closed_views(pool_id, level, after, until_us, limit)

    def all_views(
        self, pool_id: str, since_us: int, until_us: int | None, chunk: int
    ) -> Iterator[list[View]]:
        """Go through all views issued in [since, until), in the order they were stored.

        Each list is read by itself: a slow consumer does not hold back SQLite's clean-up.
        """
        after_seq = 0
        while True:
            with self._reader() as reader:
                views, after_seq = reader.views_after(pool_id, since_us, until_us, chunk, after_seq)
            if not views:
                return
            yield views

    def n_quarantined(self) -> int:
        """Count the events that wait for their decision or conversion."""
        with self._reader() as reader:
            return reader.n_quarantined()

    def activity(self, pool_id: str, since_us: int, span_us: int, closed_until_us: int) -> Activity:
        """Sum up the pages shown since a time; windows after `closed_until_us` are open."""
        with self._reader() as reader:
            return reader.activity(pool_id, since_us, span_us, closed_until_us)


@contextmanager
def _as_unavailable() -> Iterator[None]:
    try:
        yield
    except (sqlite3.DatabaseError, DatabaseError) as error:
        cause = error.orig if isinstance(error, DatabaseError) else error
        if type(cause) in (sqlite3.OperationalError, sqlite3.DatabaseError):
            raise StoreUnavailable(f"the store cannot be used now: {cause}") from error
        raise  # a broken constraint or a wrong statement is no outage but a mistake in the code
