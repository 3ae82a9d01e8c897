"""The other process that compiles: how it is started, given work and ended.

Requests and answers are lines, in the same order. The process ends when its input does, so it
never outlives the program that started it, however that program ends. Used by `__main__` and
`switch`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

DONE, FAILED = "done", "failed"


class CompilingProcess:
    """A process that compiles functions into the cache on disk, at normal priority.

    With a lower one it would get a tenth of a busy core and take minutes, while interpreting wastes
    more than compiling takes.
    """

    def __init__(self) -> None:
        import subprocess  # here: only where it is needed

        if not sys.executable:
            raise OSError("no Python is known that could be started")
        path = os.pathsep.join(folder or str(Path.cwd()) for folder in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "slotwise.compile"],
            env={**os.environ, "PYTHONPATH": path, "SLOTWISE_COMPILE": "first"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._owner = os.getpid()

    def ask(self, requests: Iterable[object]) -> None:
        """Send requests; each gets one answer."""
        assert self._process.stdin is not None
        lines = "".join(f"{json.dumps(one)}\n" for one in requests)
        with suppress(OSError):  # a process that has ended gives no answers
            self._process.stdin.write(lines.encode())
            self._process.stdin.flush()

    def is_next_done(self) -> bool:
        """Wait for the next answer; return whether the function was compiled."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().decode().strip() == DONE

    def kill(self) -> None:
        """End the process at once; what it has compiled so far is stored."""
        if os.getpid() == self._owner:  # not in a copy of this process
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """End the process, of which no answer is expected any more."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()
