"""Views of links whose feedback window is still open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.service.records import SECOND_US, PoolSettings

__all__ = ["OpenViews"]

Floats = NDArray[np.float64]

MAX_GROUPS = 64
"""Groups of views that are kept apart; of more, the two closest in time are joined."""


class _Group(NamedTuple):
    """Views of links on pages that were shown up to a time."""

    until_us: int
    link_ids: tuple[str, ...]
    views: Floats

    def views_of(self, link_ids: tuple[str, ...]) -> Floats:
        """Return the views of these links, in their order."""
        views = dict(zip(self.link_ids, self.views.tolist(), strict=True))
        return np.array([views.get(link_id, 0.0) for link_id in link_ids])


class OpenViews:
    """Counts the views of each link that are still open, from what was shown and when.

    Views close in groups: all those that one call of `add` counted. Starts at nothing when the
    service does.
    """

    def __init__(self) -> None:
        self._groups: list[_Group] = []

    def add(self, shown: Mapping[str, int], until_us: int) -> None:
        """Take in how often each link was shown since the last call, up to `until_us`."""
        if not shown:
            return
        views = np.array(list(shown.values()), dtype=np.float64)
        self._groups.append(_Group(until_us, tuple(shown), views))
        if len(self._groups) > MAX_GROUPS:
            self._join_closest()

    def _join_closest(self) -> None:
        gaps = [
            later.until_us - earlier.until_us
            for earlier, later in zip(self._groups, self._groups[1:], strict=False)
        ]
        first = gaps.index(min(gaps))
        earlier, later = self._groups[first : first + 2]
        link_ids = tuple(dict.fromkeys((*later.link_ids, *earlier.link_ids)))
        views = earlier.views_of(link_ids) + later.views_of(link_ids)
        self._groups[first : first + 2] = [_Group(later.until_us, link_ids, views)]

    def views(self, link_ids: tuple[str, ...], pool: PoolSettings, now_us: int) -> Floats:
        """Return the open views of these links, a row for clicks and one for revenue.

        Forgets what has closed at both levels.
        """
        click_window_us = pool.click_window_s * SECOND_US
        revenue_window_us = max(click_window_us, pool.revenue_window_s * SECOND_US)
        self._groups = [
            group for group in self._groups if group.until_us + revenue_window_us > now_us
        ]
        views = np.zeros((2, len(link_ids)))
        for group in self._groups:
            n_views = group.views_of(link_ids)
            views[1] += n_views
            if group.until_us + click_window_us > now_us:
                views[0] += n_views
        return views
