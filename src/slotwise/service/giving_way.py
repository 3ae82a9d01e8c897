"""Let requests run between the steps of work in the background.

Threads of a process share one interpreter. A thread that computes without a break takes half of it
from the thread that answers requests, and while that lasts the requests queue up. The thread that
learns therefore rests after each half millisecond of computing, wherever its work calls
`give_way`. Used by `counting`, `learning` and `storage`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import sleep, thread_time
from typing import TypeVar

WORK_S, REST_S = 0.0005, 0.0015
"""Computing between two rests, and the length of a rest: a quarter of the interpreter at most."""
STEP = 16
"""Items between two looks at the clock."""

Item = TypeVar("Item")


class Background:
    """What a thread in the background has computed and rested."""

    def __init__(self) -> None:
        self.rested_s = 0.0
        self._since_s = thread_time()

    def give_way(self) -> None:
        """Rest if this thread has computed for `WORK_S` since its last rest."""
        if thread_time() - self._since_s >= WORK_S:
            sleep(REST_S)
            self.rested_s += REST_S
            self._since_s = thread_time()


class _Local(threading.local):
    background: Background | None = None


_local = _Local()


@contextmanager
def in_background() -> Iterator[Background]:
    """Make this thread rest wherever its work calls `give_way`."""
    _local.background = before = Background()
    try:
        yield before
    finally:
        _local.background = None


def give_way() -> None:
    """Rest, if this thread works in the background and has computed long enough."""
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
