"""A server in which something is stuck: what, the first argument says. Run as a module."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from typing import Any

from slotwise.service.api import app
from slotwise.service.logs import start_logs
from slotwise.service.server import ServerStart, serve
from slotwise.service.service import Service
from slotwise.service.settings import Settings
from slotwise.service.storage.writer_process import WriterProcess

FOREVER = threading.Event()
START = WriterProcess.__init__
STARTED: list[subprocess.Popen[bytes]] = []


def block(*arguments: Any, **named: Any) -> None:
    """Block the calling thread for good, and say so."""
    print("stuck", flush=True)
    FOREVER.wait()


def remember(writer: WriterProcess, *arguments: Any) -> None:
    """Start a process that writes, and keep it in mind."""
    START(writer, *arguments)
    STARTED.append(writer._process)


def main() -> None:
    stuck, store = sys.argv[1:]
    start_logs("info")
    if stuck == "loop":
        app.Alive = block  # type: ignore[assignment, misc]
    elif stuck == "store":
        Service.close = block  # type: ignore[method-assign]
    elif stuck == "lock":
        Service.close = block  # type: ignore[method-assign]
        Service.health = block  # type: ignore[method-assign, assignment]

    elif stuck == "writer":
        WriterProcess.__init__ = remember  # type: ignore[method-assign, assignment]

    def announce(start: ServerStart) -> None:
        print(start.url, flush=True)
        for process in STARTED:
            process.send_signal(signal.SIGSTOP)
            print(process.pid, flush=True)

    serve(Settings(port=0, store=store, stop_within_s=0.5), announce)


if __name__ == "__main__":
    main()
