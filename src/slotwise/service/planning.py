"""Traffic plans: run `slotwise plan` in a separate process, one at a time, with a time limit.

The service itself never simulates. The process has the lowest priority, so that decisions are not
delayed. Used by `api`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from tempfile import TemporaryFile
from typing import Any

import msgspec

from slotwise.service.refusals import Conflict

_COMMAND = (sys.executable, "-m", "slotwise", "plan", "--json-lines")
PRIORITY = 19
"""The lowest priority, so that decisions are not delayed."""
_log = logging.getLogger(__name__)
Line = dict[str, Any]


class Planner:
    """Runs one plan at a time; `within_s` is its time limit."""

    def __init__(self, within_s: float, command: Sequence[str] = _COMMAND) -> None:
        self._within_s = within_s
        self._command = tuple(command)
        self._is_free = threading.Semaphore()
        self._run: _Run | None = None

    def start(self, arguments: Sequence[str]) -> AsyncGenerator[Line]:
        """Start a plan and return its lines: `done`, a share, then `plan` or `failed`.

        Closing the iterator ends the process. Call it on the event loop.
        """
        if not self._is_free.acquire(blocking=False):
            raise Conflict("another plan is being simulated; try again in a minute")
        loop = asyncio.get_running_loop()
        lines: asyncio.Queue[Line | None] = asyncio.Queue()

        def put(line: Line | None) -> None:
            with suppress(RuntimeError):  # the loop was closed: no caller waits
                loop.call_soon_threadsafe(lines.put_nowait, line)

        def work() -> None:
            try:
                run.work(put)
            finally:
                self._is_free.release()
                put(None)

        # The process has the limit, too: it may outlive a service that was killed.
        command = [*self._command, *arguments, f"--within={self._within_s}"]
        run = self._run = _Run(command, self._within_s)
        threading.Thread(target=work, name="slotwise-plan", daemon=True).start()
        return _lines(lines, run)

    def close(self) -> None:
        """End the plan that is running."""
        if self._run is not None:
            self._run.end()


async def _lines(lines: asyncio.Queue[Line | None], run: _Run) -> AsyncGenerator[Line]:
    try:
        while (line := await lines.get()) is not None:
            yield line
    finally:
        run.end()


class _Run:
    """One process and the thread that reads it."""

    def __init__(self, command: Sequence[str], within_s: float) -> None:
        self._command = command
        self._within_s = within_s
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ended = False
        self._is_late = False

    def work(self, put: Callable[[Line], None]) -> None:
        """Run the process to its end and pass on its lines."""
        with TemporaryFile() as errors:
            with self._lock:
                if self._is_ended:
                    return
                self._process = process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                )
            if hasattr(os, "setpriority"):
                with suppress(OSError):  # it has ended already
                    os.setpriority(os.PRIO_PROCESS, process.pid, PRIORITY)
            timer = threading.Timer(self._within_s, self.end, [True])
            timer.start()
            with process:
                assert process.stdout is not None
                for line in process.stdout:
                    put(msgspec.json.decode(line, type=Line))
            timer.cancel()
            if process.returncode != 0 and not (self._is_ended and not self._is_late):
                errors.seek(0)
                put({"failed": self._reason(errors.read().decode(errors="replace"))})

    def _reason(self, output: str) -> str:
        if self._is_late:
            longest = f"the simulation took longer than {self._within_s:g} seconds"
            return f"{longest}; ask for fewer links, cases or views, or run `slotwise plan`"
        last = "".join(output.strip().splitlines()[-1:])
        if "Traceback (most recent call last)" in output:
            _log.error("a plan failed: %s", last.partition(":")[0])
            last = ""
        return last or "the simulation ended without an answer"

    def end(self, is_late: bool = False) -> None:
        """End the process if it still runs."""
        with self._lock:
            self._is_ended, self._is_late = True, self._is_late or is_late
            if self._process is not None and self._process.poll() is None:
                self._process.kill()
