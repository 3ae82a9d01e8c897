"""A process that commits to a SQLite file for another process.

Judging a group of writes and passing its rows to SQLite occupies the interpreter for milliseconds.
In the process that answers requests, every request would wait for that. So `slotwise serve` sends
its writes, as bytes, to this process, which replies to each group after its commit.

The process ends when its pipe is closed, which the system does whenever the other process ends. A
commit in progress is finished first, and the lock of the file is held until then. Opened by
`slotwise.service.storage`.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socket, socketpair
from threading import Lock

import msgspec
from sqlalchemy import Table

from slotwise.errors import InvalidInput
from slotwise.service.records import LinkRecord, Outcome
from slotwise.service.refusals import StoreUnavailable
from slotwise.service.storage.contract import Operation
from slotwise.service.storage.schema import Row
from slotwise.service.storage.sqlite import (
    SqliteFile,
    SqliteSession,
    SqliteStore,
    WriterLock,
    create_private,
    migrate,
    sqlite_errors,
)
from slotwise.service.thread_priority import WRITER, request_priority

_LOWER_PRIORITY = 5
"""Added to `nice` where the requests have no higher priority: they take precedence over commits."""
_STEPS = 2_500
"""Instructions of SQLite, an eighth of a millisecond, after which another process may run."""


class _Reply(msgspec.Struct, omit_defaults=True):
    """The outcome of one commit: its results, or an error."""

    answers: list[bool | int | Outcome | list[LinkRecord] | None] = []
    away: str = ""
    """Why the store cannot be used now."""
    refused: bytes = b""
    """Any other error, pickled."""
    is_unread: bool = False
    """Whether the operations must be sent again, pickled: msgpack cannot encode all of them."""


def _refuse(value: object) -> object:
    raise InvalidInput.of("operations", "operations of a store", value)


_encode = msgspec.msgpack.Encoder(enc_hook=_refuse).encode
_PICKLED = pickle.dumps(None)[:1]
"""The first byte of a pickle; no list in msgpack starts with it."""
_read_reply = msgspec.msgpack.Decoder(_Reply).decode


class WriterProcess:
    """The parent's handle of the process; not thread-safe."""

    def __init__(self, store: Path, lock: WriterLock, busy_timeout_s: float) -> None:
        try:
            here, self._process = _start(store, lock, busy_timeout_s)
        except OSError as error:  # no more processes, or no more files
            reason = error.strerror or error
            raise StoreUnavailable(f"no process can be started to write: {reason}") from error
        self._pipe = Connection(here.detach())
        lock.name_writer(self._process.pid)
        self.has_ended = False
        """Whether a new process must be started."""

    def commit(self, operations: Sequence[Operation]) -> list[object]:
        """Commit operations there; after `StoreUnavailable` they may or may not be committed."""
        try:
            reply = self._reply(_encode(operations))
        except OverflowError:
            reply = None
        if reply is None or reply.is_unread:
            # For example an amount beyond 64 bits, or a fraction: the store rejects that event.
            reply = self._reply(pickle.dumps(operations))
        if reply.away:
            raise StoreUnavailable(reply.away)
        if reply.refused:
            raise pickle.loads(reply.refused)
        return list(reply.answers)

    def _reply(self, message: bytes) -> _Reply:
        try:
            self._pipe.send_bytes(message)
            return _read_reply(self._pipe.recv_bytes())
        except (OSError, EOFError) as error:
            self.has_ended = True
            raise StoreUnavailable("the process that writes the store has ended") from error

    def close(self) -> None:
        """Make the process end after its last commit, and wait for it."""
        self._pipe.close()
        self._process.wait()


def _start(
    store: Path, lock: WriterLock, busy_timeout_s: float
) -> tuple[socket, subprocess.Popen[bytes]]:
    """Start the process; return this end of the pipe."""
    here, there = socketpair()
    with there:
        inherited = (there.fileno(), lock.descriptor)
        # It must find the modules of this process, and none in the working directory.
        command = [sys.executable, "-P", "-c", f"from {__name__} import main; main()"]
        try:
            return here, subprocess.Popen(
                [*command, str(store), str(busy_timeout_s), *map(str, inherited)],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                pass_fds=inherited,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        except OSError:
            here.close()
            raise


class _YieldingSession(SqliteSession):
    """A session that lets other processes run before each statement that inserts."""

    def insert(self, table: Table, new: Sequence[Row]) -> int:
        """Insert rows; return how many were new."""
        os.sched_yield()
        return super().insert(table, new)


class _YieldingStore(SqliteStore):
    """A store that lets other processes run while it writes.

    Otherwise an interrupted process, such as the one that answers requests, would wait for the next
    tick of the system's clock, for up to 4 ms.
    """

    _session = _YieldingSession

    def _open_writer(self) -> sqlite3.Connection:
        connection = super()._open_writer()
        connection.set_progress_handler(os.sched_yield, _STEPS)
        return connection


class _Writer:
    """The store in the writer process."""

    def __init__(self, path: Path, lock: WriterLock, busy_timeout_s: float) -> None:
        self._path = path
        self._lock = lock
        self._busy_timeout_s = busy_timeout_s
        self._store: SqliteStore | None = None
        self._read = msgspec.msgpack.Decoder(list[Operation]).decode

    def reply(self, message: bytes) -> _Reply:
        try:
            is_pickled = message.startswith(_PICKLED)
            operations = pickle.loads(message) if is_pickled else self._read(message)
        except msgspec.ValidationError:
            return _Reply(is_unread=True)
        os.sched_yield()
        try:
            if self._store is None:
                self._store = _YieldingStore(self._path, self._busy_timeout_s, self._lock)
            answers: list[object] = self._store.commit(operations)
            return _Reply(answers)  # type: ignore[arg-type]
        except StoreUnavailable as error:
            return _Reply(away=str(error))
        except Exception as error:  # noqa: BLE001
            error.add_note(traceback.format_exc())
            return _Reply(refused=pickle.dumps(error))

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
        self._lock.release()


def _come_after_requests() -> None:
    """Run at a lower priority than the process that answers requests."""
    if not request_priority(WRITER):
        os.nice(_LOWER_PRIORITY)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            # Only root may take back what `request_priority` has set for started processes.
            batch = os.SCHED_BATCH | os.SCHED_RESET_ON_FORK
            os.sched_setscheduler(0, batch, os.sched_param(0))


def main() -> None:
    """Run the writer process."""
    store, busy_timeout_s, pipe, lock = sys.argv[1:]
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_IGN)  # signals to the whole group are for the parent
    _come_after_requests()
    gc.freeze()
    commit_what_is_sent(Path(store), float(busy_timeout_s), int(pipe), int(lock))


def commit_what_is_sent(store: Path, busy_timeout_s: float, pipe: int, lock: int) -> None:
    """Commit what is sent until the pipe is closed; `pipe` and `lock` are file descriptors."""
    writer = _Writer(store, WriterLock.inherited(lock), busy_timeout_s)
    with (
        contextlib.closing(writer),
        contextlib.suppress(EOFError, OSError),
        Connection(pipe) as requests,
    ):
        while True:
            requests.send_bytes(_encode(writer.reply(requests.recv_bytes())))


class ProcessStore(SqliteFile):
    """A `SqliteStore` whose commits are made by another process; reads are made in this one.

    If that process ends, the commit in progress raises `StoreUnavailable`, and the next commit
    starts a new process.
    """

    sharing = None

    def __init__(self, path: Path | str, busy_timeout_s: float = 5.0) -> None:
        super().__init__(path, busy_timeout_s)
        self._committing = Lock()
        self._writer: WriterProcess | None = None
        self._lock = WriterLock(self._path)
        try:
            with sqlite_errors():
                create_private(self._path)
                self._check_file()
                migrate(self._path, busy_timeout_s)
            self._start_writer()
        except BaseException:
            self.close()
            raise

    def commit(self, operations: Sequence[Operation]) -> list[object]:
        with self._committing:
            self._check_file()
            writer = self._writer
            if writer is None or writer.has_ended:
                self._stop_writer()
                writer = self._start_writer()
            return writer.commit(operations)

    def close(self) -> None:
        """Release files, connections and the lock; safe to call twice."""
        with self._committing:
            super().close()
            self._stop_writer()
            self._lock.release()

    def _start_writer(self) -> WriterProcess:
        self._writer = WriterProcess(self._path, self._lock, self._busy_timeout_s)
        return self._writer

    def _stop_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
