"""The price of the floor as a selector sees it now: best revenue for every floor, with a band."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slotwise.errors import InvalidInput
from slotwise.policies.policy import Counts
from slotwise.problem import Problem
from slotwise.selection import Frontier, frontier
from slotwise.selection.confidence import anytime_lower, anytime_upper

__all__ = ["PriceOfFloor", "price_of_floor"]

Floats = NDArray[np.float64]

LEVEL = 0.95


@dataclass(frozen=True)
class PriceOfFloor:
    """Best revenue against floor, in money a page view, at the present estimates.

    `estimate` takes each link's mean so far; the `n_unseen` links without settled views bring
    nothing in it, and all they can in `high`.
    `low` takes the lower bounds of all click and revenue rates and `high` the upper ones. More
    clicks or revenue of any link can only raise the best revenue at a floor, so where all bounds
    hold, the true curve lies between the two at every floor: with probability at least 95 %, for
    all floors at once and at whatever moment one looks. That is a promise about rates that stay;
    the shadow prices have no such band.
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


def price_of_floor(counts: Counts, problem: Problem, max_revenue: float) -> PriceOfFloor:
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
        found = frontier(rates(revenue, bound), rates(clicks, bound), problem.n_slots)
        money = max_revenue
        return frozen(Frontier(found.floors, found.values * money, found.shadow_prices * money))

    return PriceOfFloor(
        estimate=curve("mean"),
        low=curve("low"),
        high=curve("high"),
        click_floor=problem.click_floor,
        n_unseen=int(np.sum((counts.views[clicks] == 0) | (counts.views[revenue] == 0))),
    )


def frozen(curve: Frontier) -> Frontier:
    """Return the curve with arrays that cannot be written to."""
    for array in (curve.floors, curve.values, curve.shadow_prices):
        array.flags.writeable = False
    return curve


def _rate(total: float, n_views: float, width: float, bound: str) -> float:
    mean = min(1.0, total / n_views) if n_views > 0 else 0.0
    if bound == "low":
        return max(0.0, min(mean, anytime_lower(total, n_views, width)))
    if bound == "high":
        return min(1.0, max(mean, anytime_upper(total, n_views, width)))
    return mean
