"""The notice that functions are being compiled, printed once if it takes seconds.

It listens to events of numba. Used by `machine_code`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol, TextIO

from numba.core import event

from slotwise.compile.switch import print_notice

MIN_SECONDS = 2.0
"""Compiling that is over sooner is not announced."""

NOTICE = (
    "slotwise: compiling to machine code, which takes some seconds the first time on a machine; "
    "`slotwise warm-up` does it ahead of time"
)


class Timer(Protocol):
    """What is used of a `threading.Timer`."""

    daemon: bool

    def start(self) -> None: ...  # noqa: D102 - as in threading

    def cancel(self) -> None: ...  # noqa: D102


class CompilingNotice(event.Listener):
    """Measures how long functions of slotwise are compiled, and prints the notice once.

    A timer prints it, because a single function may take much longer than `MIN_SECONDS`.
    """

    def __init__(
        self, stream: TextIO | None = None, timer: Callable[..., Timer] = threading.Timer
    ) -> None:
        self.is_wanted = True
        self._stream, self._new_timer = stream, timer
        self._depth, self._started, self._seconds = 0, 0.0, 0.0
        self._timer: Timer | None = None

    def on_start(self, happened: event.Event) -> None:
        """Note that a function is being compiled."""
        if _counts(happened):
            if self._depth == 0:
                self._started = time.perf_counter()
                if self.is_wanted:
                    left = max(0.0, MIN_SECONDS - self._seconds)
                    self._timer = self._new_timer(left, self._say)
                    self._timer.daemon = True
                    self._timer.start()
            self._depth += 1

    def on_end(self, happened: event.Event) -> None:
        """Note that a function is compiled."""
        if _counts(happened) and self._depth:
            self._depth -= 1
            if self._depth == 0:
                self._seconds += time.perf_counter() - self._started
                if self._timer is not None:
                    self._timer.cancel()
                if self._seconds > MIN_SECONDS:
                    self._say()

    def _say(self) -> None:
        if self.is_wanted:
            self.is_wanted = False
            print_notice(NOTICE, self._stream)


def is_own(function: object) -> bool:
    """Return whether a function is slotwise's own."""
    return str(getattr(function, "__module__", "")).startswith("slotwise.")


def _counts(happened: event.Event) -> bool:
    return is_own(happened.data["dispatcher"].py_func)


NOTICES = CompilingNotice()
