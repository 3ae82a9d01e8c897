"""Counts of requests and events that leave no row in the store, in memory since the start.

A page is not stored if its host is not allowed, its key is wrong, its pool does not exist or its
visitor is a crawler: without these counts a team would only see that nothing arrives. A duplicate
changes no row of the store either; its pool is looked up in the store when the count is read, not
while the event is answered. Used by `overview` and `api`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from threading import Lock
from typing import Literal

import msgspec

from slotwise.service.records import AdjustmentEvent, Event, Outcome
from slotwise.service.reporting.network_shares import NetworkShares

_Kind = Literal[
    "refused-host",
    "refused-key",
    "unknown-pool",
    "refused-visitor",
    "ignored-visitor",
    "one-network",
]
_MAX_NAMES = 100
"""Names of one kind that are counted at the same time."""
_SHOWN = 3
"""Names of one kind that are shown."""
MAX_UNPLACED = 10_000
"""Decisions of duplicates stored until their pool is looked up; further ones are not counted."""


class PageProblem(msgspec.Struct, frozen=True):
    """One reason why pages were not filled or views not counted."""

    kind: _Kind
    name: str
    """The host, the pool, or why a visitor was refused or ignored."""
    n: int


class PageProblems:
    """Counts problems by pool; the names of pools that do not exist are shown with every pool.

    Anyone can send pages from any host without a key, so no kind of problem displaces another, and
    names that were seen once are evicted before names that were seen again.

    >>> problems = PageProblems()
    >>> problems.note("refused-host", "home", "old.shop.example")
    >>> problems.of("home")
    (PageProblem(kind='refused-host', name='old.shop.example', n=1),)
    """

    def __init__(self) -> None:
        self._counts: dict[_Kind, Counter[tuple[str, str]]] = {}
        """By kind, the counts by pool and name; the pool is empty where it does not exist."""

    def note(self, kind: _Kind, pool_id: str, name: str) -> None:
        """Count one request; if there are too many names, each count is reduced by one."""
        counts = self._counts.setdefault(kind, Counter())
        pool_and_name = ("" if kind == "unknown-pool" else pool_id, name[:255])
        if pool_and_name in counts or len(counts) < _MAX_NAMES:
            counts[pool_and_name] += 1
        else:
            self._counts[kind] = Counter({each: n - 1 for each, n in counts.items() if n > 1})

    def of(self, pool_id: str) -> tuple[PageProblem, ...]:
        """Return the problems of a pool, the most frequent names of each kind first."""
        problems: list[PageProblem] = []
        for kind, counts in list(self._counts.items()):
            by_name = Counter(
                {name: n for (pool, name), n in counts.items() if pool in ("", pool_id)}
            )
            problems += [PageProblem(kind, name, n) for name, n in by_name.most_common(_SHOWN)]
        return tuple(sorted(problems, key=lambda problem: -problem.n))


class OutcomesSinceStart:
    """Counts duplicates by pool and refusals over all pools, and has the other counts.

    >>> from slotwise.service.records import ClickEvent
    >>> outcomes = OutcomesSinceStart(started_us=0)
    >>> click = ClickEvent(decision_id="d1", link_id="l1")
    >>> for _ in range(2):
    ...     outcomes.note(click, Outcome(outcome="duplicate"))
    >>> outcomes.duplicates("home", {"d1": "home"}.get)
    2
    """

    def __init__(self, started_us: int) -> None:
        self.started_us = started_us
        self.refused = 0
        """Events that break a rule or cannot be read."""
        self.pages = PageProblems()
        self.networks = NetworkShares()
        self._lock = Lock()
        self._unplaced: Counter[str] = Counter()
        """Duplicates by decision, until their pool is looked up."""
        self._by_pool: Counter[str] = Counter()

    def note(self, event: Event, outcome: Outcome) -> None:
        """Count an event that was answered."""
        if outcome.outcome == "rejected":
            self.refused += 1
        elif outcome.outcome == "duplicate" and not isinstance(event, AdjustmentEvent):
            with self._lock:
                is_counted = event.decision_id in self._unplaced
                if is_counted or len(self._unplaced) < MAX_UNPLACED:
                    self._unplaced[event.decision_id] += 1

    def duplicates(self, pool_id: str, pool_of: Callable[[str], str | None]) -> int:
        """Count the duplicate clicks and sales of a pool; `pool_of` finds a decision's pool."""
        with self._lock:
            unplaced, self._unplaced = self._unplaced, Counter()
        placed: Counter[str] = Counter()
        for decision_id, n_events in unplaced.items():
            found = pool_of(decision_id)
            if found is not None:
                placed[found] += n_events
        with self._lock:
            self._by_pool += placed
            return self._by_pool[pool_id]
