"""The log of a selector: pages in the order they were chosen, written once they are settled.

Used by `selector`.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple

from slotwise.page_log import LoggedPage, LogWriter
from slotwise.rounds import Decision, Link
from slotwise.selector.open_pages import OpenPage


class ChosenPage(NamedTuple):
    """How a page was chosen: what its log says beside its links."""

    probabilities: tuple[float, ...]
    min_probability: float
    pool_changes: int
    visitor: Mapping[str, str | None]
    random_order: bool


@dataclass(slots=True)
class _Entry:
    page_id: str
    time_us: int
    shown: tuple[Link, ...]
    probabilities: tuple[float, ...]
    min_probability: float
    pool_changes: int
    visitor: Mapping[str, str | None]
    random_order: bool
    settled: OpenPage | None = None


class PageJournal:
    """Pages that are logged once they and all pages before them are settled.

    A page that is still open after `max_waiting` later ones is logged as unsettled. The log is in
    the order of the decisions: an order that depended on feedback would bias evaluations.
    """

    def __init__(
        self,
        writer: LogWriter,
        policy: str,
        max_waiting: int,
        levels: Sequence[str] = (),
        clock_us: Callable[[], int] | None = None,
    ) -> None:
        self._writer = writer
        self._levels = levels
        self._policy = policy
        self._max_waiting = max_waiting
        self._clock_us = clock_us or (lambda: time.time_ns() // 1000)
        self._last_us = self._writer.last_us  # the clock may have been set back since
        self._waiting: deque[_Entry] = deque()
        self._by_number: dict[int, _Entry] = {}

    def issued(self, number: int, page: Decision, chosen: ChosenPage) -> None:
        """Record a page that was just chosen, and what was known of the visitor."""
        self._last_us = max(self._last_us, self._clock_us())
        entry = _Entry(page.id, self._last_us, page.shown, *chosen)
        self._waiting.append(entry)
        self._by_number[number] = entry
        if len(self._waiting) > self._max_waiting:
            self._write_first()
        self._write_settled()

    def settled(self, page: OpenPage) -> None:
        """Record a page whose clicks and revenue are both known."""
        entry = self._by_number.pop(page.number, None)
        if entry is not None:
            entry.settled, entry.shown = page, page.shown  # as displayed
            entry.probabilities, entry.random_order = page.probabilities, page.is_in_random_order

    def flush(self) -> None:
        """Write the settled pages that have no open page before them."""
        self._write_settled()
        self._writer.flush()

    def close(self) -> None:
        """Write all pages, open ones as unsettled."""
        while self._waiting:
            self._write_first()
        self._by_number.clear()
        self._writer.flush()

    def _write_settled(self) -> None:
        while self._waiting and self._waiting[0].settled is not None:
            self._write_first()

    def _write_first(self) -> None:
        """Write the page that has waited longest; one that is not settled has no outcomes."""
        entry = self._waiting.popleft()
        page = entry.settled
        outcomes = [outcome or {} for outcome in page.outcomes] if page else None
        clicked, *between, revenue = outcomes or [{}] * (2 + len(self._levels))
        self._writer.append(
            LoggedPage(
                page_id=entry.page_id,
                time_us=entry.time_us,
                links=[link if isinstance(link, str) else repr(link) for link in entry.shown],
                probabilities=entry.probabilities,
                clicked=[link in clicked for link in entry.shown],
                revenue=[revenue.get(link, 0.0) for link in entry.shown],
                min_probability=entry.min_probability,
                pool_changes=entry.pool_changes,
                settled=page is not None,
                policy=self._policy,
                visitor=entry.visitor,
                levels={
                    name: [outcome.get(link, 0.0) for link in entry.shown]
                    for name, outcome in zip(self._levels, between, strict=True)
                },
                random_order=entry.random_order,
            )
        )


def close_at_end(journal: PageJournal, lock: AbstractContextManager[object], process: int) -> None:
    """Close a journal whose selector or program ends; not in a process that was forked off."""
    if os.getpid() == process:
        with lock:
            journal.close()
