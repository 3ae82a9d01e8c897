"""A process that commits to a SQLite file for another one.

Judging a group of writes and handing its rows to SQLite takes the interpreter for milliseconds.
In the process that answers requests, every request would wait for that. So `slotwise serve` sends
its writes, as bytes, to this process, which answers each group after its commit.

The process ends when its pipe is closed, which the system does when the other process ends in any
way. A commit that was under way is finished first, and the lock of the file is held until then.
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

_LOWER_PRIORITY = 5
"""Requests that wait for the processor come before commits."""
_STEPS = 2_500
"""Instructions of SQLite, an eighth of a millisecond, after which another process may run."""


class _Reply(msgspec.Struct, omit_defaults=True):
    """What became of one commit: its answers, or why there are none."""

    answers: list[bool | int | Outcome | list[LinkRecord] | None] = []
    away: str = ""
    """Why the store cannot be used now."""
    refused: bytes = b""
    """Any other error, pickled."""
    is_unread: bool = False
    """Whether the operations are to be sent again, pickled: msgpack cannot say all of them."""


def _refuse(value: object) -> object:
    raise InvalidInput.of("operations", "operations of a store", value)


_encode = msgspec.msgpack.Encoder(enc_hook=_refuse).encode
_PICKLED = pickle.dumps(None)[:1]
"""What a pickle begins with, and no list in msgpack."""
_read_reply = msgspec.msgpack.Decoder(_Reply).decode


class WriterProcess:
    """The process, as the one that started it sees it; for one thread at a time."""

    def __init__(self, store: Path, lock: WriterLock, busy_timeout_s: float) -> None:
        try:
            here, self._process = _start(store, lock, busy_timeout_s)
        except OSError as error:  # no more processes, or no more files
            reason = error.strerror or error
            raise StoreUnavailable(f"no process can be started to write: {reason}") from error
        self._pipe = Connection(here.detach())
        lock.name_writer(self._process.pid)
        self.has_ended = False
        """Whether another one has to be started."""

    def commit(self, operations: Sequence[Operation]) -> list[object]:
        """Commit operations there; `StoreUnavailable` leaves open whether they were committed."""
        try:
            reply = self._reply(_encode(operations))
        except OverflowError:
            reply = None
        if reply is None or reply.is_unread:
            # Such as an amount beyond 64 bits, or a fraction: the store rejects that event.
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
        """Let the process end after its last commit, and wait for that."""
        self._pipe.close()
        self._process.wait()


def _start(
    store: Path, lock: WriterLock, busy_timeout_s: float
) -> tuple[socket, subprocess.Popen[bytes]]:
    """Start the process; return this end of the pipe."""
    here, there = socketpair()
    with there:
        inherited = (there.fileno(), lock.descriptor)
        # It must find the modules of this process, and none that lie in the working directory.
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

    A process that was interrupted, such as the one that answers requests, would otherwise wait for
    the next tick of the system's clock, for up to 4 ms.
    """

    _session = _YieldingSession

    def _open_writer(self) -> sqlite3.Connection:
        connection = super()._open_writer()
        connection.set_progress_handler(os.sched_yield, _STEPS)
        return connection


class _Writer:
    """The store on the side of the process that writes it."""

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
        except Exception as error:
            error.add_note(traceback.format_exc())
            return _Reply(refused=pickle.dumps(error))

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
        self._lock.release()


def _come_after_requests() -> None:
    """Never interrupt a process that runs, and be interrupted by one that wakes."""
    os.nice(_LOWER_PRIORITY)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def main() -> None:
    """Write a store in a process of its own."""
    store, busy_timeout_s, pipe, lock = sys.argv[1:]
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_IGN)  # one to the whole group is meant for the other process
    _come_after_requests()
    gc.freeze()
    commit_what_is_sent(Path(store), float(busy_timeout_s), int(pipe), int(lock))


def commit_what_is_sent(store: Path, busy_timeout_s: float, pipe: int, lock: int) -> None:
    """Commit what is sent until the pipe is closed; it and the lock are file descriptors."""
    writer = _Writer(store, WriterLock.inherited(lock), busy_timeout_s)
    with (
        contextlib.closing(writer),
        contextlib.suppress(EOFError, OSError),
        Connection(pipe) as requests,
    ):
        while True:
            requests.send_bytes(_encode(writer.reply(requests.recv_bytes())))


class ProcessStore(SqliteFile):
    """A `SqliteStore` whose commits another process makes; reads stay in this one.

    When that process ends, the commit under way raises `StoreUnavailable`, and the next one starts
    a new process.
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
