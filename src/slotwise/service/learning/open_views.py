"""Pages that were shown and have not told yet what they brought, by what showed them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.service.records import SECOND_US, PoolSettings

__all__ = ["OpenPages"]

Floats = NDArray[np.float64]

MAX_GROUPS = 64
"""Groups kept apart: of more, the oldest two that lie closest become one."""


class _Group(NamedTuple):
    """Views of links on pages that were shown up to a time."""

    until_us: int
    link_ids: tuple[str, ...]
    views: Floats

    def views_of(self, link_ids: tuple[str, ...]) -> Floats:
        """Return the views of other links: mostly they are the same."""
        if link_ids is self.link_ids or link_ids == self.link_ids:
            return self.views
        views = dict(zip(self.link_ids, self.views.tolist(), strict=True))
        return np.array([views.get(link_id, 0.0) for link_id in link_ids])


class OpenPages:
    """Estimates how many views of each link are still open.

    From the number of pages of each version and its probabilities: exact up to chance, and a
    decision costs no more than counting it. Starts at nothing when the service does.
    """

    def __init__(self) -> None:
        self._groups: list[_Group] = []

    def add(self, n_pages: int, link_ids: tuple[str, ...], shares: Floats, until_us: int) -> None:
        """Take in the pages of a version, all shown by `until_us`."""
        self._groups.append(_Group(until_us, link_ids, n_pages * shares))
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
