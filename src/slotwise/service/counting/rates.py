"""Rates of links and pages from the counters, in the scale of the policies: [0, 1].

Used by `deciding`, `learning`, `pool_version` and `reporting`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from slotwise.arrays import Floats
from slotwise.compile import switching
from slotwise.selection import floor_status as rule
from slotwise.selection.page_rules import PageRules
from slotwise.selection.page_within_rules import best_within
from slotwise.selection.solve import Solution, solve
from slotwise.service.counting.attribution import Counters, PageCounters
from slotwise.service.records import FloorState, ImportedCounts

NORMAL_QUANTILE = 1.96
"""Standard errors on either side of a mean in its 95 % interval."""


class LinkCounts(NamedTuple):
    """Settled views and sums of outcomes, each of shape (2, n_links): clicks, then revenue."""

    views: Floats
    sums: Floats

    def plus(self, more: LinkCounts) -> LinkCounts:
        """Return the sum of both."""
        return LinkCounts(self.views + more.views, self.sums + more.sums)


class LinkRates(NamedTuple):
    """Estimated rates of links, with the variance of the first."""

    clicks: Floats
    revenue: Floats
    click_variance: Floats


def link_counts(counters: Counters, link_ids: Sequence[str], max_revenue_micros: int) -> LinkCounts:
    """Return the counts of both groups together, revenue as a share of `max_revenue_micros`."""
    views, sums = np.zeros((2, 2, len(link_ids)))
    places = {link_id: place for place, link_id in enumerate(link_ids)}
    for (_, link_id), counted in counters.links.items():
        place = places.get(link_id)
        if place is not None:
            views[0, place] += counted.click_views
            sums[0, place] += counted.clicks
            views[1, place] += counted.revenue_views
            sums[1, place] += counted.revenue_micros / max_revenue_micros
    # After `max_revenue_micros` was lowered, old revenue may exceed one per click.
    np.minimum(sums[1], sums[0], out=sums[1])
    return LinkCounts(views, sums)


def count_known(
    known: Iterable[tuple[str, ImportedCounts]], link_ids: Sequence[str], max_revenue_micros: int
) -> LinkCounts:
    """Return imported counts of links at their discount, in the form of `link_counts`."""
    views, sums = np.zeros((2, 2, len(link_ids)))
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
    """Estimate each rate by its mean, shrunk towards the pool's mean by one view.

    mean_i = (sum_i + pool mean) / (views_i + 1)
    """
    clicks, variance = rule.click_estimates(counts.views[0], counts.sums[0])
    pooled = (counts.sums.sum(axis=1) + 0.5) / (counts.views.sum(axis=1) + 1.0)
    revenue = (counts.sums[1] + min(pooled[1], pooled[0])) / (counts.views[1] + 1.0)
    return LinkRates(clicks, np.minimum(revenue, clicks), variance)


def floor_report(
    rates: LinkRates,
    probabilities: Floats,
    n_slots: int,
    click_floor: float,
    delivered: PageCounters | None = None,
    rules: PageRules | None = None,
) -> FloorState:
    """Return the state of the floor for pages with these probabilities; see `FloorState`.

    `delivered` counts the pages shown under this floor; without it the estimates decide.
    """
    expected = float(probabilities @ rates.clicks)
    if delivered is None:
        half = NORMAL_QUANTILE * math.sqrt(float((probabilities**2) @ rates.click_variance))
        interval = expected - half, expected + half
    else:
        interval = clicks_delivered(delivered, n_slots, click_floor)
    most_clicked = None
    if rules is not None:
        switching(best_within)(rules, rates.clicks, rates.clicks)
        most_clicked = rules.probabilities
    known = (rates.clicks, rates.click_variance, n_slots)
    attainable, most = rule.most_clicks(*known, most_clicked)
    status = rule.floor_status(click_floor, interval, most)
    return FloorState(clicks=click_floor, expected=expected, attainable=attainable, status=status)


def clicks_delivered(pages: PageCounters, n_slots: int, click_floor: float) -> tuple[float, float]:
    """Return the confidence interval of clicks per page view, by which a floor is judged."""
    counted = (pages.click_views, pages.clicks, pages.clicks_squared)
    return rule.clicks_delivered(*counted, n_slots, click_floor)


def solve_page(rates: LinkRates, n_slots: int, click_floor: float) -> Solution:
    """Return the best page mix for these estimates."""
    return solve(rates.revenue, rates.clicks, n_slots, click_floor)
