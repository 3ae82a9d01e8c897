"""Let requests run between the steps of work in the background.

Threads of a process share one interpreter. A thread that computes without a break takes half of it
from the thread that answers requests, and while that lasts the requests queue up. The thread that
learns therefore rests after each half millisecond of computing, wherever its work calls `give_way`,
unless no other thread has made it wait: a service without traffic catches up at full speed. Used by
`counting`, `learning` and `storage`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter, sleep, thread_time
from typing import TypeVar

WORK_S, REST_S = 0.0005, 0.0015
"""Computing between two rests, and the length of a rest: a quarter of the interpreter at most."""
WAITED = 0.2
"""Waiting, as a part of the time computed, that shows that others need the interpreter."""
STEP = 16
"""Items between two looks at the clock."""

Item = TypeVar("Item")


class Background:
    """What a thread in the background has computed and rested."""

    def __init__(self) -> None:
        self.rested_s = 0.0
        self._begin()

    def _begin(self) -> None:
        self._since_s, self._computed_s = perf_counter(), thread_time()

    def give_way(self) -> None:
        """Rest if this thread has computed for `WORK_S` since the last rest, and had to wait."""
        computed_s = thread_time() - self._computed_s
        if computed_s < WORK_S:
            return
        waited_s = perf_counter() - self._since_s - computed_s
        if waited_s >= WAITED * computed_s:
            sleep(REST_S)
            self.rested_s += REST_S
        self._begin()


class _Local(threading.local):
    background: Background | None = None


_local = _Local()


@contextmanager
def in_background() -> Iterator[Background]:
    """Make this thread rest wherever its work calls `give_way`."""
    _local.background = background = Background()
    try:
        yield background
    finally:
        _local.background = None


def give_way() -> None:
    """Rest, if this thread works in the background, has computed long enough and had to wait."""
    if _local.background is not None:
        _local.background.give_way()


def giving_way(items: Iterable[Item]) -> Iterator[Item]:
    """Yield items, and give way between them.

    >>> list(giving_way("abc"))
    ['a', 'b', 'c']
    """
    for number, item in enumerate(items):
        if number % STEP == STEP - 1:
            give_way()
        yield item
