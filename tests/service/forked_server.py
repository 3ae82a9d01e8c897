"""`slotwise serve` without its imports: forked from a process that has made them.

A start of the command spends most of its time on imports and on loading compiled code, neither
of which a crash can spoil. A forked server runs the same command from there on, in a process of
its own that is killed like any other.
"""

from __future__ import annotations

import multiprocessing
import os
import pkgutil
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.service.crash_harness import Server, ServerLog, serve_arguments

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.service.loaded_service"])


Fault = tuple[str, Path]
"""A function and the file that must be there for the server to die when it calls it."""
FAULTS = (
    "slotwise.service.learning.learner.count_settled",
    "slotwise.service.learning.publisher.Publisher.read_counters",
    "slotwise.service.learning.publisher.Publisher.publish",
    "slotwise.service.learning.pool_run.PoolRun.take",
    "slotwise.service.deciding.decider.Decider.install",
)
"""Functions before which a server can die: around a fold, its version and its installation."""


def _die_before(function: str, armed: Path) -> None:
    """Kill this process when it calls a function of the package while a file is there."""
    place, _, name = function.rpartition(".")
    owner = pkgutil.resolve_name(place)
    called = getattr(owner, name)

    def call(*arguments: Any, **named: Any) -> Any:
        if armed.exists():
            os.kill(os.getpid(), signal.SIGKILL)
        return called(*arguments, **named)

    setattr(owner, name, call)


def _run(arguments: list[str], fault: Fault | None, stdout: Connection, stderr: Connection) -> None:
    from slotwise.cli.main import main

    if fault is not None:
        _die_before(*fault)
    os.dup2(stdout.fileno(), sys.stdout.fileno())
    os.dup2(stderr.fileno(), sys.stderr.fileno())
    sys.exit(main(arguments))


class ForkedServer(Server):
    """A server that is forked; used like one that was started as a command."""

    def __init__(self, store: Path | str, *flags: str, fault: Fault | None = None) -> None:
        read, written = zip(*(_FORKS.Pipe(duplex=False) for _ in range(2)), strict=True)
        arguments = (serve_arguments(store, flags), fault, *written)
        self._forked = _FORKS.Process(target=_run, args=arguments)
        self._forked.start()
        self._lines, log = (os.fdopen(os.dup(end.fileno())) for end in read)
        for end in (*read, *written):
            end.close()
        self.log = ServerLog(log)
        self.has_fault = fault is not None
        self._find_url()

    @property
    def pid(self) -> int:
        """The process that serves."""
        assert self._forked.pid is not None
        return self._forked.pid

    def wait_for_end(self) -> None:
        """Wait until the process has died of its fault."""
        self._forked.join()
        self._lines.close()

    def end(self, by: signal.Signals) -> int:
        assert self._forked.pid is not None
        os.kill(self._forked.pid, by)
        self._forked.join()
        self._lines.close()
        assert self._forked.exitcode is not None
        return self._forked.exitcode
