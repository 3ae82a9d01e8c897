"""Views whose windows are open, in groups by their times, so that memory is bounded.

Used by `pool_run`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from slotwise.arrays import Floats
from slotwise.service.records import SECOND_US, PoolSettings
from slotwise.service.storage.sql_reads import StoreReader

MAX_GROUPS = 128
"""Maximum number of groups of views; beyond it, the two that are shortest together are joined."""

STORED_GROUPS = 64
"""Groups into which the views of a window are read after a start."""


class _Group(NamedTuple):
    """How often each link was shown after one time, up to another."""

    after_us: int
    until_us: int
    shown: Floats
    """By column; links beyond the end were not shown."""

    def share_open(self, window_us: int, now_us: int) -> float:
        """Return the share of views whose window is open, if views are spread evenly."""
        open_us = self.until_us + window_us - now_us
        if open_us <= 0:
            return 0.0
        return min(1.0, open_us / max(self.until_us - self.after_us, 1))


class OpenViews:
    """Counts the open views of each link, from what was shown and when.

    A long window contains more versions than there are groups, so groups are joined. The views of a
    group are taken to close evenly over its time, not all at its end: many views closing at once
    would make a queue policy oscillate.
    """

    def __init__(self) -> None:
        self._groups: list[_Group] = []
        self._columns: dict[str, int] = {}

    @classmethod
    def stored(cls, reader: StoreReader, pool: PoolSettings, closed_until_us: int) -> OpenViews:
        """Count the open views of a pool in a store; an even sample if there are very many."""
        window_us = max(pool.click_window_s, pool.revenue_window_s) * SECOND_US
        span_us = max(window_us // STORED_GROUPS, 1)
        since_us = max(closed_until_us - window_us, 0)
        activity = reader.activity(pool.pool_id, since_us, span_us, closed_until_us)
        by_start: dict[int, dict[str, int]] = defaultdict(dict)
        for span in activity.link_spans:
            by_start[span.start_us][span.link_id] = span.views
        open_views = cls()
        for start_us, shown in sorted(by_start.items()):
            open_views.add(shown, start_us + span_us, start_us)
        return open_views

    def add(self, shown: Mapping[str, int], until_us: int, after_us: int | None = None) -> None:
        """Record how often each link was shown since the last call, up to `until_us`.

        `after_us` is the time of the last call, where that is not the end of the last group.
        """
        if not shown:
            return
        for link_id in shown:
            self._columns.setdefault(link_id, len(self._columns))
        counts = np.zeros(len(self._columns))
        counts[[self._columns[link_id] for link_id in shown]] = list(shown.values())
        if after_us is None:
            after_us = self._groups[-1].until_us if self._groups else until_us
        self._groups.append(_Group(min(after_us, until_us), until_us, counts))
        if len(self._groups) > MAX_GROUPS:
            self._join_shortest()

    def _join_shortest(self) -> None:
        lengths = [
            later.until_us - earlier.after_us
            for earlier, later in zip(self._groups, self._groups[1:], strict=False)
        ]
        first = lengths.index(min(lengths))
        earlier, later = self._groups[first : first + 2]
        shown = np.zeros(max(len(earlier.shown), len(later.shown)))
        for group in (earlier, later):
            shown[: len(group.shown)] += group.shown
        joined = _Group(earlier.after_us, later.until_us, shown)
        self._groups[first : first + 2] = [joined]

    def views(self, link_ids: tuple[str, ...], pool: PoolSettings, now_us: int) -> Floats:
        """Return the open views of these links, a row for clicks and one for revenue.

        Drops views that have closed at both levels.
        """
        click_window_us = pool.click_window_s * SECOND_US
        revenue_window_us = max(click_window_us, pool.revenue_window_s * SECOND_US)
        self._groups = [
            group for group in self._groups if group.share_open(revenue_window_us, now_us) > 0
        ]
        columns = np.zeros((2, len(self._columns) + 1))  # the last column is for links never shown
        for group in self._groups:
            for row, window_us in enumerate((click_window_us, revenue_window_us)):
                columns[row, : len(group.shown)] += group.shown * group.share_open(
                    window_us, now_us
                )
        return columns[:, [self._columns.get(link_id, -1) for link_id in link_ids]]
