"""What keeps scripts on pages from working, counted since the service started.

A page whose host is not allowed, whose pool does not exist or whose visitor is a crawler leaves
no row: without these counts a team would only see that nothing arrives.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

import msgspec

__all__ = ["PageProblem", "PageProblems"]

Kind = Literal["refused-host", "unknown-pool", "refused-visitor", "ignored-visitor"]
_MAX_NAMES = 200
_SHOWN = 5


class PageProblem(msgspec.Struct, frozen=True):
    """One reason why pages were not filled or views not counted."""

    kind: Kind
    name: str
    """The host, the pool, or why a visitor was refused or ignored."""
    n: int


class PageProblems:
    """Counts by pool; the names of pools that do not exist are shown with every pool.

    >>> problems = PageProblems()
    >>> problems.note("refused-host", "home", "old.shop.example")
    >>> problems.of("home")
    (PageProblem(kind='refused-host', name='old.shop.example', n=1),)
    """

    def __init__(self) -> None:
        self._counts: Counter[tuple[Kind, str, str]] = Counter()

    def note(self, kind: Kind, pool_id: str, name: str) -> None:
        """Count one request; names beyond the first two hundred are not kept."""
        found = (kind, "" if kind == "unknown-pool" else pool_id, name[:255])
        if found in self._counts or len(self._counts) < _MAX_NAMES:
            self._counts[found] += 1

    def of(self, pool_id: str) -> tuple[PageProblem, ...]:
        """Return what concerns a pool, most frequent first."""
        found = [
            PageProblem(kind, name, n)
            for (kind, about, name), n in Counter(self._counts).most_common()
            if about in ("", pool_id)
        ]
        return tuple(found[:_SHOWN])
