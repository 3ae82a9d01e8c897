"""How the regression of visitors learns from views and what they brought.

A view with rate p adds p (1 - p) to J and tilts by p (1 - p) * logit - p; an outcome tilts by 1.
So outcomes may come later than their views. The trials of a level are outcomes of the level before:
they wait until the views are settled at this level, too.
"""

from __future__ import annotations

import math

from slotwise.policies.contract import Visitor
from slotwise.policies.knowledge.link_posterior import add_trials, logit_for, mean_logit
from slotwise.policies.knowledge.regression_sight import Sight, refresh
from slotwise.policies.knowledge.visitor_regression import (
    MAX_LOGIT,
    VisitorRegression,
    solve_posterior,
)
from slotwise.selection.compiled import inner

__all__ = ["count_visitor", "learn_link"]

SINGLE = 4.0
"""Trials that are weighed as one view is; a view in a good slot counts for more than one."""
LARGEST_SALE = 100.0
"""What a view counts for at most, in typical sales: the first sale is the typical one for a while,
and a cent before a sale of 50 euros would otherwise outweigh everything that comes after."""

PASSED, VIEWED = range(2)


@inner
def count_visitor(regression: VisitorRegression, visitor: Visitor, n_pages: float) -> None:
    """Take in that pages of a visitor are settled."""
    for k in range(len(visitor)):
        regression.seen[visitor[k]] += n_pages


@inner
def _match(
    regression: VisitorRegression, level: int, link: int, n_views: float, outcome: float
) -> float:
    """Keep outcomes of a level until the next level settles; return those for which it has.

    `waiting` has fewer than no views where the next level settled first.
    """
    waiting = regression.waiting
    ahead = max(0.0, -waiting[VIEWED, level, link])
    settled = outcome if n_views <= ahead else outcome * ahead / n_views
    waiting[VIEWED, level, link] += n_views
    waiting[PASSED, level, link] += outcome - settled
    return settled


@inner
def _release(regression: VisitorRegression, level: int, link: int, n_views: float) -> float:
    """Return the outcomes of the level before that belong to views now settled."""
    waiting = regression.waiting
    waits = max(0.0, waiting[VIEWED, level - 1, link])
    part = 1.0 if waits <= n_views else n_views / waits
    released = part * waiting[PASSED, level - 1, link] if waits > 0.0 else 0.0
    waiting[PASSED, level - 1, link] -= released
    waiting[VIEWED, level - 1, link] -= n_views
    return released


@inner
def _most_likely(logit: float, spread: float, trials: float, outcome: float) -> float:
    """Return the most likely logit after trials, where it was known with this variance.

    It solves  x = logit + spread (outcome - trials rate(x)),  of which the right side falls.
    """
    low, high = -MAX_LOGIT * 4.0, MAX_LOGIT
    for _ in range(40):
        middle = 0.5 * (low + high)
        rate = 1.0 / (1.0 + math.exp(-middle))
        if middle < logit + spread * (outcome - trials * rate):
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


@inner
def _learn_outcomes(
    regression: VisitorRegression,
    level: int,
    link: int,
    visitor: Visitor,
    trials: float,
    outcome: float,
) -> None:
    """Take in trials and what they brought, weighed by the rate that is expected of them.

    Many at once are weighed by the rate that they lead to.
    """
    tilt = outcome
    if trials > 0.0:
        information = regression.information[level, link]
        if trials <= SINGLE:
            logit = mean_logit(
                regression.layout,
                information,
                regression.tilt[level, link],
                regression.center[level],
                regression.variance[level],
                visitor,
                regression.solution,
            )
        else:
            solve_posterior(regression, level, link)
            logit, spread = logit_for(regression.layout, regression.solution, visitor)
            logit = _most_likely(logit, spread, trials, outcome)
        logit = min(MAX_LOGIT, logit)
        rate = 1.0 / (1.0 + math.exp(-logit))
        weight = trials * rate * (1.0 - rate)
        add_trials(regression.layout, visitor, weight, information)
        tilt += weight * logit - trials * rate
    if tilt != 0.0:
        regression.tilt[level, link, 0] += tilt
        for k in range(len(visitor)):
            regression.tilt[level, link, 1 + visitor[k]] += tilt


@inner
def learn_link(
    regression: VisitorRegression,
    sight: Sight,
    visitor: Visitor,
    level: int,
    link: int,
    n_views: float,
    outcome: float,
) -> None:
    """Take in what views of a link by a visitor brought at a level.

    A state without a sight learns all the same: it has no page to choose.
    """
    last = len(regression.center) - 1
    has_sight = len(sight.odds) > 0
    trials = n_views
    if level == 0:
        for k in range(len(visitor)):
            regression.value_views[visitor[k], link] += n_views
    else:
        trials = _release(regression, level, link, n_views)
    if level < last:
        settled = _match(regression, level, link, n_views, outcome)
        if settled > 0.0:
            _learn_outcomes(regression, level + 1, link, visitor, settled, 0.0)
            if has_sight:
                refresh(regression, sight, level + 1, link)
    elif regression.unit[0] > 0.0:
        outcome = min(outcome / regression.unit[0], LARGEST_SALE * max(1.0, n_views))
    _learn_outcomes(regression, level, link, visitor, trials, outcome)
    if has_sight and (trials > 0.0 or outcome > 0.0):
        refresh(regression, sight, level, link)
