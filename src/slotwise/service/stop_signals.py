"""End the process at SIGTERM or SIGINT, within a limit, even if its main thread is stuck.

Used by `server`. Needs the standard library only.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_LOG_WITHIN_S = 0.2


class StopSignals:
    """Calls `stop` at SIGTERM or SIGINT, and ends the process `within_s` seconds later.

    A separate thread reads the signals from the interpreter's wake-up socket. A handler would run
    in the main thread, which may be the one that is stuck. `log_lost` is called before the process
    is ended. If no thread can get the interpreter any more, the system ends the process with
    SIGALRM.

    Use it as a context in the main thread. An event loop that starts inside takes the wake-up
    socket for itself: call `listen` from a coroutine to get it back.
    """

    def __init__(
        self, stop: Callable[[], None], log_lost: Callable[[], None], within_s: float
    ) -> None:
        self._stop = stop
        self._log_lost = log_lost
        self._within_s = within_s
        self._is_over = threading.Event()
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._waiting = threading.Thread(target=self._wait, name="slotwise-signals", daemon=True)

    def __enter__(self) -> StopSignals:
        self._handlers = {one: signal.signal(one, self._wake) for one in _SIGNALS}
        self._wakeup_fd = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._waiting.start()
        return self

    def listen(self) -> None:
        """Take the interpreter's wake-up socket."""
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.set_wakeup_fd(self._wakeup_fd)
        for one, handler in self._handlers.items():
            signal.signal(one, handler)
        self._wake()
        self._waiting.join()
        self._reader.close()
        self._writer.close()

    def _wake(self, *_: object) -> None:
        self._writer.send(b"\0")

    def _wait(self) -> None:
        self._reader.recv(1)
        if self._is_over.is_set():
            return
        signal.setitimer(signal.ITIMER_REAL, self._within_s)
        self._stop()
        if not self._is_over.wait(self._within_s - 2 * _LOG_WITHIN_S):
            last_words = threading.Thread(target=self._log_lost, daemon=True)
            last_words.start()
            last_words.join(_LOG_WITHIN_S)  # it may wait for the stuck thread
            os._exit(1)
