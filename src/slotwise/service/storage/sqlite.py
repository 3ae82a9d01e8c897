"""The embedded store: one SQLite file.

Used by `backup`, `maintenance`, `move_store`, `writer_process` and `cli`.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec
from sqlalchemy import Table, create_engine
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import NullPool

from slotwise.errors import UnsupportedState
from slotwise.service.refusals import StoreInUse, StoreUnavailable
from slotwise.service.storage.contract import Operation
from slotwise.service.storage.migrations import upgrade
from slotwise.service.storage.schema import Row, metadata, row_columns
from slotwise.service.storage.sql_batch import SqlBatch
from slotwise.service.storage.sql_reads import (
    Engine,
    SqlSession,
    StoreReader,
)

ENGINE = Engine(
    dialect=sqlite.dialect(paramstyle="named"),
    listed="IN (SELECT value FROM json_each(:ids))",
    row_id="rowid",
    bytewise="COLLATE BINARY",
    has_waited="e.waited = 1",
    shown="json_each(d.page, '$[1]') AS shown",
    link_id="json_extract(shown.value, '$[0]')",
    # The sign prevents the use of an index on the pool, which would sort all rows each time.
    of_pool="+pool_id = :pool_id",
)

_SMALL_BYTES = 64 * 2**20
"""A file of this size is checked in about a tenth of a second."""
_READ_AT_START = ("pools", "links", "keys", "learned", "store_clock", "fold_positions")
_PRAGMAS = (
    "PRAGMA cache_size = -32768",
    "PRAGMA temp_store = MEMORY",  # otherwise every large statement creates and removes a file
    "PRAGMA trusted_schema = OFF",
)
TO_WRITE = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL")
"""Use a write-ahead log, and force every commit to disk."""
_END_WITHIN_S = 5.0
"""How long a writer process may take to finish after its parent has ended."""
_LOOK_EVERY_S = 0.01


def _insert(table: Table) -> str:
    names = row_columns(table)
    marks = ", ".join("?" * len(names))
    return f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({marks})"


_INSERT = {table.name: _insert(table) for table in metadata.sorted_tables}


class SqliteSession(SqlSession):
    """Runs statements on SQLite."""

    engine = ENGINE

    def listed(self, ids: Sequence[str]) -> object:
        """Return ids as JSON text."""
        return msgspec.json.encode(ids).decode()

    def damage(self) -> str:
        """Return the damage that SQLite finds in its file, or an empty text."""
        [(found,)] = self.fetch("PRAGMA integrity_check(1)")
        return "" if found == "ok" else str(found)

    def damage_at_a_glance(self) -> str:
        """Check the whole file if it is small; otherwise the tables that a start reads."""
        [(n_pages,)] = self.fetch("PRAGMA page_count")
        [(page_bytes,)] = self.fetch("PRAGMA page_size")
        checks = ["PRAGMA quick_check(1)"]
        if n_pages * page_bytes > _SMALL_BYTES:
            checks = [f"PRAGMA quick_check('{name}')" for name in _READ_AT_START]
        try:
            for check in checks:
                [(found,), *_] = self.fetch(check)
                if found != "ok":
                    return str(found)
        except sqlite3.DatabaseError as error:
            return str(error)
        return ""

    def _streaming_cursor(self) -> AbstractContextManager[Any]:
        return closing(self._connection.cursor())

    def _write(self, table: Table, end: str, new: Sequence[Row]) -> int:
        return int(self._connection.executemany(f"{_INSERT[table.name]} {end}", new).rowcount)


def create_private(path: Path) -> None:
    """Create a file that only its owner can read, if missing; SQLite copies its mode."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise StoreUnavailable(f"the store {path} cannot be opened: {error.strerror}") from error


def connect(path: Path, busy_timeout_s: float, *pragmas: str) -> sqlite3.Connection:
    """Open a SQLite file: to read it, or with `TO_WRITE` to write it."""
    connection = sqlite3.connect(
        path, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False
    )
    try:
        for pragma in (*_PRAGMAS, *pragmas):
            connection.execute(pragma)
    except BaseException:
        connection.close()
        raise
    return connection


def _refuse_other_files(path: Path, busy_timeout_s: float) -> None:
    """Refuse a file that is neither a store nor empty, or that may not be read.

    SQLite reads it: closing a file that is opened beside it would drop SQLite's locks.
    """
    if not (path.is_file() and path.stat().st_size):
        return
    if not os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids):
        raise StoreUnavailable(f"the store {path} cannot be read: Permission denied")
    with closing(sqlite3.connect(path, timeout=busy_timeout_s)) as found:
        try:
            names = {name for (name,) in found.execute("SELECT name FROM sqlite_master")}
        except sqlite3.OperationalError:
            return
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_NOTADB:
                raise
            message = f"{path} is not a database; give the file of a store"
            raise StoreUnavailable(message) from None
    if names and not {"alembic_version", "pools"} <= names:
        message = f"{path.name} is a database, but not a store of slotwise; give another file"
        raise UnsupportedState(message)


class SqliteFile:
    """Reads a store that another process may be writing; the file has the present schema.

    A file that is no store is refused, and nothing is written next to it.
    """

    def __init__(self, path: Path | str, busy_timeout_s: float = 5.0) -> None:
        self._path = Path(path)
        with sqlite_errors():
            _refuse_other_files(self._path, busy_timeout_s)
        self._busy_timeout_s = busy_timeout_s
        self._idle_readers: list[sqlite3.Connection] = []
        self._closed = False
        self._identity: tuple[int, int] | None = None
        self._read_log: tuple[int, int] | None = None
        """Identifies the write-ahead log of the idle readers."""

    @contextmanager
    def reading(self) -> Iterator[StoreReader]:
        with sqlite_errors():
            self._check_file()
            log = self._log_identity()
            if log != self._read_log:  # connections that read a removed log would miss commits
                self._read_log = log
                self._close_readers()
            try:
                connection = self._idle_readers.pop()
            except IndexError:
                connection = connect(self._path, self._busy_timeout_s)
            try:
                connection.execute("BEGIN")
                yield StoreReader(SqliteSession(connection))
                connection.execute("ROLLBACK")
            except BaseException:
                connection.close()
                raise
            self._idle_readers.append(connection)
            if self._closed:  # meanwhile, so that `close` may not have seen it
                self._close_readers()

    def close(self) -> None:
        """Close the connections; safe to call twice."""
        self._closed = True
        self._close_readers()

    def _close_readers(self) -> None:
        with suppress(IndexError):  # another thread may close them, too
            while True:
                self._idle_readers.pop().close()

    def _check_file(self) -> None:
        """Raise `StoreUnavailable` if the file is closed, missing or was replaced.

        A connection would continue with a removed file, and its commits would be lost.
        """
        if self._closed:
            raise StoreUnavailable(f"the store {self._path.name} is closed")
        try:
            identity = _identity_of(self._path)
        except OSError as error:
            raise StoreUnavailable(f"the store {self._path} is gone: {error.strerror}") from error
        if self._identity is None:
            self._identity = identity
        elif identity != self._identity:
            raise StoreUnavailable(
                f"the store {self._path} was replaced by another file; put it back or restart"
            )

    @property
    def _log_path(self) -> Path:
        return self._path.with_name(self._path.name + "-wal")

    def _log_identity(self) -> tuple[int, int] | None:
        """Return what identifies the write-ahead log; None if there is none."""
        try:
            return _identity_of(self._log_path)
        except OSError:
            return None


def _identity_of(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


@contextmanager
def sqlite_errors() -> Iterator[None]:
    """Turn errors of an unusable file into `StoreUnavailable`.

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


def _is_running(process: str) -> bool:
    """Return whether a process with this id exists; True if that is unknown."""
    if not process.isdigit():
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it belongs to another user
    return True


class WriterLock:
    """Holds `<store>.lock`, a permanent file with the process id of the last writer.

    The store's own file cannot be locked: closing any descriptor of it would release SQLite's
    locks.

    The process may have ended while its writer process, named next to it, finishes the last commit:
    the lock is then free in a moment.
    """

    def __init__(self, store: Path) -> None:
        path = store.with_name(store.name + ".lock")
        try:
            self._descriptor: int | None = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StoreUnavailable(f"the store {store} cannot be locked: {error}") from error
        until_s = time.monotonic() + _END_WITHIN_S
        while not self._take():
            named = os.pread(self._descriptor, 40, 0).decode(errors="replace").split()
            holder, writer = (*named, "unknown", "unknown")[:2]
            if _is_running(holder):
                self.release()
                raise StoreInUse(
                    f"the store {store} is in use by process {holder}; stop that process, or ask "
                    "its service over HTTP"
                )
            if time.monotonic() > until_s:
                self.release()
                raise StoreInUse(
                    f"the store {store} is in use by process {writer}, which has not "
                    f"finished what process {holder} gave it to write; wait for it, or end it"
                )
            time.sleep(_LOOK_EVERY_S)
        self._name(f"{os.getpid()}\n")

    @classmethod
    def inherited(cls, descriptor: int) -> WriterLock:
        """Return the lock of the process that started this one: both hold it."""
        lock = cls.__new__(cls)
        lock._descriptor = descriptor
        return lock

    @property
    def descriptor(self) -> int:
        """The file descriptor that another process inherits to hold the lock, too."""
        assert self._descriptor is not None, "released"
        return self._descriptor

    def name_writer(self, process: int) -> None:
        """Record the id of the process that writes for this one."""
        self._name(f"{os.getpid()} {process}\n")

    def _name(self, line: str) -> None:
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, line.encode(), 0)

    def _take(self) -> bool:
        assert self._descriptor is not None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def release(self) -> None:
        """Release the lock; safe to call twice."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def migrate(path: Path, busy_timeout_s: float) -> None:
    """Bring the schema of a file to the present version, in one transaction."""
    engine = create_engine(
        "sqlite://", creator=lambda: connect(path, busy_timeout_s, *TO_WRITE), poolclass=NullPool
    )
    with engine.connect() as connection:
        # The driver would begin a transaction only at the first change of a row.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        upgrade(connection)
        connection.commit()


class SqliteStore(SqliteFile):
    """A `Store` in one SQLite file.

    It is the only writer: a second one, in this or another process, is refused. A file of an older
    version is migrated when it is opened. If the file cannot be used, a call raises
    `StoreUnavailable` and drops its connection; the next call opens a new one.
    """

    sharing = None
    _session: type[SqliteSession] = SqliteSession

    def __init__(
        self, path: Path | str, busy_timeout_s: float = 5.0, lock: WriterLock | None = None
    ) -> None:
        super().__init__(path, busy_timeout_s)
        self._write_lock = Lock()
        self._writer: sqlite3.Connection | None = None
        self._log: tuple[int, int] | None = None
        """Identifies the write-ahead log with the last commit."""
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
        with self.transaction() as session:
            return SqlBatch(session).apply(operations)

    @contextmanager
    def transaction(self) -> Iterator[SqliteSession]:
        """Write in one transaction."""
        with self._write_lock, sqlite_errors():
            self._check_file()
            connection = self._writer or self._open_writer()
            self._check_log(connection)
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield self._session(connection)
                connection.execute("COMMIT")
                self._log = self._log_identity()
            except sqlite3.Error:
                self._drop_writer()
                raise
            except BaseException:
                connection.execute("ROLLBACK")
                raise

    def alone(self) -> AbstractContextManager[None]:
        """Do nothing: this process is the only writer of the file."""
        return nullcontext()

    def close(self) -> None:
        """Release files, connections and the lock; safe to call twice."""
        with self._write_lock:
            super().close()
            self._drop_writer()
            self._lock.release()

    def _check_log(self, connection: sqlite3.Connection) -> None:
        """Raise `StoreUnavailable` if the write-ahead log was removed or replaced.

        The connection still has the removed file, and its next commits would be lost with it at the
        end of the process. So everything in it is copied into the store first.
        """
        if self._log is None or self._log == self._log_identity():
            return
        connection.execute("PRAGMA wal_checkpoint(FULL)")
        self._drop_writer()
        self._close_readers()
        raise StoreUnavailable(
            f"the write-ahead log {self._log_path.name} was removed or replaced; what it contained "
            "is in the store now"
        )

    def _open_writer(self) -> sqlite3.Connection:
        migrate(self._path, self._busy_timeout_s)
        self._writer = connect(self._path, self._busy_timeout_s, *TO_WRITE)
        return self._writer

    def _drop_writer(self) -> None:
        if self._writer is not None:
            with suppress(sqlite3.Error):
                self._writer.close()
            self._writer = self._log = None  # the last connection removes the log
