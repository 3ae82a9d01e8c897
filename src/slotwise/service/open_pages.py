"""Pages that were shown and have not told yet what they brought, by what showed them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    views: dict[str, float]


class OpenPages:
    """Estimates how many views of each link are still open.

    From the number of pages of each version and its probabilities: exact up to chance, and a
    decision costs no more than counting it. Starts at nothing when the service does.
    """

    def __init__(self) -> None:
        self._groups: list[_Group] = []

    def add(self, n_pages: int, shares: Mapping[str, float], until_us: int) -> None:
        """Take in the pages of a version, all shown by `until_us`."""
        if n_pages == 0:
            return
        views = {link_id: n_pages * share for link_id, share in shares.items() if share > 0.0}
        self._groups.append(_Group(until_us, views))
        if len(self._groups) > MAX_GROUPS:
            self._join_closest()

    def _join_closest(self) -> None:
        gaps = [
            later.until_us - earlier.until_us
            for earlier, later in zip(self._groups, self._groups[1:], strict=False)
        ]
        first = gaps.index(min(gaps))
        earlier, later = self._groups[first : first + 2]
        views = dict(later.views)
        for link_id, n_views in earlier.views.items():
            views[link_id] = views.get(link_id, 0.0) + n_views
        self._groups[first : first + 2] = [_Group(later.until_us, views)]

    def views(self, link_ids: Sequence[str], pool: PoolSettings, now_us: int) -> Floats:
        """Return the open views of these links, a row for clicks and one for revenue.

        Forgets what has closed at both levels.
        """
        click_window_us = pool.click_window_s * SECOND_US
        revenue_window_us = max(click_window_us, pool.revenue_window_s * SECOND_US)
        self._groups = [
            group for group in self._groups if group.until_us + revenue_window_us > now_us
        ]
        places = {link_id: place for place, link_id in enumerate(link_ids)}
        views = np.zeros((2, len(link_ids)))
        for group in self._groups:
            is_open = group.until_us + click_window_us > now_us
            for link_id, n_views in group.views.items():
                place = places.get(link_id)
                if place is not None:
                    views[1, place] += n_views
                    views[0, place] += n_views if is_open else 0.0
        return views
