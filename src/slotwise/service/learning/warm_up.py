"""Compile, ahead of the first visitor, what a policy's pages need.

Compiling takes seconds on a new machine and is kept on disk afterwards; loading what was kept
takes a fraction of a second. Either way no page view should wait for it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread

import numpy as np
from msgspec.structs import replace

from slotwise.service.counting.views import Counters, LinkCounters
from slotwise.service.deciding.snapshot import NO_WISH, Wish
from slotwise.service.learning.publishing import publish
from slotwise.service.records import PoolSettings
from slotwise.service.reporting.pool_report import explain_links, report_frontier, share_rate

__all__ = ["PolicyCompiler", "warm_up"]

_log = logging.getLogger(__name__)

_TOY_LINKS = ("a", "b", "c", "d")


def warm_up(pool: PoolSettings) -> None:
    """Publish a toy version with the pool's policy and draw every kind of page from it."""
    toy = replace(pool, slots=2, click_floor=min(pool.click_floor, 0.5), fallback_order=())
    if "probabilities" in pool.policy_settings:
        toy = replace(toy, policy_settings={"probabilities": [0.5] * len(_TOY_LINKS)})
    counters = Counters(
        links={
            ("policy", link_id): LinkCounters(
                click_views=9, clicks=place, revenue_views=9, revenue_micros=4 - place
            )
            for place, link_id in enumerate(_TOY_LINKS)
        }
    )
    rng = np.random.default_rng(0)
    snapshot = publish(toy, _TOY_LINKS, counters, None, 1, 0, rng)
    for page in (
        snapshot.page(NO_WISH),
        snapshot.page(Wish(exclude=frozenset("a"))),
        snapshot.holdout_page(NO_WISH),
    ):
        page.draw(rng)
    explain_links(toy, snapshot)
    report_frontier(toy, snapshot)
    share_rate(1, 2, 1)


class PolicyCompiler:
    """Compiles policies one after the other in a thread of its own, each once in a process.

    `compiled` is called in that thread with the name of each policy that is ready.
    """

    def __init__(self, compiled: Callable[[str], None]) -> None:
        self._compiled = compiled
        self._lock = Lock()
        self._asked: dict[str, Future[None]] = {}
        self._ready: set[str] = set()
        self._queue: deque[PoolSettings] = deque()
        self._thread: Thread | None = None

    @property
    def waiting(self) -> tuple[str, ...]:
        """The policies that were asked for and are not ready yet."""
        with self._lock:
            return tuple(name for name, done in self._asked.items() if not done.done())

    def is_ready(self, policy: str) -> bool:
        """Say whether a policy's pages need no compiling any more."""
        return policy in self._ready

    def compile(self, pool: PoolSettings) -> Future[None]:
        """Compile the policy of a pool, unless that was asked for before."""
        with self._lock:
            done = self._asked.get(pool.policy)
            if done is None:
                done = self._asked[pool.policy] = Future()
                done.set_running_or_notify_cancel()  # whoever waits for it cannot cancel it
                self._queue.append(pool)
                if self._thread is None:
                    # No pool of threads: those would be waited for when the process ends.
                    self._thread = Thread(target=self._run, name="slotwise-compiling", daemon=True)
                    self._thread.start()
            return done

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._thread = None
                    return
                pool = self._queue.popleft()
            try:
                warm_up(pool)
            except Exception:  # the pool works all the same, or says itself what fails
                _log.exception("compiling policy %s failed", pool.policy)
            self._ready.add(pool.policy)
            self._compiled(pool.policy)
            self._asked[pool.policy].set_result(None)
