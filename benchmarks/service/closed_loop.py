"""A load of keep-alive connections that each send again as soon as they have an answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import cast

from benchmarks.service.load import Load, Result, Tally, answer_in


class _Connection(asyncio.Protocol):
    """One connection with at most one request under way."""

    def __init__(self, requests: Iterator[bytes], tally: Tally) -> None:
        self._requests = requests
        self._tally = tally
        self._buffer = b""
        self._began_s = 0.0
        self.idle_again: Callable[[_Connection], None] = lambda connection: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def send(self, now_s: float) -> bool:
        """Send the next request, or return that there is none."""
        request = next(self._requests, None)
        if request is None:
            return False
        self._began_s = now_s
        self.transport.write(request)
        return True

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        received = answer_in(buffer)
        if received is None:
            self._buffer = buffer
            return
        self._buffer = b""
        self._tally.add(received, time.perf_counter() - self._began_s)
        self.idle_again(self)


async def run(load: Load) -> Result:
    loop = asyncio.get_running_loop()
    requests, tally = load.encoded(), Tally()
    connections = []
    for _ in range(load.connections):
        _, connection = await loop.create_connection(
            lambda: _Connection(requests, tally), load.host, load.port
        )
        connections.append(connection)
    began_s = time.perf_counter()
    finished = loop.create_future()
    n_open = len(connections)

    def again(connection: _Connection) -> None:
        nonlocal n_open
        now_s = time.perf_counter()
        if now_s < began_s + load.seconds and connection.send(now_s):
            return
        n_open -= 1
        if n_open == 0:
            finished.set_result(None)

    for connection in connections:
        connection.idle_again = again
        connection.send(time.perf_counter())
    await finished
    seconds = time.perf_counter() - began_s
    for connection in connections:
        connection.transport.close()
    return tally.result(seconds)


def run_closed_loop(load: Load) -> Result:
    try:
        import uvloop
    except ModuleNotFoundError:
        return asyncio.run(run(load))
    return uvloop.run(run(load))
