"""The shared store: one PostgreSQL database, many replicas.

Used by `contract`, `move_store` and `service`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from threading import BoundedSemaphore, Event, Lock, Thread
from typing import Any, NamedTuple, TypeAlias

import msgspec
import psycopg
from psycopg import Connection, Cursor, errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy import (
    Boolean,
    Column,
    Float,
    Integer,
    LargeBinary,
    Table,
    create_engine,
)
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from slotwise.errors import InvalidInput
from slotwise.service.refusals import StoreUnavailable, Superseded
from slotwise.service.storage import contract, schema
from slotwise.service.storage.migrations import upgrade
from slotwise.service.storage.schema import Row, row_columns
from slotwise.service.storage.sql_batch import SqlBatch
from slotwise.service.storage.sql_reads import Engine, SqlSession, StoreReader

ENGINE = Engine(
    dialect=PGDialect_psycopg(paramstyle="pyformat"),  # type: ignore[no-untyped-call]
    listed="= ANY(CAST(:ids AS text[]))",
    row_id="ctid",
    bytewise='COLLATE "C"',
    has_waited="e.waited",
    shown="json_array_elements(CAST(d.page AS json) -> 1) AS shown(value)",
    link_id="shown.value ->> 0",
    of_pool="pool_id = :pool_id",
)
_ESCAPES = (rb"\u", rb"\n", rb"\r", rb"\t", rb"\b", rb"\f")


_ARRAYS = {Boolean: "boolean[]", Integer: "bigint[]", Float: "float8[]", LargeBinary: "bytea[]"}

MAX_READERS = 16
"""Maximum number of concurrent reads; further reads wait."""
MAX_IDLE = 8
_DEFAULTS = {
    "connect_timeout": "3",
    "application_name": "slotwise",
    # Without these, a write would wait for minutes after the server's machine fails.
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
_BEGIN_READING = b"""
    BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET LOCAL statement_timeout = '60s'
"""
_SLOW_S = 0.5
_REST_S = 1.0
"""For how long other attempts fail at once after an attempt to connect that took long."""
_OUTAGES = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.InternalError,
    errors.InsufficientPrivilege,
    errors.UndefinedTable,
)
_SPACE = 0x510715E
WRITING, LEARNING, MIGRATING, STARTING = 1, 2, 3, 4
CHANNEL = "slotwise"
"""Notifications that a pool, a key or a version has changed."""
_CHANGES = (
    contract.SavePool,
    contract.SaveLinks,
    contract.SaveKey,
    contract.SaveChange,
    contract.EndSession,
    contract.ForgetViews,
)
_ALONE = (*_CHANGES, contract.CloseWindows, contract.ExcludeViews, contract.PurgeViews)
_LEARNING = (contract.CloseWindows, contract.ApplyFold, contract.PurgeViews, contract.SaveLearned)
_TOLD = (*_CHANGES, contract.SaveLearned)
_KEYS = {
    table.name: [
        place for place, name in enumerate(schema.row_columns(table)) if table.c[name].primary_key
    ]
    for table in (schema.clicks, schema.conversions, schema.adjustments, schema.refusals)
}
_EVERY_S = 1.0
"""How often the session is used, to show that this process is alive and to try the lock."""
_LISTEN_S = 0.1
"""How long a stop may wait for the listening thread."""
_SILENT = "5s"
"""A process that is suspended for this long loses its session, and with it the lock."""
_SET_UP = (
    f"SET idle_session_timeout = '{_SILENT}'",
    "SET lock_timeout = '5s'",
    "SET tcp_keepalives_idle = 2",
    "SET tcp_keepalives_interval = 1",
    "SET tcp_keepalives_count = 3",
    f"LISTEN {CHANNEL}",
)
_LEAD = "UPDATE store_clock SET learner_epoch = learner_epoch + 1 RETURNING learner_epoch"
# The settings end with the transaction. A replica that is suspended during one must not block the
# others, and a commit is on disk when it returns, whatever the server's default.
_BEGIN = """
    BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
    SET LOCAL idle_in_transaction_session_timeout = '4s';
    SET LOCAL lock_timeout = '10s';
    SET LOCAL statement_timeout = '60s';
    SELECT set_config('synchronous_commit', 'on', true)
    WHERE current_setting('synchronous_commit') = 'off';
"""
# The lock first: the clock must be read when no other process can change it.
_READ_CLOCK = "SELECT closed_until_us, latest_us, n_resets, learner_epoch FROM store_clock"


def _array_type(column: Column[object]) -> str:
    arrays = (array for kind, array in _ARRAYS.items() if isinstance(column.type, kind))
    return next(arrays, "text[]")


@cache
def _insert(table: Table, end: str) -> str:
    """Return one statement for any number of rows, with one parameter per column."""
    names = row_columns(table)
    arrays = ", ".join(f"%s::{_array_type(table.c[name])}" for name in names)
    return f"INSERT INTO {table.name} ({', '.join(names)}) SELECT * FROM unnest({arrays}) {end}"


def array(values: Sequence[object]) -> object:
    r"""Return a column of rows as a parameter.

    PostgreSQL writes arrays like JSON, except for the brackets and the escapes of control
    characters; the JSON encoder takes a twentieth of the driver's time. PostgreSQL cannot store the
    character 0: it becomes the replacement character.

    >>> array(["a", None, 7])
    '{"a",null,7}'
    >>> array(["two\nlines"])
    ['two\nlines']
    """
    if values and isinstance(values[0], bytes):
        return list(values)
    encoded = msgspec.json.encode(values)
    if any(escape in encoded for escape in _ESCAPES):
        return [one.replace("\0", "\ufffd") if isinstance(one, str) else one for one in values]
    return f"{{{encoded[1:-1].decode()}}}"


class PostgresqlSession(SqlSession):
    """Runs statements on PostgreSQL."""

    engine = ENGINE

    def listed(self, ids: Sequence[str]) -> object:
        """Return ids as an array."""
        return array(ids)

    def damage(self) -> str:
        """Return how many damaged pages PostgreSQL has found, if checksums are enabled."""
        sql = "SELECT checksum_failures FROM pg_stat_database WHERE datname = current_database()"
        [(n_failures,)] = self.fetch(sql)
        return f"{n_failures} pages have a wrong checksum" if n_failures else ""

    def _streaming_cursor(self) -> AbstractContextManager[Any]:
        cursor: AbstractContextManager[Any] = self._connection.cursor("slotwise_stream")
        return cursor  # a named cursor: the rows stay on the server

    def _write(self, table: Table, end: str, new: Sequence[Row]) -> int:
        if not new:
            return 0
        columns = [array(column) for column in zip(*new, strict=True)]
        return int(self._connection.execute(_insert(table, end), columns).rowcount)


_Connection: TypeAlias = "Connection[tuple[Any, ...]]"
_Cursor: TypeAlias = "Cursor[tuple[Any, ...]]"


class Connections:
    """Opens connections and reuses them.

    No connection has a state that outlives a transaction, so a pooler in transaction mode may be
    used. A call that needs a new connection opens it itself: psycopg's pool opens them in a thread,
    so that a call would wait for its whole timeout while the server is down.
    """

    def __init__(self, address: str, shown: str = "") -> None:
        self.shown = shown or "in PostgreSQL"
        try:
            given = conninfo_to_dict(address)
        except psycopg.ProgrammingError as error:
            rule = "an address such as postgresql://user@host/database"
            raise InvalidInput.of("store", rule, self.shown, str(error).strip()) from None
        self._conninfo = make_conninfo("", **(_DEFAULTS | given))
        self._idle: list[_Connection] = []
        self._reading = BoundedSemaphore(MAX_READERS)
        self._failed_at = -_REST_S
        self._failure = ""
        self.closed = False

    def connect(self) -> _Connection:
        """Open a connection in autocommit mode."""
        if self.closed:
            raise StoreUnavailable(f"the store {self.shown} is closed")
        started = time.monotonic()
        if started < self._failed_at + _REST_S:
            raise StoreUnavailable(self._failure)
        try:
            # Prepared statements belong to a session, which a pooler passes to other clients.
            return psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=None)
        except psycopg.OperationalError as error:
            self._failure = f"the store {self.shown} cannot be reached: {_reason(error)}"
            if time.monotonic() > started + _SLOW_S:
                self._failed_at = time.monotonic()
            raise StoreUnavailable(self._failure) from error

    @contextmanager
    def reading(self) -> Iterator[_Connection]:
        """Return a connection inside a transaction that sees one snapshot."""
        with self._reading, self.transaction(_BEGIN_READING, b"ROLLBACK") as (connection, _):
            yield connection

    @contextmanager
    def transaction(self, begin: bytes, end: bytes) -> Iterator[tuple[_Connection, _Cursor]]:
        """Return a connection inside a transaction, and the answer to the last part of `begin`."""
        connection, begun = self._begun(begin)
        try:
            yield connection, begun
            connection.execute(end)
        except BaseException:
            try:
                connection.execute(b"ROLLBACK")
            except psycopg.Error:
                connection.close()
            raise
        finally:
            if self.closed or connection.closed or len(self._idle) >= MAX_IDLE:
                connection.close()
            else:
                self._idle.append(connection)

    def _begun(self, begin: bytes) -> tuple[_Connection, _Cursor]:
        """Begin on an idle connection, or on a new one if the idle ones are dead."""
        while True:
            is_new = self.closed or not self._idle
            connection = self.connect() if is_new else self._idle.pop()
            try:
                cursor = connection.execute(begin)
                while cursor.nextset():
                    pass
                return connection, cursor
            except psycopg.Error:
                is_dead = connection.broken
                connection.close()
                if is_new or not is_dead:
                    raise

    def close(self) -> None:
        """Close idle connections; safe to call twice."""
        self.closed = True
        while self._idle:
            self._idle.pop().close()


@contextmanager
def postgresql_errors() -> Iterator[None]:
    """Turn errors of an unavailable database into `StoreUnavailable`.

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
    """Return the database's message, in one line and without its position."""
    if error.diag.message_primary:
        return error.diag.message_primary
    lines = str(error).strip().splitlines()
    fatal = [line.rpartition("FATAL:")[2] for line in lines if "FATAL:" in line]
    return (fatal or lines or [type(error).__name__])[-1].strip()


def lock_sql(lock: int, shared: bool = False) -> str:
    """Return the call that waits for a lock and holds it until the end of the transaction."""
    return f"pg_advisory_xact_lock{'_shared' if shared else ''}({_SPACE}, {lock})"


def try_session_lock_sql(lock: int) -> str:
    """Return the call that takes a lock for the session, or returns false if it is taken."""
    return f"pg_try_advisory_lock({_SPACE}, {lock})"


class Outrun(Exception):
    """Another replica stored a row first: judge again under the exclusive lock.

    Decisions, events and folds are written under a shared lock of the store, everything else under
    the exclusive one. So closed windows, settings and resets cannot change between the judging of
    an event and its commit, and writers do not wait for each other. Two cases cannot be judged with
    concurrent writers, and are judged again under the exclusive lock:

    - an event whose decision or conversion is not stored: another replica may be writing it
    - a row that another replica stored first: the insert found it, the judging had not
    """


class Clock(NamedTuple):
    """The row of `store_clock` at the start of a transaction."""

    closed_until_us: int
    latest_us: int
    n_resets: int
    learner_epoch: int


class PostgresqlBatch(SqlBatch):
    """The operations of one transaction; the caller begins it, takes the lock and commits."""

    def __init__(
        self, session: PostgresqlSession, clock: Clock, exclusive: bool, learner_epoch: int | None
    ) -> None:
        super().__init__(session, clock[:3])
        self._exclusive = exclusive
        self._superseded = learner_epoch not in (None, clock.learner_epoch)

    def _apply_all(self, operations: Sequence[contract.Operation]) -> list[object]:
        answers = super()._apply_all(operations)
        if any(isinstance(operation, _TOLD) for operation in operations):
            self._session.fetch(f"SELECT pg_notify('{CHANNEL}', '')")
        return answers

    def _apply(self, operation: contract.Operation) -> object:
        if self._superseded and isinstance(operation, _LEARNING):
            raise Superseded("another replica learns since; this one must read the store again")
        return super()._apply(operation)

    def _load(self, operations: Sequence[contract.Operation]) -> None:
        super()._load(operations)
        if self._exclusive:
            appended = [
                item.decision.decision_id
                for item in operations
                if isinstance(item, contract.AppendDecision)
            ]
            self._ledger.decisions |= self._reader.decisions(appended)

    def _write(self, table: Table, new: Iterable[schema.Row]) -> None:
        new = list(new)
        if not new:
            return
        if table is not schema.decisions:
            # Sorted, so that two replicas with the same rows do not deadlock.
            places = _KEYS[table.name]
            new = sorted(new, key=lambda row: [row[place] for place in places])
            if "waited" in table.c and not self._exclusive and any(row[-1] for row in new):
                raise Outrun
        if self._session.insert(table, new) < len(new) and table is not schema.refusals:
            raise Outrun

    def _write_clock(self) -> None:
        # All transactions read this row and only few change it: otherwise all would wait for it.
        if self._exclusive:
            super()._write_clock()


_log = logging.getLogger(__name__)


class PostgresqlSharing:
    """One session that holds the learner's lock, listens, and reads the database's time.

    The process that gets the lock starts the next epoch. Every write of a learner (`CloseWindows`,
    `ApplyFold`, `SaveLearned`, `PurgeViews`) contains its epoch, and the store raises `Superseded`
    if there is a later one. So a learner that was suspended and resumes changes nothing.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._stopping = Event()
        self._thread: Thread | None = None
        self._ahead_us = 0
        self.epoch: int | None = None
        """The epoch of this process while it holds the lock."""
        self.used_epoch: int | None = None
        """The epoch in the learner's writes; None without an election."""

    def wall_us(self) -> int:
        """Return the time of day by the database's clock, which all replicas share."""
        return time.time_ns() // 1000 + self._ahead_us

    def read_clock(self) -> None:
        """Compare the clocks over a separate connection."""
        with self._connections.connect() as connection:
            self._compare(connection)

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Let one replica at a time check and create what the first start needs."""
        with self._connections.connect() as connection, connection.transaction():
            connection.execute(f"SELECT {lock_sql(STARTING)}".encode())
            yield

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the learner's lock, so that no replica can learn."""
        with self._connections.connect() as connection:
            locked = connection.execute(f"SELECT {try_session_lock_sql(LEARNING)}".encode())
            if locked.fetchall() != [(True,)]:
                raise StoreUnavailable(
                    f"the store {self._connections.shown} is in use; stop all replicas first"
                )
            yield

    def start(self, on_change: Callable[[], None]) -> None:
        """Take part in the election; another thread calls `on_change` after each change."""
        if self._thread is None:
            self.used_epoch = -1
            self._thread = Thread(
                target=self._run, args=(on_change,), name="slotwise-sharing", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """Release the lock; safe to call twice."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        self._connections.close()

    def _run(self, on_change: Callable[[], None]) -> None:
        while not self._stopping.is_set():
            try:
                with self._connections.connect() as connection:
                    self._take_part(connection, on_change)
            except (psycopg.Error, StoreUnavailable) as error:
                if self.epoch is not None:
                    _log.warning("this replica learns no more: %s", str(error).strip())
            self.epoch = None
            self._stopping.wait(_EVERY_S)

    def _take_part(self, connection: _Connection, on_change: Callable[[], None]) -> None:
        for statement in _SET_UP:
            connection.execute(statement.encode())
        [(session_id,)] = connection.execute(b"SELECT pg_backend_pid()").fetchall()
        on_change()  # earlier notifications were lost
        while not self._stopping.is_set():
            self._compare(connection)
            if self.epoch is None:
                self._try_to_lead(connection)
            [(now_id,)] = connection.execute(b"SELECT pg_backend_pid()").fetchall()
            if now_id != session_id:
                raise StoreUnavailable(
                    "the session changed under the learner's lock: there is a pooler in between; "
                    "set `store_direct` to the database's own address"
                )
            self._listen(connection, on_change)

    def _listen(self, connection: _Connection, on_change: Callable[[], None]) -> None:
        until_s = time.monotonic() + _EVERY_S
        while time.monotonic() < until_s and not self._stopping.is_set():
            for _ in connection.notifies(timeout=_LISTEN_S, stop_after=1):
                on_change()

    def _try_to_lead(self, connection: _Connection) -> None:
        locked = connection.execute(f"SELECT {try_session_lock_sql(LEARNING)}".encode())
        if locked.fetchall() == [(True,)]:
            with connection.transaction():
                # Exclusive: writes of the last learner are either committed or will be refused.
                connection.execute(f"SELECT {lock_sql(WRITING)}".encode())
                [(self.epoch,)] = connection.execute(_LEAD.encode()).fetchall()
            _log.info("this replica learns, epoch %d", self.epoch)

    def _compare(self, connection: _Connection) -> None:
        before_us = time.time_ns() // 1000
        [(there_us,)] = connection.execute(
            b"SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        ).fetchall()
        after_us = time.time_ns() // 1000
        self._ahead_us = there_us - (before_us + after_us) // 2


_BEGIN_SHARED = f"{_BEGIN} SELECT {lock_sql(WRITING, shared=True)}; {_READ_CLOCK}".encode()
_BEGIN_EXCLUSIVE = f"{_BEGIN} SELECT {lock_sql(WRITING)}; {_READ_CLOCK}".encode()


class PostgresqlStore:
    """A `Store` in one PostgreSQL database.

    Any number of processes may have it open. Each writes over one connection and reads over others;
    `sharing` elects the one that learns. `direct` is the address for sessions, if `address` leads
    to a pooler in transaction mode; `shown` is the address without its password.
    """

    def __init__(self, address: str, direct: str = "", shown: str = "") -> None:
        self._connections = Connections(address, shown)
        self._writing = Connections(address, shown)
        self._write_lock = Lock()
        self._latest_us = 0
        self.sharing = PostgresqlSharing(Connections(direct or address, shown))
        try:
            with postgresql_errors():
                self._migrate()
                self.sharing.read_clock()
        except BaseException:
            self.close()
            raise

    def commit(self, operations: Sequence[contract.Operation]) -> list[object]:
        with self._write_lock, postgresql_errors():
            if any(isinstance(operation, _ALONE) for operation in operations):
                return self._transact(operations, exclusive=True)
            try:
                return self._transact(operations, exclusive=False)
            except (Outrun, errors.DeadlockDetected, errors.SerializationFailure):
                return self._transact(operations, exclusive=True)

    @contextmanager
    def transaction(self) -> Iterator[PostgresqlSession]:
        """Write in one transaction, under the exclusive lock."""
        with (
            self._write_lock,
            postgresql_errors(),
            self._transaction(_BEGIN_EXCLUSIVE) as (session, _),
        ):
            yield session

    def alone(self) -> AbstractContextManager[None]:
        """Prevent all replicas from learning; raise `StoreUnavailable` if one runs."""
        return self.sharing.alone()

    @contextmanager
    def reading(self) -> Iterator[StoreReader]:
        with postgresql_errors(), self._connections.reading() as connection:
            yield StoreReader(PostgresqlSession(connection))

    def close(self) -> None:
        """Release all connections and the learner's lock; safe to call twice."""
        self.sharing.stop()
        with self._write_lock:
            self._connections.close()
            self._writing.close()

    def _transact(self, operations: Sequence[contract.Operation], exclusive: bool) -> list[object]:
        begin = _BEGIN_EXCLUSIVE if exclusive else _BEGIN_SHARED
        with self._transaction(begin) as (session, clock):
            clock = clock._replace(latest_us=max(clock.latest_us, self._latest_us))
            batch = PostgresqlBatch(session, clock, exclusive, self.sharing.used_epoch)
            answers = batch.apply(operations)
        self._latest_us = batch.latest_us
        return answers

    @contextmanager
    def _transaction(self, begin: bytes) -> Iterator[tuple[PostgresqlSession, Clock]]:
        with self._writing.transaction(begin, b"COMMIT") as (connection, begun):
            [clock] = begun.fetchall()
            yield PostgresqlSession(connection), Clock(*clock)

    def _migrate(self) -> None:
        """Bring the schema to the present version in one transaction; other replicas wait."""
        engine = create_engine(
            "postgresql+psycopg://", creator=self._connections.connect, poolclass=NullPool
        )
        with engine.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            connection.exec_driver_sql(f"SELECT {lock_sql(MIGRATING)}")
            upgrade(connection)
            connection.exec_driver_sql("COMMIT")
