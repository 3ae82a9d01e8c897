"""Say once, on the error stream, that the program waits because functions are being compiled."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

from numba.core import event
from numba.core.caching import NullCache

MIN_SECONDS = 2.0
"""Compiling that is over sooner is not announced."""

NOTICE = (
    "slotwise: compiling to machine code, which takes some seconds the first time on a machine; "
    "`slotwise warm-up` does it ahead of time"
)


class CompilingNotice(event.Listener):
    """Adds up how long functions of slotwise were compiled, and prints the notice once.

    Code that is found on disk is not compiled. Loops that are not kept on disk are compiled in
    every process, from functions that are kept; they do not count. So nothing is said from the
    second run on.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self.is_wanted = True
        self._stream = stream
        self._depth, self._started, self._seconds = 0, 0.0, 0.0

    def on_start(self, happened: Any) -> None:
        """Note that a function is being compiled."""
        if _counts(happened):
            if self._depth == 0:
                self._started = time.perf_counter()
            self._depth += 1
            self._say()

    def on_end(self, happened: Any) -> None:
        """Note that a function is compiled."""
        if _counts(happened) and self._depth:
            self._say()
            self._depth -= 1
            if self._depth == 0:
                self._seconds += time.perf_counter() - self._started

    def _say(self) -> None:
        so_far = self._seconds + time.perf_counter() - self._started
        if self.is_wanted and so_far > MIN_SECONDS:
            self.is_wanted = False
            print(NOTICE, file=self._stream or sys.stderr, flush=True)


def _counts(happened: Any) -> bool:
    """Say whether a function is slotwise's own and is kept on disk once it is compiled."""
    dispatcher = happened.data["dispatcher"]
    is_ours = str(getattr(dispatcher.py_func, "__module__", "")).startswith("slotwise.")
    return is_ours and not isinstance(dispatcher._cache, NullCache)


_NOTICE = CompilingNotice()


def watch_compiler() -> None:
    """Let the notice hear of everything that is compiled from now on."""
    register: Any = event.register
    register("numba:compile", _NOTICE)


def announce_compiling(wanted: bool) -> None:
    """Switch the notice on or off; commands switch it off, since they show their own progress."""
    _NOTICE.is_wanted = wanted
