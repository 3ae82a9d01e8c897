"""What settled views teach the regression of each link on the features of its visitors.

A view with rate p adds p (1 - p) to J and tilts by p (1 - p) * logit - p; an outcome tilts by 1. So
outcomes may arrive later than their views. The trials of a level are outcomes of the level before:
they wait until the views are settled at this level, too. Used by `paced_bayes`.
"""

from __future__ import annotations

import math

from slotwise.compile import inner
from slotwise.policies.link_rates import SINGLE
from slotwise.policies.link_regression import (
    add_independent,
    add_outcome,
    add_trials,
    logit_for,
    mean_logit,
)
from slotwise.policies.open_views import belongs
from slotwise.policies.policy import Floats, Links, Visitor
from slotwise.policies.visitor_rates import (
    MAX_LOGIT,
    N_RECENT,
    PASSED,
    VIEWED,
    RatesForVisitors,
    evidence_of,
    refresh_parameter,
    solve_posterior,
)

ROUNDING = 1e-9
"""Fewer waiting views than this are a rounding error of slot weights."""


@inner
def note_visitor(
    visitors: RatesForVisitors, places: Links, visitor: Visitor, n_pages: float
) -> None:
    """Record that pages of a visitor are settled; `places` are those of the floors."""
    for k in range(len(visitor)):
        visitors.seen[visitor[k]] += n_pages
    for row in range(len(visitors.turns)):
        if row == 0 or (places[row - 1] >= 0 and belongs(visitor, places[row - 1])):
            turn = int(visitors.turns[row]) % N_RECENT
            visitors.turns[row] += 1.0
            for k in range(len(visitor)):
                visitors.recent[row, turn, k] = visitor[k]


@inner
def _match(
    visitors: RatesForVisitors, level: int, link: int, n_views: float, outcome: float
) -> float:
    """Store outcomes of a level until the next level settles; return those for which it has.

    `waiting` has negative views if the next level settled first. A further outcome, of a view that
    was counted before, waits while any view of the link does.
    """
    waiting = visitors.waiting
    waits = waiting[VIEWED, level, link]
    if n_views > 0.0:
        ahead = max(0.0, -waits)
        settled = outcome if n_views <= ahead else outcome * ahead / n_views
    else:
        settled = outcome if waits <= ROUNDING else 0.0
    waiting[VIEWED, level, link] += n_views
    waiting[PASSED, level, link] += outcome - settled
    return settled


@inner
def _release(visitors: RatesForVisitors, level: int, link: int, n_views: float) -> float:
    """Return the outcomes of the level before that belong to views now settled."""
    waiting = visitors.waiting
    waits = max(0.0, waiting[VIEWED, level - 1, link])
    part = 1.0 if waits <= n_views else n_views / waits
    released = part * waiting[PASSED, level - 1, link] if waits > 0.0 else 0.0
    waiting[PASSED, level - 1, link] -= released
    waiting[VIEWED, level - 1, link] -= n_views
    return released


@inner
def _most_likely(logit: float, spread: float, trials: float, outcome: float) -> float:
    """Return the most likely logit after trials, given its prior mean and variance.

    It solves  x = logit + spread (outcome - trials rate(x)),  whose right side is decreasing.
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
    visitors: RatesForVisitors,
    level: int,
    link: int,
    visitor: Visitor,
    trials: float,
    outcome: float,
) -> float:
    """Record trials and their outcomes, weighted by their expected rate.

    Large batches are weighted by the rate after them. Returns the expected outcomes.
    """
    if trials <= 0.0 and outcome == 0.0:
        return 0.0
    tilt = outcome
    weight = expected = 0.0
    evidence = evidence_of(visitors, level, link)
    if trials > 0.0:
        if trials <= SINGLE:
            logit = mean_logit(evidence, visitor, visitors.solution)
        else:
            solve_posterior(visitors, level, link)
            logit, spread = logit_for(visitors.layout, visitors.solution, visitor)
            logit = _most_likely(logit, spread, trials, outcome)
        logit = min(MAX_LOGIT, logit)
        rate = 1.0 / (1.0 + math.exp(-logit))
        expected = trials * rate
        weight = expected * (1.0 - rate)
        tilt += weight * logit - expected
    if not visitors.layout.has_pairs:
        if trials > 0.0:
            add_independent(evidence, visitor, weight, tilt)
        else:
            add_outcome(evidence, visitor, outcome)
        if not visitors.is_stale[level, link]:  # few parameters have changed
            refresh_parameter(visitors, level, link, 0)
            for k in range(len(visitor)):
                refresh_parameter(visitors, level, link, 1 + visitor[k])
        return expected
    visitors.is_stale[level, link] = True
    if trials > 0.0:
        add_trials(visitors.layout, visitor, weight, evidence.information)
    if tilt != 0.0:
        evidence.tilt[0] += tilt
        for k in range(len(visitor)):
            evidence.tilt[1 + visitor[k]] += tilt
    return expected


@inner
def learn_link(
    visitors: RatesForVisitors,
    visitor: Visitor,
    level: int,
    link: int,
    n_views: float,
    passed: float,
) -> float:
    """Record a visitor's views of a link and how many passed a level; return those expected."""
    trials = n_views
    if level == 0:
        for k in range(len(visitor)):
            visitors.value_views[visitor[k], link] += n_views
    else:
        trials = _release(visitors, level, link, n_views)
    if level < len(visitors.center) - 1:
        settled = _match(visitors, level, link, n_views, passed)
        if settled > 0.0:
            _learn_outcomes(visitors, level + 1, link, visitor, settled, 0.0)
    return _learn_outcomes(visitors, level, link, visitor, trials, passed)


@inner
def count_for_floors(
    visitors: RatesForVisitors, floor: int, links: Links, views: Floats, outcomes: Floats
) -> None:
    """Count views of links by a visitor of a floor, and their outcomes at its level."""
    for k in range(len(links)):
        visitors.floor_views[floor, links[k]] += views[k]
        visitors.floor_sums[floor, links[k]] += outcomes[k]
