"""What a visitor's page depends on: the posteriors of all links, laid out for one visitor."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.policies.contract import Floats, Visitor
from slotwise.policies.knowledge.joint_posterior import JointPosterior
from slotwise.policies.knowledge.link_posterior import Layout, pair
from slotwise.policies.knowledge.visitor_regression import (
    MAX_LOGIT,
    VisitorRegression,
    solve_posterior,
)
from slotwise.selection.compiled import inner

__all__ = ["Sight", "new_sight", "rate_for", "refresh", "refresh_level"]

BLOCK = 512
"""Links that are rated together."""

MAX_LOGITS = 80.0
"""What all features of a visitor may add to a logit: their odds stay finite in single precision."""
ONE, FOUR, TWENTY_FOUR = np.float32(1.0), np.float32(4.0), np.float32(24.0)


class Rows(NamedTuple):
    """Rates of some links and their variances; `begin` is the first link."""

    mean: Floats
    variance: Floats
    begin: int


class Sight(NamedTuple):
    """All that the page of a visitor depends on, in single precision, by rows over links.

    `odds` has a factor for the link and for each value, `doubt` what each entry of J adds to the
    variance of the logit, both by level. `views` are those of visitors with each value, and `seen`
    their pages; `n_pages` has the pages of all visitors.
    """

    odds: NDArray[np.float32]
    doubt: NDArray[np.float32]
    views: Floats
    link_views: Floats
    seen: Floats
    n_pages: Floats


def new_sight(regression: VisitorRegression, rounds: Floats, views: Floats) -> Sight:
    """Return room for what pages depend on; `rounds` and `views` are those that are counted."""
    n_levels, n_links, n_parameters = regression.tilt.shape
    return Sight(
        odds=np.ones((n_levels, n_parameters, n_links), np.float32),
        doubt=np.zeros((n_levels, regression.layout.n_entries, n_links), np.float32),
        views=regression.value_views,
        link_views=views,
        seen=regression.seen,
        n_pages=rounds,
    )


@inner
def refresh(regression: VisitorRegression, sight: Sight, level: int, link: int) -> None:
    """Write the posterior of a link as `rate_for` reads it."""
    solve_posterior(regression, level, link)
    layout, solution = regression.layout, regression.solution
    odds, doubt = sight.odds[level], sight.doubt[level]
    small, rest, start = solution.small, layout.rest, 0
    most = MAX_LOGITS / max(len(layout.first) - 1, 5)
    doubt[0, link] = small[0, 0]
    odds[0, link] = math.exp(min(MAX_LOGIT, solution.mean[0]))
    for i in range(len(rest)):
        value = rest[i]
        doubt[1 + value, link] = small[1 + i, 1 + i] + 2.0 * small[0, 1 + i]
        odds[1 + value, link] = math.exp(max(-most, min(most, solution.mean[1 + value])))
        for j in range(i):
            if layout.feature_of[rest[j]] != layout.feature_of[value]:
                doubt[pair(layout, value, rest[j]), link] = 2.0 * small[1 + i, 1 + j]
    if layout.large >= 0:
        start = layout.first[layout.large]
    for k in range(len(solution.mixed)):
        value, row = start + k, solution.mixed[k]
        doubt[1 + value, link] = solution.variance[1 + value] + 2.0 * row[0]
        odds[1 + value, link] = math.exp(max(-most, min(most, solution.mean[1 + value])))
        for j in range(len(rest)):
            doubt[pair(layout, value, rest[j]), link] = 2.0 * row[1 + j]


@inner
def refresh_level(regression: VisitorRegression, sight: Sight, level: int) -> None:
    """Write the posteriors of all links at a level."""
    for link in range(regression.tilt.shape[1]):
        refresh(regression, sight, level, link)


@inner
def _add_rows(layout: Layout, visitor: Visitor, odds: Floats, doubt: Floats, rows: Rows) -> None:
    """Write the odds of some links for a visitor, and the variance of their logits."""
    mean, variance = rows.mean, rows.variance
    begin, size = rows.begin, len(rows.mean)
    row, other = odds[0, begin:], doubt[0, begin:]
    for k in range(size):
        mean[k] = row[k]
        variance[k] = other[k]
    for f in range(len(visitor)):
        row, other = odds[1 + visitor[f], begin:], doubt[1 + visitor[f], begin:]
        for k in range(size):
            mean[k] *= row[k]
            variance[k] += other[k]
        for g in range(f):
            other = doubt[pair(layout, visitor[f], visitor[g]), begin:]
            for k in range(size):
                variance[k] += other[k]


@inner
def _rate_rows(rows: Rows) -> None:
    """Turn odds and variances of logits into rates and their variances."""
    mean, variance = rows.mean, rows.variance
    for k in range(len(mean)):
        p = mean[k] / (1.0 + mean[k])
        mean[k] = p
        slope = p * (1.0 - p)
        variance[k] = slope * slope * max(0.0, variance[k])


@inner
def _widths(sight: Sight, visitor: Visitor, fair: float, begin: int, width: Floats) -> None:
    """Write ln(1 + fair views / views) of some links.

    Views count as many as all visitors would have seen, had they seen the link as often as visitors
    like this one: for each value those that came over those that were due, plus 1 each. So a value
    that is due no view yet changes nothing. ln y = 8 ln z with z the eighth root of y, and
    ln z = 3 (z^2 - 1) / (z^2 + 4 z + 1) to within 1 % up to y = 10,000: a loop without calls, in
    single precision.
    """
    all_views = sight.link_views[begin:]
    for k in range(len(width)):
        width[k] = all_views[k]
    for f in range(len(visitor)):
        views = sight.views[visitor[f], begin:]
        share = (sight.seen[visitor[f]] + 1.0) / (sight.n_pages[0] + 1.0)
        for k in range(len(width)):
            width[k] *= (views[k] + 1.0) / (share * all_views[k] + 1.0)
    for k in range(len(width)):
        ratio = np.float32(1.0 + fair / (width[k] + 1.0))
        root = math.sqrt(math.sqrt(math.sqrt(ratio)))
        square = root * root
        width[k] = (TWENTY_FOUR * (square - ONE)) / (square + FOUR * root + ONE)


@inner
def rate_for(
    layout: Layout, sight: Sight, posterior: JointPosterior, visitor: Visitor, n_slots: int
) -> None:
    """Write rates, variances and widths of all links for a visitor into `posterior`.

    A block of links at a time, so that it stays in the processor's cache.
    """
    n_links = len(posterior.width)
    fair = (sight.n_pages[0] + 1.0) * n_slots / n_links
    for begin in range(0, n_links, BLOCK):
        end = min(n_links, begin + BLOCK)
        for level in range(len(posterior.mean)):
            mean, variance = posterior.mean[level, begin:end], posterior.variance[level, begin:end]
            rows = Rows(mean, variance, begin)
            _add_rows(layout, visitor, sight.odds[level], sight.doubt[level], rows)
            _rate_rows(rows)
        width = posterior.width[begin:end]
        _widths(sight, visitor, fair, begin, width)
        for k in range(len(width)):
            width[k] *= posterior.exploration
