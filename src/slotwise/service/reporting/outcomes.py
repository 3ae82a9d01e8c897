"""Counts of duplicate and refused events since the service started.

A duplicate changes no row of the store, so it is counted in memory. The pool of a duplicate is
looked up in the store when the count is read, not while the event is answered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from threading import Lock

from slotwise.service.records import AdjustmentEvent, Event, Outcome
from slotwise.service.reporting.page_problems import PageProblems

__all__ = ["MAX_NAMED", "OutcomesSinceStart"]

MAX_NAMED = 10_000
"""Decisions of duplicates that are kept until their pool is looked up; more are not counted."""


class OutcomesSinceStart:
    """Counts duplicates by pool, and refusals over all pools.

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
        self._lock = Lock()
        self._unplaced: Counter[str] = Counter()
        self._by_pool: Counter[str] = Counter()

    def note(self, event: Event, outcome: Outcome) -> None:
        """Count an event that was answered."""
        if outcome.outcome == "rejected":
            self.refused += 1
        elif outcome.outcome == "duplicate" and not isinstance(event, AdjustmentEvent):
            with self._lock:
                known = event.decision_id in self._unplaced
                if known or len(self._unplaced) < MAX_NAMED:
                    self._unplaced[event.decision_id] += 1

    def note_unreadable(self) -> None:
        """Count an item that could not be read as an event."""
        self.refused += 1

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
