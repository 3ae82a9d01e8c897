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
"""How long `log_lost` may take before the process is ended."""


class StopSignals:
    """Calls `stop` at SIGTERM or SIGINT; ends the process if the context lasts `within_s` longer.

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
        self._thread = threading.Thread(
            target=self._stop_at_signal, name="slotwise-signals", daemon=True
        )

    def __enter__(self) -> StopSignals:
        self._former_handlers = {one: signal.signal(one, self._wake) for one in _SIGNALS}
        self._former_fd = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._thread.start()
        return self

    def listen(self) -> None:
        """Take the interpreter's wake-up socket."""
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        signal.setitimer(signal.ITIMER_REAL, 0.0)  # the limit of a signal, if there was one
        signal.set_wakeup_fd(self._former_fd)
        for one, handler in self._former_handlers.items():
            signal.signal(one, handler)
        self._wake()
        self._thread.join()
        self._reader.close()
        self._writer.close()

    def _wake(self, *_: object) -> None:
        self._writer.send(b"\0")

    def _stop_at_signal(self) -> None:
        self._reader.recv(1)  # written by a signal, or at the end of the context
        if self._is_over.is_set():
            return
        signal.setitimer(signal.ITIMER_REAL, self._within_s)  # SIGALRM, if this thread gets stuck
        self._stop()
        if not self._is_over.wait(self._within_s - 2 * _LOG_WITHIN_S):
            logging = threading.Thread(target=self._log_lost, daemon=True)
            logging.start()
            logging.join(_LOG_WITHIN_S)  # it may wait for the stuck thread
            os._exit(1)
