"""What the counters say about links and pages, in the scale of the policies: [0, 1]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.selection.solve import Solution, solve
from slotwise.service.counting.views import Counters, LinkCounters
from slotwise.service.records import FloorReport, FloorStatus

__all__ = ["LinkCounts", "LinkRates", "estimate_rates", "floor_report", "link_counts", "solve_page"]

Floats = NDArray[np.float64]

MET_SHARE = 0.98
"""Expected clicks of this share of the floor keep it, as far as counting can tell."""
KNOWN_SHARE = 0.1
"""A page's clicks are known well enough when their standard error is this share of the floor."""
SURE_ERRORS = 3.0
"""Standard errors by which the best page must miss the floor to be called infeasible."""


class LinkCounts(NamedTuple):
    """Settled views and sums of outcomes, each of shape (2, n_links): clicks, then revenue."""

    views: Floats
    sums: Floats


class LinkRates(NamedTuple):
    """Estimated rates of links, with the variance of the first."""

    clicks: Floats
    revenue: Floats
    click_variance: Floats


def link_counts(counters: Counters, link_ids: Sequence[str], max_revenue_micros: int) -> LinkCounts:
    """Return the counts of both groups together, revenue as a share of `max_revenue_micros`."""
    views, sums = np.zeros((2, len(link_ids))), np.zeros((2, len(link_ids)))
    places = {link_id: place for place, link_id in enumerate(link_ids)}
    nothing = LinkCounters()
    for (_, link_id), counted in counters.links.items():
        place = places.get(link_id)
        if place is not None and counted != nothing:
            views[0, place] += counted.click_views
            sums[0, place] += counted.clicks
            views[1, place] += counted.revenue_views
            sums[1, place] += counted.revenue_micros / max_revenue_micros
    # After `max_revenue_micros` was lowered, old revenue may exceed one a click.
    np.minimum(sums[1], sums[0], out=sums[1])
    return LinkCounts(views, sums)


def estimate_rates(counts: LinkCounts) -> LinkRates:
    """Estimate each rate by its mean, drawn towards the pool's mean by one view.

    mean_i = (sum_i + pool mean) / (views_i + 1)
    """
    pooled = (counts.sums.sum(axis=1) + 0.5) / (counts.views.sum(axis=1) + 1.0)
    pooled[1] = min(pooled[1], pooled[0])
    means = (counts.sums + pooled[:, None]) / (counts.views + 1.0)
    clicks = means[0].clip(0.0, 1.0)
    variance = (clicks * (1.0 - clicks) + 0.25 / (counts.views[0] + 1.0)) / (counts.views[0] + 1.0)
    return LinkRates(clicks, np.minimum(means[1], clicks), variance)


def floor_report(
    rates: LinkRates, probabilities: Floats, n_slots: int, click_floor: float
) -> FloorReport:
    """Say how pages with these probabilities stand to the floor; see `FloorReport`."""
    expected = float(probabilities @ rates.clicks)
    error = math.sqrt(float((probabilities**2) @ rates.click_variance))
    most_clicked = np.argsort(-rates.clicks, kind="stable")[:n_slots]
    attainable = float(rates.clicks[most_clicked].sum())
    attainable_error = math.sqrt(float(rates.click_variance[most_clicked].sum()))
    status: FloorStatus = "learning"
    if click_floor <= 0.0:
        status = "met"
    elif attainable + SURE_ERRORS * attainable_error < click_floor:
        status = "infeasible"
    elif expected >= MET_SHARE * click_floor and error <= KNOWN_SHARE * click_floor:
        status = "met"
    return FloorReport(clicks=click_floor, expected=expected, attainable=attainable, status=status)


def solve_page(rates: LinkRates, n_slots: int, click_floor: float) -> Solution:
    """Return the best page mix if the estimates were the truth."""
    return solve(rates.revenue, rates.clicks, n_slots, click_floor)
