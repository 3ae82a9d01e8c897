"""Play a policy on links whose rates are drawn from what was counted of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.environments import BernoulliLinks
from slotwise.policies import Policy
from slotwise.simulation.run import simulate

__all__ = ["FittedRuns", "LinkCounts", "simulate_fitted"]

Floats = NDArray[np.float64]


class LinkCounts(NamedTuple):
    """Views, clicks and revenue (at most 1 a click) of each link."""

    views: Floats
    clicks: Floats
    revenue: Floats


class FittedRuns(NamedTuple):
    """Clicks and revenue a page view, one entry for each run."""

    clicks: Floats
    revenue: Floats


def simulate_fitted(
    counts: LinkCounts,
    policy: Policy,
    n_slots: int,
    click_floor: float,
    n_rounds: int,
    n_runs: int = 20,
    seed: int = 1,
) -> FittedRuns:
    """Play `policy` from scratch, each run on rates drawn anew from their posterior.

        click rate ~ Beta(1 + clicks, 1 + views - clicks)
        revenue per click ~ Beta(1 + revenue, 1 + clicks - revenue)

    So the spread over runs has the chance of the visitors and what the counts leave open in it.
    It has nothing of drift, of links that influence each other, or of visitors that differ.
    """
    views, clicks, revenue = counts
    rng = np.random.default_rng(seed)
    brought = []
    for run in range(n_runs):
        click_rates = rng.beta(1 + clicks, 1 + np.maximum(views - clicks, 0))
        per_click = rng.beta(1 + revenue, 1 + np.maximum(clicks - revenue, 0))
        results = simulate(
            BernoulliLinks(click_rates, per_click),
            {"policy": policy},
            n_slots,
            click_floor,
            n_rounds,
            n_runs=1,
            seed=seed + run,
            n_threads=1,
        )
        totals = results.totals["policy"]
        brought.append([totals[name][0, -1] for name in ("clicks", "reward")])
    return FittedRuns(*(np.array(brought).T / n_rounds))
