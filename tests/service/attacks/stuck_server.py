"""A server in which something is stuck, in a process of its own, forked like `ForkedServer`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from slotwise.service import server
from slotwise.service.api import app
from slotwise.service.logs import start_logs
from slotwise.service.server import ServerStart
from slotwise.service.service import Service
from slotwise.service.settings import Settings
from slotwise.service.storage.writer_process import WriterProcess
from tests.service.forked_server import _FORKS

FOREVER = threading.Event()
START = WriterProcess.__init__
STARTED: list[subprocess.Popen[bytes]] = []


class StuckServer:
    """What `stuck` names does not go on: see `_run`."""

    writer: int
    """The process that writes, where that is what is stuck."""

    def __init__(self, stuck: str, store: Path) -> None:
        self.store = store
        read, written = zip(*(_FORKS.Pipe(duplex=False) for _ in range(2)), strict=True)
        self.process = _FORKS.Process(target=_run, args=(stuck, str(store), *written))
        self.process.start()
        self.stdout, self._stderr = (os.fdopen(os.dup(end.fileno())) for end in read)
        for end in (*read, *written):
            end.close()

    @property
    def pid(self) -> int:
        """The process that serves."""
        assert self.process.pid is not None
        return self.process.pid

    def logged(self) -> list[dict[str, Any]]:
        """Return all that it has logged, once it has ended."""
        with self._stderr:
            return [json.loads(line) for line in self._stderr]


def block(*arguments: Any, **named: Any) -> None:
    """Block the calling thread for good, and say so."""
    print("stuck", flush=True)
    FOREVER.wait()


def remember(writer: WriterProcess, *arguments: Any) -> None:
    """Start a process that writes, and keep it in mind."""
    START(writer, *arguments)
    STARTED.append(writer._process)


class StoppedWhileOpening(server._Run):
    """Gets SIGTERM before its store is open."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        while not signal.getitimer(signal.ITIMER_REAL)[0]:
            pass  # until the thread of signals has read it
        super().__init__(*arguments, **named)


def _announce(start: ServerStart) -> None:
    print(start.url, flush=True)
    for process in STARTED:
        process.send_signal(signal.SIGSTOP)
        print(process.pid, flush=True)


def _run(stuck: str, store: str, stdout: Connection, stderr: Connection) -> None:
    os.dup2(stdout.fileno(), sys.stdout.fileno())
    os.dup2(stderr.fileno(), sys.stderr.fileno())
    start_logs("info")
    stop_within_s = 0.5
    if stuck == "loop":
        app.Alive = block  # type: ignore[assignment, misc]
    elif stuck == "store":
        Service.close = block  # type: ignore[method-assign]
    elif stuck == "lock":
        Service.close = block  # type: ignore[method-assign]
        Service.health = block  # type: ignore[method-assign, assignment]
    elif stuck == "writer":
        WriterProcess.__init__ = remember  # type: ignore[method-assign, assignment]
    elif stuck == "opening":
        stop_within_s = 60
        server._Run = StoppedWhileOpening  # type: ignore[misc]
    settings = Settings(port=0, store=f"sqlite:///{store}", stop_within_s=stop_within_s)
    server.serve(settings, _announce)
