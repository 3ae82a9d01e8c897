"""A load whose requests are due at random times, whatever the server does.

A latency counts from the sending of a request to the arrival of its answer, as the system stamped
it: the time that this process waits for a core, or computes, is not the server's. A request that
finds all connections waiting for answers counts from then on. It sleeps until the next request is
due or an answer has come, so that it takes no more of a core than a client needs.
"""

from __future__ import annotations

import contextlib
import ctypes
import random
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Iterator

from benchmarks.service.load import Load, Result, Tally, answer_in
from slotwise.service.thread_priority import REQUESTS, SHORT_SLICE_NS, request_priority

_STAMPED = 35
"""SO_TIMESTAMPNS of Linux: each answer comes with its time of arrival."""
_STAMP = struct.Struct("@qq")
_SET_TIMER_SLACK = 29
"""PR_SET_TIMERSLACK of prctl(2)."""
_MAX_WAIT_S = 0.1


def _now_s() -> float:
    """Return the time on the clock of the stamps."""
    return time.time()


class _Connection:
    """One keep-alive connection with at most one request under way."""

    def __init__(self, load: Load) -> None:
        self.socket = socket.create_connection((load.host, load.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError):
            self.socket.setsockopt(socket.SOL_SOCKET, _STAMPED, 1)
        self._buffer = b""
        self._began_s = 0.0

    def send(self, request: bytes, since_s: float) -> None:
        self._began_s = since_s
        self.socket.sendall(request)

    def receive(self, tally: Tally) -> bool:
        """Take what has come; return whether the answer is whole."""
        data, stamps, _, _ = self.socket.recvmsg(65536, 64)
        assert data, "the server closed a connection"
        self._buffer += data
        received = answer_in(self._buffer)
        if received is None:
            return False
        self._buffer = b""
        tally.add(received, self._arrived_s(stamps) - self._began_s)
        return True

    @staticmethod
    def _arrived_s(stamps: list[tuple[int, int, bytes]]) -> float:
        for level, kind, stamp in stamps:
            if (level, kind) == (socket.SOL_SOCKET, _STAMPED):
                seconds, nanoseconds = _STAMP.unpack(stamp)
                return float(seconds + nanoseconds / 1e9)
        return _now_s()


class _OpenLoop:
    def __init__(self, load: Load) -> None:
        self._requests = load.encoded()
        self._tally = Tally()
        opened = [_Connection(load) for _ in range(load.connections)]
        self._connections = {one.socket.fileno(): one for one in opened}
        self._idle = deque(opened)
        self._waiting: deque[tuple[bytes, float]] = deque()
        self._arrivals = select.epoll()
        for number in self._connections:
            self._arrivals.register(number, select.EPOLLIN)

    def run(self, dues: Iterator[float]) -> Result:
        began_s = _now_s()
        due_s = next(dues, None)
        while due_s is not None or len(self._idle) < len(self._connections):
            while due_s is not None and due_s <= time.perf_counter():
                request = next(self._requests, None)
                if request is None:
                    due_s = None
                    break
                self._send(request)
                due_s = next(dues, None)
            self._take_answers(due_s)
        seconds = _now_s() - began_s
        self._arrivals.close()
        for connection in self._connections.values():
            connection.socket.close()
        return self._tally.result(seconds)

    def _send(self, request: bytes) -> None:
        if self._idle:
            self._idle.popleft().send(request, _now_s())
        else:
            self._waiting.append((request, _now_s()))

    def _take_answers(self, until_s: float | None) -> None:
        """Wait for answers until the next request is due, and take them."""
        left_s = _MAX_WAIT_S if until_s is None else until_s - time.perf_counter()
        if left_s > 0:  # the timeout of epoll itself is in milliseconds
            select.select([self._arrivals], [], [], left_s)
        for number, _ in self._arrivals.poll(0):
            connection = self._connections[number]
            if connection.receive(self._tally):
                if self._waiting:
                    connection.send(*self._waiting.popleft())
                else:
                    self._idle.append(connection)


def _dues(load: Load) -> Iterator[float]:
    """Return when requests are due, on the clock of `perf_counter`."""
    rng = random.Random(load.seed)
    due_s = began_s = time.perf_counter()
    while (due_s := due_s + rng.expovariate(load.rate)) < began_s + load.seconds:
        yield due_s


def wake_when_due() -> None:
    """Let this thread run as soon as a request is due or an answer arrives.

    Real clients are on other machines, where the service's priority does not delay them. It is for
    a process that does nothing else: threads that wait for one another would switch without a
    pause.
    """
    request_priority(REQUESTS, SHORT_SLICE_NS)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_TIMER_SLACK, 1, 0, 0, 0)


def run_open_loop(load: Load) -> Result:
    return _OpenLoop(load).run(_dues(load))
