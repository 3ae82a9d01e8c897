"""Counts of each link and segment in a log, and rates that are shrunk towards those of all.

Used by `evaluate` and `fitted_links`.
"""

from __future__ import annotations

import numpy as np

from slotwise.arrays import Floats
from slotwise.compile import compiled, compiled_first
from slotwise.evaluation.log_reader import Pages

MIN_PSEUDO_VIEWS = 1.0
MAX_PSEUDO_VIEWS = 1e6


class Tallies:
    """Views, clicks and revenue of each link in each segment (or slot), of the pages so far."""

    def __init__(self) -> None:
        self.views = np.zeros((1, 0))
        self.outcomes = np.zeros((2, 1, 0))
        self.recent_views = np.zeros(0)
        """Views since the pool last changed."""

    def make_room(self, n_rows: int, n_links: int) -> None:
        """Let the arrays grow to so many segments and links."""
        have_rows, have_links = self.views.shape
        if n_rows > have_rows or n_links > have_links:
            grown = ((0, max(0, n_rows - have_rows)), (0, max(0, n_links - have_links)))
            self.views = np.pad(self.views, grown)
            self.outcomes = np.pad(self.outcomes, ((0, 0), *grown))
            self.recent_views = np.pad(self.recent_views, grown[1])

    def add(self, pages: Pages, by_slot: bool) -> None:
        """Count the links of some pages."""
        count = compiled_first(_count)
        count(pages, by_slot, self.views, self.outcomes, self.recent_views)

    def rates(self) -> Floats:
        """Return the shrunk click and revenue rates: level, segment, link; 0 where unseen."""
        of_links = shrunk_rates(self.outcomes.sum(axis=1), self.views.sum(axis=0))
        if len(self.views) == 1:
            rates = of_links[:, None, :]
        else:
            rates = shrunk_rates(self.outcomes, self.views, of_links[:, None, :])
        return np.where(self.views.sum(axis=0) > 0, rates, 0.0)


def shrunk_rates(sums: Floats, views: Floats, towards: Floats | None = None) -> Floats:
    """Return (sums + s m) / (views + s) for each level, the first axis of `sums`.

    m is `towards`, or the mean of the level over all links; s is fitted by moments: rates that
    differ by no more than chance allows are drawn together, others hardly.

    >>> shrunk_rates(np.array([[50.0, 1.0]]), np.array([100.0, 1.0])).round(2).tolist()
    [[0.5, 0.5...]]
    """
    result = np.zeros(np.broadcast_shapes(sums.shape, views.shape))
    total = max(float(views.sum()), 1.0)
    for level in range(len(sums)):
        mean = sums[level].sum() / total if towards is None else towards[level]
        noise = mean * (1.0 - mean)
        excess = sums[level] - views * mean
        # E excess^2 = views noise + views^2 spread
        spread = float((excess**2 - views * noise).sum()) / max(float((views**2).sum()), 1.0)
        typical = float(np.mean(noise))
        wanted = typical / spread if spread > 0 else MAX_PSEUDO_VIEWS
        strength = min(max(wanted, MIN_PSEUDO_VIEWS), MAX_PSEUDO_VIEWS)
        result[level] = (sums[level] + strength * mean) / (views + strength)
    return result


@compiled
def _count(
    pages: Pages, by_slot: bool, views: Floats, outcomes: Floats, recent_views: Floats
) -> None:
    for page in range(len(pages.segments)):
        for row in range(pages.starts[page], pages.starts[page + 1]):
            place = pages.slots[row] - 1 if by_slot else pages.segments[page]
            link = pages.links[row]
            views[place, link] += 1.0
            outcomes[0, place, link] += pages.clicks[row]
            outcomes[1, place, link] += pages.revenue[row]
            recent_views[link] += 1.0
