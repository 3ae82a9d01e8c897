"""What a floor costs, and the warning that pages cannot keep it.

Used by `selector`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slotwise.arrays import Floats
from slotwise.compile import switching
from slotwise.errors import InvalidInput
from slotwise.policies.policy import Counts
from slotwise.problem import Problem
from slotwise.selection import Frontier, frontier
from slotwise.selection.confidence import anytime_lower, anytime_upper
from slotwise.selection.rules import SlotRule

if TYPE_CHECKING:
    from slotwise.selector.report import PageReport


class FloorUnreachable(UserWarning):
    """No page of the links keeps the floor, by the estimates and by the delivered clicks."""


def warn_unreachable(page: PageReport) -> None:
    """Warn that no page keeps the floor, with the most clicks that a page can have."""
    warnings.warn(
        f"no page of these links keeps click_floor={page.click_floor:g}: by the estimates, the "
        f"most expected clicks are {page.most_clicks:.3g}; lower it with `set_floor`",
        FloorUnreachable,
        stacklevel=3,
    )


LEVEL = 0.95


@dataclass(frozen=True)
class PriceOfFloor:
    """Best revenue against floor, in money per page view, at the present estimates.

    `estimate` is computed from the means of all links; the `n_unseen` links without settled views
    count as 0 in it, and as the maximum in `high`.
    `low` is computed from the lower bounds of all click and revenue rates and `high` from the upper
    ones. A higher rate of any link can only raise the best revenue at a floor, so if all bounds
    hold, the true curve is between the two at every floor: with probability at least 95 %, for all
    floors and at all times at once. This holds for constant rates; the shadow prices have no band.
    """

    estimate: Frontier
    low: Frontier
    high: Frontier
    click_floor: float
    n_unseen: int

    def at(self, floor: float) -> tuple[float, float, float]:
        """Return the best revenue that keeps `floor`: estimate, low, high; NaN out of reach."""
        curves = (self.estimate, self.low, self.high)
        estimate, low, high = (curve.value_at(floor) for curve in curves)
        return estimate, low, high


def price_of_floor(
    counts: Counts, problem: Problem, max_revenue: float, rules: Sequence[SlotRule] = ()
) -> PriceOfFloor:
    """Return the frontier of the means, of the lower bounds and of the upper bounds."""
    if not (problem.has_click_floor_only and problem.rewards_last_level_only):
        rule = "a click floor alone for a frontier"
        advice = "a curve shows one floor; `report` has the price of each of several"
        raise InvalidInput.of("floors", rule, dict(problem.floors), advice)
    clicks, revenue = 0, problem.n_levels - 1
    width = math.log(2 * problem.n_links / (1 - LEVEL))

    def rates(level: int, bound: str) -> Floats:
        pairs = zip(counts.sums[level].tolist(), counts.views[level].tolist(), strict=True)
        return np.array([_rate(total, n_views, width, bound) for total, n_views in pairs])

    def curve(bound: str) -> Frontier:
        pair = rates(revenue, bound), rates(clicks, bound)
        floors, values, prices = frontier(*pair, problem.n_slots, rules=rules)
        found = Frontier(floors, values * max_revenue, prices * max_revenue)
        for array in found:
            array.flags.writeable = False
        return found

    return PriceOfFloor(
        estimate=curve("mean"),
        low=curve("low"),
        high=curve("high"),
        click_floor=problem.click_floor,
        n_unseen=int(np.sum((counts.views[clicks] == 0) | (counts.views[revenue] == 0))),
    )


def _rate(total: float, n_views: float, width: float, bound: str) -> float:
    total = min(total, n_views)  # a click in a slot of weight below 1 exceeds its view
    mean = total / n_views if n_views > 0 else 0.0
    if bound == "low":
        return max(0.0, min(mean, switching(anytime_lower)(total, n_views, width)))
    if bound == "high":
        return min(1.0, max(mean, switching(anytime_upper)(total, n_views, width)))
    return mean
