"""What the pages shown so far have brought, to judge the floor by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slotwise.selector.rate import Rate, rate_of

__all__ = ["Delivered", "DeliveredReport"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DeliveredReport:
    """Clicks and revenue per page view since the floor was last set, with 95 % intervals.

    `status` judges the click floor by the clicks delivered: `met` if they are at least the floor,
    `infeasible` if no page of these links could have them, otherwise `learning`.
    """

    page_views: int
    clicks: Rate
    revenue: Rate
    click_floor: float
    status: str


class Delivered:
    """Settled pages and what they brought, of the first and of the last level."""

    def __init__(self) -> None:
        self._totals = [0.0, 0.0, 0.0, 0.0]

    @property
    def totals(self) -> Floats:
        """Pages and what they brought, a row for the first level and one for the last."""
        return np.array(self._totals).reshape(2, 2)

    def note(self, level: int, n_levels: int, n_pages: float, brought: float) -> None:
        """Count settled pages of a level; levels between the first and the last do not matter."""
        if level == 0:
            row = 0
        elif level == n_levels - 1:
            row = 2
        else:
            return
        self._totals[row] += n_pages
        self._totals[row + 1] += brought

    def start_again(self) -> None:
        """Forget what was delivered under another floor."""
        self._totals = [0.0, 0.0, 0.0, 0.0]

    def restore(self, totals: Floats | None) -> None:
        """Take over what a file holds; files of earlier versions have nothing."""
        if totals is None:
            return
        if totals.shape != (2, 2) or not (np.isfinite(totals) & (totals >= 0)).all():
            raise ValueError("array delivered must be counts of shape (2, 2)")
        self._totals = totals.astype(np.float64).ravel().tolist()

    def report(
        self, n_slots: int, max_revenue: float, click_floor: float, is_infeasible: bool
    ) -> DeliveredReport:
        """Return rates per page view, and what they say of the floor."""
        # a page brings up to n_slots clicks: the interval is for the mean of a slot
        n_pages, clicks, n_settled, revenue = self._totals
        rate = rate_of(clicks / n_slots, n_pages, n_slots)
        if click_floor == 0.0 or (n_pages and rate.estimate >= click_floor):
            status = "met"
        else:
            status = "infeasible" if is_infeasible else "learning"
        return DeliveredReport(
            page_views=round(n_pages),
            clicks=rate,
            revenue=rate_of(revenue / n_slots, n_settled, n_slots * max_revenue),
            click_floor=click_floor,
            status=status,
        )
