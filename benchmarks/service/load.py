"""A small load generator: keep-alive connections that send requests in turn, over and over.

Runs in a process of its own, so that it and the server each have a core; reads a `Load` as
JSON from standard input and writes a `Result`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import cast


@dataclass(frozen=True)
class Load:
    """What to send, how, and for how long.

    `rate` 0 is a closed loop: each connection sends as soon as it has its answer. A positive
    rate is an open loop: requests are due at random times, whatever the server does, and
    their latency counts from when they were due. `once` stops after the last request.
    """

    host: str
    port: int
    requests: list[str]
    seconds: float
    once: bool = False
    connections: int = 16
    rate: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class Result:
    """What came of it; latencies in milliseconds."""

    per_s: float
    n_answers: int
    n_failures: int
    p50_ms: float
    p99_ms: float
    answer_bytes: int


class Connection(asyncio.Protocol):
    """One keep-alive connection with at most one request under way."""

    def __init__(self, requests: Iterator[bytes], latencies: list[float]) -> None:
        self.requests = requests
        self.latencies = latencies
        self.n_failures = 0
        self.answer_bytes = 0
        self.buffer = b""
        self.began = 0.0
        self.idle_again: Callable[[Connection], None] = lambda connection: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def send(self, due: float) -> bool:
        """Send the next request, or return that there is none."""
        request = next(self.requests, None)
        if request is None:
            return False
        self.began = due
        self.transport.write(request)
        return True

    def data_received(self, data: bytes) -> None:
        buffer = self.buffer + data if self.buffer else data
        end = buffer.find(b"\r\n\r\n")
        if end < 0:
            self.buffer = buffer
            return
        head = buffer[:end].lower()
        at = head.index(b"content-length:") + 15
        stop = head.find(b"\r", at)
        length = int(head[at : stop if stop >= 0 else None])
        if len(buffer) < end + 4 + length:
            self.buffer = buffer
            return
        self.buffer = b""
        if head[9:12] not in (b"200", b"302"):
            self.n_failures += 1
        self.answer_bytes = length
        self.latencies.append(time.perf_counter() - self.began)
        self.idle_again(self)


async def run(load: Load) -> Result:
    loop = asyncio.get_running_loop()
    latencies: list[float] = []
    encoded = [request.encode() for request in load.requests]
    requests = iter(encoded) if load.once else itertools.cycle(encoded)
    connections = []
    for _ in range(load.connections):
        _, connection = await loop.create_connection(
            lambda: Connection(requests, latencies), load.host, load.port
        )
        connections.append(connection)
    began = time.perf_counter()
    if load.rate:
        await _open_loop(load, connections, began)
    else:
        await _closed_loop(load, connections, began)
    seconds = time.perf_counter() - began
    for connection in connections:
        connection.transport.close()
    ordered = sorted(latencies)
    return Result(
        per_s=len(ordered) / seconds,
        n_answers=len(ordered),
        n_failures=sum(connection.n_failures for connection in connections),
        p50_ms=1000 * ordered[len(ordered) // 2],
        p99_ms=1000 * ordered[int(len(ordered) * 0.99)],
        answer_bytes=max(connection.answer_bytes for connection in connections),
    )


async def _closed_loop(load: Load, connections: list[Connection], began: float) -> None:
    over = began + load.seconds
    finished = asyncio.get_running_loop().create_future()
    n_open = len(connections)

    def again(connection: Connection) -> None:
        nonlocal n_open
        now = time.perf_counter()
        if now < over and connection.send(now):
            return
        n_open -= 1
        if n_open == 0:
            finished.set_result(None)

    for connection in connections:
        connection.idle_again = again
        connection.send(time.perf_counter())
    await finished


async def _open_loop(load: Load, connections: list[Connection], began: float) -> None:
    rng = random.Random(load.seed)
    idle = deque(connections)
    waiting: deque[float] = deque()

    def free(connection: Connection) -> None:
        if waiting:
            connection.send(waiting.popleft())
        else:
            idle.append(connection)

    for connection in connections:
        connection.idle_again = free
    due = began
    while due < began + load.seconds:
        due += rng.expovariate(load.rate)
        while (ahead := due - time.perf_counter()) > 0:
            # A timer of the loop is too coarse below a millisecond; then let answers in.
            await asyncio.sleep(ahead if ahead > 0.002 else 0)
        if idle:
            idle.popleft().send(due)
        else:
            waiting.append(due)
    while len(idle) < len(connections):
        await asyncio.sleep(0.005)


def main() -> None:
    load = Load(**json.load(sys.stdin))
    try:
        import uvloop

        result = uvloop.run(run(load))
    except ModuleNotFoundError:
        result = asyncio.run(run(load))
    print(json.dumps(asdict(result)))


if __name__ == "__main__":
    main()
