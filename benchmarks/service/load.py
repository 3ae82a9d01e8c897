"""What a load generator is told, what it reports, and how it reads an answer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Load:
    """What to send, how, and for how long.

    `rate` 0 is a closed loop: each connection sends as soon as it has its answer. A positive
    rate is an open loop: requests are due at random times, whatever the server does. `once` stops
    after the last request.
    """

    host: str
    port: int
    requests: list[str]
    seconds: float
    once: bool = False
    connections: int = 16
    rate: float = 0.0
    seed: int = 0

    def encoded(self) -> Iterator[bytes]:
        """Return what is sent, in this order."""
        requests = [request.encode() for request in self.requests]
        return iter(requests) if self.once else itertools.cycle(requests)


@dataclass(frozen=True)
class Result:
    """What came of it; latencies in milliseconds."""

    per_s: float
    n_answers: int
    n_failures: int
    p50_ms: float
    p99_ms: float
    answer_bytes: int


class Received(NamedTuple):
    """One answer."""

    is_failure: bool
    n_bytes: int
    """The length of its body."""


def answer_in(buffer: bytes) -> Received | None:
    """Return the answer that a buffer holds, None while part of it is missing."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = buffer[:end].lower()
    at = head.index(b"content-length:") + 15
    stop = head.find(b"\r", at)
    length = int(head[at : stop if stop >= 0 else None])
    if len(buffer) < end + 4 + length:
        return None
    return Received(head[9:12] not in (b"200", b"302"), length)


class Tally:
    """Counts answers and keeps their latencies."""

    def __init__(self) -> None:
        self._latencies_s: list[float] = []
        self._n_failures = 0
        self._answer_bytes = 0

    def add(self, received: Received, latency_s: float) -> None:
        self._latencies_s.append(latency_s)
        self._n_failures += received.is_failure
        self._answer_bytes = max(self._answer_bytes, received.n_bytes)

    def result(self, seconds: float) -> Result:
        ordered = sorted(self._latencies_s)
        return Result(
            per_s=len(ordered) / seconds,
            n_answers=len(ordered),
            n_failures=self._n_failures,
            p50_ms=1000 * ordered[len(ordered) // 2],
            p99_ms=1000 * ordered[int(len(ordered) * 0.99)],
            answer_bytes=self._answer_bytes,
        )
