"""How much traffic a page needs: until its floor is kept, and until its lift can be seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from slotwise.environments import BernoulliLinks
from slotwise.errors import InvalidInput
from slotwise.policies import Policy, Uniform, default_policy
from slotwise.problem import is_finite_number, whole_number
from slotwise.simulation.run import simulate

__all__ = ["RoughPage", "TrafficPlan", "Waiting", "plan_traffic"]

Floats = NDArray[np.float64]

SHAPE = 2.0
"""Rates of links are drawn from a beta distribution whose first parameter is this."""
TOLERANCE = 0.01
"""A floor counts as kept while the clicks per page view so far are at most 1 % below it."""


@dataclass(frozen=True)
class RoughPage:
    """What a team knows before it starts: sizes, the rates of a typical link, and the floor.

    `holdout` is the share of page views that get random links, with which the rest is compared.
    """

    n_links: int
    n_slots: int
    click_rate: float
    revenue_per_click: float
    click_floor: float = 0.0
    holdout: float = 0.05

    def __post_init__(self) -> None:
        for name in ("click_rate", "revenue_per_click", "holdout"):
            value = getattr(self, name)
            if not (is_finite_number(value) and 0 < value < 1):
                raise InvalidInput.of(name, "between 0 and 1", value)


@dataclass(frozen=True)
class Waiting:
    """Page views after which something holds in the wanted share of simulated cases.

    `low` and `high` are a 95 % interval for what the number of cases leaves open; infinite where
    it did not hold before the end of the simulation.
    """

    views: float
    low: float
    high: float


@dataclass(frozen=True)
class TrafficPlan:
    """Page views until the floor is kept for good, and until the lift is significant."""

    floor: Waiting
    lift: Waiting
    share_of_floors_in_reach: float
    certainty: float
    n_views: int
    n_cases: int


def plan_traffic(
    page: RoughPage,
    *,
    certainty: float = 0.95,
    n_views: int = 20_000,
    n_cases: int = 100,
    policy: Policy | None = None,
    seed: int = 1,
    progress: Callable[[float], None] | None = None,
) -> TrafficPlan:
    """Play many cases of a page whose links have rates around the rough ones.

    In each case the rates of the links are drawn anew, and the policy, the default one unless
    another is given, meets the same visitors as random pages do. The floor counts as kept from
    the view on after which the clicks per page view so far are never more than 1 % below it. The
    lift is visible from the view on at which its z-test against the holdout reaches `certainty`.
    """
    if not (is_finite_number(certainty) and 0.5 <= certainty < 1):
        raise InvalidInput.of("certainty", "at least 0.5 and below 1", certainty)
    n_cases = whole_number("n_cases", n_cases, at_least=10)
    rng = np.random.default_rng(seed)
    floors, lifts, in_reach = np.zeros(n_cases), np.zeros(n_cases), 0
    for case in range(n_cases):
        clicks = _around(page.click_rate, page.n_links, rng)
        links = BernoulliLinks(clicks, _around(page.revenue_per_click, page.n_links, rng))
        in_reach += float(np.sort(clicks)[-page.n_slots :].sum()) >= page.click_floor
        results = simulate(
            links,
            {"policy": policy or default_policy(), "random": Uniform()},
            page.n_slots,
            page.click_floor,
            n_views,
            n_runs=1,
            seed=seed + case,
            n_threads=1,
        )
        views = results.rounds.astype(np.float64)
        played, random = (results.totals[label] for label in ("policy", "random"))
        kept = played["clicks"][0] / views >= (1 - TOLERANCE) * page.click_floor
        floors[case] = _first_for_good(views, kept)
        earned = played["reward"][0] / views, random["reward"][0] / views
        lifts[case] = _first_for_good(views, _is_visible(*earned, views, page, certainty))
        if progress is not None:
            progress((case + 1) / n_cases)
    return TrafficPlan(
        floor=_waiting(floors, certainty),
        lift=_waiting(lifts, certainty),
        share_of_floors_in_reach=in_reach / n_cases,
        certainty=certainty,
        n_views=n_views,
        n_cases=n_cases,
    )


def _around(mean: float, n_links: int, rng: np.random.Generator) -> Floats:
    return rng.beta(SHAPE, SHAPE * (1 - mean) / mean, n_links)


def _is_visible(
    earned: Floats, by_chance: Floats, views: Floats, page: RoughPage, certainty: float
) -> NDArray[np.bool_]:
    """Say at each checkpoint whether the lift over the holdout is significant."""
    variance = [mean * (1 - mean / page.n_slots) for mean in (earned, by_chance)]
    error = np.sqrt(
        variance[0] / (views * (1 - page.holdout)) + variance[1] / (views * page.holdout)
    )
    wanted = NormalDist().inv_cdf((1 + certainty) / 2)
    return np.asarray((earned - by_chance > wanted * error) & (views * page.holdout >= 30))


def _first_for_good(views: Floats, holds: NDArray[np.bool_]) -> float:
    """Return the first checkpoint from which on it holds to the end, infinite if there is none.

    >>> _first_for_good(np.array([1.0, 2.0, 3.0]), np.array([True, False, True]))
    3.0
    """
    fails = np.flatnonzero(~holds)
    first = 0 if not len(fails) else int(fails[-1]) + 1
    return float(views[first]) if first < len(views) else math.inf


def _waiting(found: Floats, certainty: float) -> Waiting:
    """Return the quantile over cases, with an interval from the order statistics."""
    in_order = np.sort(found)
    n_cases = len(found)
    spread = 1.96 * math.sqrt(n_cases * certainty * (1 - certainty))
    places = [certainty * n_cases, certainty * n_cases - spread, certainty * n_cases + spread]
    at = [min(max(math.ceil(place) - 1, 0), n_cases - 1) for place in places]
    views, low, high = (float(in_order[place]) for place in at)
    return Waiting(views, low, high)
