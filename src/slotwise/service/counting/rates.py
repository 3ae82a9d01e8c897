"""What the counters say about links and pages, in the scale of the policies: [0, 1]."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.selection.solve import Solution, solve
from slotwise.service.counting.attribution import Counters, LinkCounters, PageCounters
from slotwise.service.records import FloorReport, FloorStatus, KnownCounts

Floats = NDArray[np.float64]

NORMAL_QUANTILE = 1.96
"""Standard errors on either side of a mean that make its 95 % interval."""
KNOWN_SHARE = 0.1
"""Clicks a page view are known when this share of the floor is half of their interval."""
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


def count_known(
    known: Iterable[tuple[str, KnownCounts]], link_ids: Sequence[str], max_revenue_micros: int
) -> LinkCounts:
    """Return imported counts of links at their discount, in the form of `link_counts`."""
    views, sums = np.zeros((2, len(link_ids))), np.zeros((2, len(link_ids)))
    places = {link_id: place for place, link_id in enumerate(link_ids)}
    for link_id, counted in known:
        place = places.get(link_id)
        if place is not None:
            views[:, place] += counted.discount * counted.views
            sums[0, place] += counted.discount * counted.clicks
            earned = min(counted.revenue_micros / max_revenue_micros, counted.clicks)
            sums[1, place] += counted.discount * earned
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
    rates: LinkRates,
    probabilities: Floats,
    n_slots: int,
    click_floor: float,
    delivered: PageCounters | None = None,
) -> FloorReport:
    """Say how pages with these probabilities stand to the floor; see `FloorReport`.

    `delivered` counts the pages shown under this floor; without it the estimates decide.
    """
    expected = float(probabilities @ rates.clicks)
    if delivered is None:
        clicks, error = expected, math.sqrt(float((probabilities**2) @ rates.click_variance))
    else:
        clicks, error = _clicks_delivered(delivered)
    half = NORMAL_QUANTILE * error
    most_clicked = np.argsort(-rates.clicks, kind="stable")[:n_slots]
    attainable = float(rates.clicks[most_clicked].sum())
    attainable_error = math.sqrt(float(rates.click_variance[most_clicked].sum()))
    status: FloorStatus = "learning"
    if click_floor <= 0.0:
        status = "met"
    elif attainable + SURE_ERRORS * attainable_error < click_floor:
        status = "infeasible"
    elif clicks - half >= click_floor or (
        clicks + half >= click_floor and half <= KNOWN_SHARE * click_floor
    ):
        status = "met"
    return FloorReport(clicks=click_floor, expected=expected, attainable=attainable, status=status)


def clicks_delivered(pages: PageCounters) -> tuple[float, float, float]:
    """Return the mean clicks of a page view with the ends of its 95 % interval."""
    mean, error = _clicks_delivered(pages)
    half = NORMAL_QUANTILE * error
    return mean, max(mean - half, 0.0), mean + half


def _clicks_delivered(pages: PageCounters) -> tuple[float, float]:
    """Return the mean clicks of a page view and its standard error."""
    n_views = pages.click_views
    if n_views == 0:
        return 0.0, math.inf
    mean = pages.clicks / n_views
    # One view of half a click is added, so that equal views do not count as certain.
    variance = max(pages.clicks_squared / n_views - mean * mean, 0.0) + 0.25 / n_views
    return mean, math.sqrt(variance / n_views)


def solve_page(rates: LinkRates, n_slots: int, click_floor: float) -> Solution:
    """Return the best page mix if the estimates were the truth."""
    return solve(rates.revenue, rates.clicks, n_slots, click_floor)
