"""Effects of visitors on links: a Bayesian logistic regression per link, with a shared prior.

    logit of link i for visitor x = b_i + sum over features f of e_fi(x_f)

at every level, given that the level before was passed. The prior is shared: `center` has the
intercept of the pool and the effects of values on all links, `variance` the variances around it. A
link that no visitor of a kind has seen starts from the link's estimate and from the kind's effect
on all links, and a link without views from the pool. Posteriors are Gaussian, with the covariances
between the effects on one link (`link_posterior`): an outcome is explained once, not once by every
feature. Used by `paced_bayes_visitors` and `visitor_pages`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.compile import inner
from slotwise.policies.joint_posterior import JointPosterior
from slotwise.policies.link_posterior import (
    FORGOTTEN_PART,
    LEAST_MISSING,
    MISSING_PART,
    USUAL,
    LinkEvidence,
    PosteriorLayout,
    PosteriorSolution,
    add_apart,
    add_trials,
    logit_for,
    mean_logit,
    new_layout,
    new_solution,
    pair,
    parameter,
    solve_link,
)
from slotwise.policies.policy import Floats, Visitor
from slotwise.problem import Problem

LINK_VARIANCE = 1.0
"""Variance of the logits of links around the pool: links several times better remain likely."""
FIRST_VARIANCE = 0.03
"""Initial variance of all features' effects together: features must prove to matter."""
MAX_LOGIT = 4.0
"""Rates are limited to 98 %."""


class VisitorRegression(NamedTuple):
    """The knowledge, in the first half, and buffers for derived values.

    `information` and `tilt` are J and the tilt of each parameter, by level and link. `waiting` has
    outcomes of each level whose next level is not settled yet, and their views. `unit` is the size
    of a sale in which `tilt` counts the last level. `missing` are the missing clicks of visitors
    with each value; with several features, at the first index, those of all visitors.
    """

    information: Floats
    tilt: Floats
    waiting: Floats
    value_views: Floats
    seen: Floats
    center: Floats
    variance: Floats
    unit: Floats
    missing: Floats
    layout: PosteriorLayout
    solution: PosteriorSolution
    fitted: Floats


KNOWN = (
    *("information", "tilt", "waiting", "value_views", "seen"),
    *("center", "variance", "unit", "missing"),
)
"""Names of the saved parts of the regression."""


def new_visitor_regression(problem: Problem, has_pairs: bool) -> VisitorRegression:
    """Return a regression that has seen nothing."""
    n_levels, n_links, sizes = problem.n_levels, problem.n_links, problem.feature_sizes
    layout = new_layout(sizes, has_pairs)
    n_parameters = 1 + sum(sizes)
    variance = np.full((n_levels, 1 + len(sizes)), FIRST_VARIANCE / max(1, len(sizes)))
    variance[:, 0] = LINK_VARIANCE
    return VisitorRegression(
        information=np.zeros((n_levels, n_links, layout.n_entries)),
        tilt=np.zeros((n_levels, n_links, n_parameters)),
        waiting=np.zeros((2, n_levels, n_links)),
        value_views=np.zeros((sum(sizes), n_links)),
        seen=np.zeros(sum(sizes)),
        center=np.zeros((n_levels, n_parameters)),
        variance=variance,
        unit=np.zeros(1),
        missing=np.zeros(sum(sizes)),
        layout=layout,
        solution=new_solution(layout),
        fitted=np.zeros((4, n_parameters)),
    )


def by_link(regression: VisitorRegression) -> dict[str, Floats]:
    """Return the saved parts, as views of the arrays in which links are the last axis.

    If parameters are independent, the information has another name: it has no pairs.
    """
    known = {name: getattr(regression, name) for name in KNOWN}
    known |= {name: known[name].swapaxes(1, 2) for name in ("information", "tilt")}
    if not regression.layout.has_pairs:
        known["precision"] = known.pop("information")
    return known


@inner
def solve_posterior(regression: VisitorRegression, level: int, link: int) -> None:
    """Write the posterior of a link at a level into `solution`."""
    solve_link(evidence_of(regression, level, link), regression.solution)


@inner
def evidence_of(regression: VisitorRegression, level: int, link: int) -> LinkEvidence:
    """Return the evidence of a link at a level."""
    return LinkEvidence(
        regression.layout,
        regression.information[level, link],
        regression.tilt[level, link],
        regression.center[level],
        regression.variance[level],
    )


# The variance of a feature's effects is refitted with the pool, and all links if it moved:
#
#     variance <- (v0 + sum (e - center)^2) / (1 + sum (1 - Var e / variance))
#
# (MacKay 1992), at most that of the links: otherwise few links with extreme effects would cause
# exploration of all links by all visitors. The denominator counts the effects that the data
# determine, so few data have little influence. A feature that does not matter gets a small
# variance, and its effects are then nearly 0.


WEIGHT_OF_FIRST = 1.0
"""Weight of the initial guess of a variance, in effects."""
LEAST_VARIANCE = 1e-4
COMMON_EFFECTS = 5.0
"""Links after which the effect of a value on all links has half its full weight."""
MOVED = 0.05
"""Links are refreshed when an entry of the prior's center moves this far, or a variance 10 %."""


@inner
def rescale(regression: VisitorRegression, unit: float) -> bool:
    """Count the last level in another size of a sale; return whether it changed.

    All logits of the level move by the same step, which is the log of the ratio.
    """
    before = regression.unit[0]
    if unit <= 0.0 or (before > 0.0 and abs(math.log(unit / before)) <= MOVED):
        return False
    regression.unit[0] = unit
    if before <= 0.0:  # nothing was sold yet
        return False
    level = len(regression.center) - 1
    step = math.log(before / unit)
    tilt, information = regression.tilt[level], regression.information[level]
    n_moved = tilt.shape[1] if regression.layout.has_pairs else 1  # else the intercept moves
    for link in range(len(tilt)):
        for place in range(n_moved):
            tilt[link, place] += step * information[link, place]
    return True


@inner
def fit_prior(regression: VisitorRegression, level: int, pool_mean: float, must: bool) -> bool:
    """Fit the prior of a level to the links; return whether all links must be refreshed."""
    layout, solution, fitted = regression.layout, regression.solution, regression.fitted
    center, variance = regression.center[level], regression.variance[level]
    n_links = regression.tilt.shape[1]
    fitted[:] = 0.0
    for link in range(n_links):
        if regression.information[level, link, 0] > 0.0:
            solve_posterior(regression, level, link)
            for value in range(len(layout.feature_of)):
                own = variance[1 + layout.feature_of[value]]
                known = max(0.0, 1.0 - solution.variance[1 + value] / own)
                effect = solution.mean[1 + value] - center[1 + value]
                fitted[0, value] += known
                fitted[1, value] += known * solution.mean[1 + value]
                fitted[2, value] += effect * effect
    moved = must
    level_of_pool = math.log(pool_mean / (1.0 - pool_mean))
    moved |= abs(level_of_pool - center[0]) > MOVED
    fitted[3, 0] = level_of_pool
    for value in range(len(layout.feature_of)):
        common = fitted[1, value] / (fitted[0, value] + COMMON_EFFECTS)
        fitted[3, 1 + value] = common
        moved |= abs(common - center[1 + value]) > MOVED
    first = FIRST_VARIANCE / max(1, len(variance) - 1)
    for feature in range(len(variance) - 1):
        before = variance[1 + feature]
        above, below = WEIGHT_OF_FIRST * first, WEIGHT_OF_FIRST
        for value in range(layout.first[feature], layout.first[feature + 1]):
            above += fitted[2, value]
            below += fitted[0, value]
        own = min(LINK_VARIANCE, max(LEAST_VARIANCE, above / below))
        moved |= abs(own / before - 1.0) > 2.0 * MOVED
        solution.tilt[1 + feature] = own
    if moved:
        for place in range(len(center)):
            center[place] = fitted[3, place]
        for feature in range(len(variance) - 1):
            variance[1 + feature] = solution.tilt[1 + feature]
    return moved


BLOCK = 512
"""Links that are rated in one block."""

MAX_LOGITS = 80.0
"""Maximum total effect of features on a logit: odds stay finite in single precision."""
ONE, FOUR, TWENTY_FOUR = np.float32(1.0), np.float32(4.0), np.float32(24.0)


class RegressionRows(NamedTuple):
    """Rates of some links and their variances; `begin` is the first link."""

    mean: Floats
    variance: Floats
    begin: int


class Sight(NamedTuple):
    """The inputs of a visitor's page, in single precision, by rows over links.

    `odds` has a factor for the link and for each value, `doubt` the contribution of each entry of J
    to the variance of the logit, both by level. `views` are those of visitors with each value, and
    `seen` their pages; `n_pages` has the pages of all visitors.
    """

    odds: NDArray[np.float32]
    doubt: NDArray[np.float32]
    views: Floats
    link_views: Floats
    seen: Floats
    n_pages: Floats
    buffer: NDArray[np.float32]


def new_sight(regression: VisitorRegression, rounds: Floats, views: Floats) -> Sight:
    """Return buffers for the inputs of pages; `rounds` and `views` are the counted ones."""
    n_levels, n_links, n_parameters = regression.tilt.shape
    return Sight(
        odds=np.ones((n_levels, n_parameters, n_links), np.float32),
        doubt=np.zeros((n_levels, regression.layout.n_entries, n_links), np.float32),
        views=regression.value_views,
        link_views=views,
        seen=regression.seen,
        n_pages=rounds,
        buffer=np.zeros((2, BLOCK), np.float32),
    )


@inner
def _refresh_parameter(
    regression: VisitorRegression, sight: Sight, level: int, link: int, place: int, most: float
) -> None:
    """Write one parameter of a link in the form for `rate_for`, in a layout without pairs."""
    mean, variance = parameter(evidence_of(regression, level, link), place)
    sight.doubt[level, place, link] = variance
    low, high = (-most, most) if place > 0 else (-math.inf, MAX_LOGIT)
    sight.odds[level, place, link] = math.exp(max(low, min(high, mean)))


@inner
def refresh_seen(
    regression: VisitorRegression, sight: Sight, visitor: Visitor, level: int, link: int
) -> None:
    """Update the posterior of a link after views by one visitor."""
    if regression.layout.has_pairs:
        refresh(regression, sight, level, link)
        return
    most = MAX_LOGITS / max(len(regression.layout.first) - 1, 5)
    _refresh_parameter(regression, sight, level, link, 0, most)
    for k in range(len(visitor)):
        _refresh_parameter(regression, sight, level, link, 1 + visitor[k], most)


@inner
def refresh(regression: VisitorRegression, sight: Sight, level: int, link: int) -> None:
    """Write the posterior of a link in the form for `rate_for`."""
    if not regression.layout.has_pairs:
        most = MAX_LOGITS / max(len(regression.layout.first) - 1, 5)
        for place in range(regression.tilt.shape[2]):
            _refresh_parameter(regression, sight, level, link, place, most)
        return
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
def _add_rows(
    layout: PosteriorLayout, visitor: Visitor, odds: Floats, doubt: Floats, rows: RegressionRows
) -> None:
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
def _rate_apart(
    visitor: Visitor,
    odds: Floats,
    doubt: Floats,
    buffer: NDArray[np.float32],
    rows: RegressionRows,
) -> None:
    """Write rates of some links for a visitor and their variances, in a layout without pairs.

    All rows that are read stay in single precision: twice as many fit into a vector.
    """
    begin, size = rows.begin, len(rows.mean)
    product, total = buffer[0, :size], buffer[1, :size]
    row, other = odds[0, begin : begin + size], doubt[0, begin : begin + size]
    for k in range(size):
        product[k] = row[k]
        total[k] = other[k]
    for f in range(len(visitor)):
        row = odds[1 + visitor[f], begin : begin + size]
        other = doubt[1 + visitor[f], begin : begin + size]
        for k in range(size):
            product[k] *= row[k]
            total[k] += other[k]
    for k in range(size):
        p = product[k] / (ONE + product[k])
        slope = p * (ONE - p)
        rows.mean[k] = p
        rows.variance[k] = slope * slope * total[k]


@inner
def _rate_rows(rows: RegressionRows) -> None:
    """Turn odds and variances of logits into rates and their variances."""
    mean, variance = rows.mean, rows.variance
    for k in range(len(mean)):
        p = mean[k] / (1.0 + mean[k])
        mean[k] = p
        slope = p * (1.0 - p)
        variance[k] = slope * slope * max(0.0, variance[k])


@inner
def _widths(sight: Sight, values: Visitor, fair: float, begin: int, width: Floats) -> None:
    """Write ln(1 + fair views / views) of some links.

    Views are those of all visitors if they had seen the link as often as visitors with these
    values: for each value the ratio of actual to expected views, plus 1 each. So a value without
    expected views changes nothing. ln y = 8 ln z with z the eighth root of y, and ln z = 3 (z^2 -
    1) / (z^2 + 4 z + 1) to within 1 % up to y = 10,000: a loop without calls, in single precision.
    """
    all_views = sight.link_views[begin:]
    for k in range(len(width)):
        width[k] = all_views[k]
    for f in range(len(values)):
        views = sight.views[values[f], begin:]
        share = (sight.seen[values[f]] + 1.0) / (sight.n_pages[0] + 1.0)
        for k in range(len(width)):
            width[k] *= (views[k] + 1.0) / (share * all_views[k] + 1.0)
    for k in range(len(width)):
        ratio = np.float32(1.0 + fair / (width[k] + 1.0))
        root = math.sqrt(math.sqrt(math.sqrt(ratio)))
        square = root * root
        width[k] = (TWENTY_FOUR * (square - ONE)) / (square + FOUR * root + ONE)


@inner
def rate_for(
    layout: PosteriorLayout, sight: Sight, posterior: JointPosterior, visitor: Visitor, n_slots: int
) -> None:
    """Write rates, variances and widths of all links for a visitor into `posterior`.

    Works on one block of links at a time, which fits into the cache.
    """
    n_links = len(posterior.width)
    fair = (sight.n_pages[0] + 1.0) * n_slots / n_links
    for begin in range(0, n_links, BLOCK):
        end = min(n_links, begin + BLOCK)
        for level in range(len(posterior.mean)):
            mean, variance = posterior.mean[level, begin:end], posterior.variance[level, begin:end]
            rows = RegressionRows(mean, variance, begin)
            if layout.has_pairs:
                _add_rows(layout, visitor, sight.odds[level], sight.doubt[level], rows)
                _rate_rows(rows)
            else:
                odds, doubt = sight.odds[level], sight.doubt[level]
                _rate_apart(visitor, odds, doubt, sight.buffer, rows)
        width = posterior.width[begin:end]
        _widths(sight, visitor if layout.has_pairs else visitor[:0], fair, begin, width)
        for k in range(len(width)):
            width[k] *= posterior.exploration


# A view with rate p adds p (1 - p) to J and tilts by p (1 - p) * logit - p; an outcome tilts by 1.
# So outcomes may arrive later than their views. The trials of a level are outcomes of the level
# before: they wait until the views are settled at this level, too.


SINGLE = 4.0
"""Trials that are weighted like one view; a view in a good slot counts as more than one."""
LARGEST_SALE = 100.0
"""Maximum outcome of a view, in typical sales: at first the first sale is the typical one, and
after a first sale of a cent a sale of 50 euros would otherwise outweigh everything else."""

PASSED, VIEWED = range(2)


@inner
def count_visitor(regression: VisitorRegression, visitor: Visitor, n_pages: float) -> None:
    """Record that pages of a visitor are settled."""
    for k in range(len(visitor)):
        regression.seen[visitor[k]] += n_pages


@inner
def _match(
    regression: VisitorRegression, level: int, link: int, n_views: float, outcome: float
) -> float:
    """Store outcomes of a level until the next level settles; return those for which it has.

    `waiting` has negative views if the next level settled first.
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
    regression: VisitorRegression,
    level: int,
    link: int,
    visitor: Visitor,
    trials: float,
    outcome: float,
) -> float:
    """Record trials and their outcomes, weighted by their expected rate.

    Large batches are weighted by the rate after them. Returns the expected outcomes.
    """
    tilt = outcome
    weight = expected = 0.0
    evidence = evidence_of(regression, level, link)
    if trials > 0.0:
        if trials <= SINGLE:
            logit = mean_logit(evidence, visitor, regression.solution)
        else:
            solve_posterior(regression, level, link)
            logit, spread = logit_for(regression.layout, regression.solution, visitor)
            logit = _most_likely(logit, spread, trials, outcome)
        logit = min(MAX_LOGIT, logit)
        rate = 1.0 / (1.0 + math.exp(-logit))
        expected = trials * rate
        weight = expected * (1.0 - rate)
        tilt += weight * logit - expected
    if not regression.layout.has_pairs:
        add_apart(evidence, visitor, weight, tilt)
        return expected
    if trials > 0.0:
        add_trials(regression.layout, visitor, weight, evidence.information)
    if tilt != 0.0:
        evidence.tilt[0] += tilt
        for k in range(len(visitor)):
            evidence.tilt[1 + visitor[k]] += tilt
    return expected


@inner
def learn_link(
    regression: VisitorRegression,
    sight: Sight,
    visitor: Visitor,
    level: int,
    link: int,
    n_views: float,
    outcome: float,
) -> float:
    """Record the outcomes of a visitor's views of a link at a level; return those expected.

    A state without a `Sight` can learn, but not choose.
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
                refresh_seen(regression, sight, visitor, level + 1, link)
    elif regression.unit[0] > 0.0:
        outcome = min(outcome / regression.unit[0], LARGEST_SALE * max(1.0, n_views))
    expected = _learn_outcomes(regression, level, link, visitor, trials, outcome)
    if has_sight and (trials > 0.0 or outcome > 0.0):
        refresh_seen(regression, sight, visitor, level, link)
    return expected


# The test of `link_posterior` for links that have changed, on the clicks of each segment where
# visitors have one feature, and on those of all visitors where they have several:
#
#     missing <- [missing + 0.75 expected - clicks]+
#
# When more than 30 clicks and 1 % of those expected so far are missing, 9/10 of what was learned
# from the segment's views is discarded: J and the tilt are sums over views, and with one feature
# those of a segment are the entries of its value. With several features no entry has the views of
# one value alone, so 9/10 of all views are discarded; likewise if effects are independent. Views
# counted for the width of exploration stay, so that they are the same in any order of feedback.


@inner
def known_part(regression: VisitorRegression, visitor: Visitor, link: int, rate: float) -> float:
    """Return the share of a link's expected clicks that counts: 0 for a link without views."""
    hits = math.inf
    for k in range(len(visitor)):
        hits = min(hits, regression.value_views[visitor[k], link] * rate)
    return hits / (hits + 1.0) if hits < math.inf else 0.0


@inner
def notice_missing(
    regression: VisitorRegression,
    visitor: Visitor,
    rounds: float,
    expected: float,
    n_clicks: float,
    n_pages: float,
) -> bool:
    """Record clicks of pages and those expected; discard and return True if many are missing.

    `rounds` are the page views of all visitors so far.
    """
    if len(visitor) == 0:
        return False
    has_segments = len(regression.layout.first) == 2
    place = visitor[0] if has_segments else 0
    seen = regression.seen[place] if has_segments else rounds
    missing = max(0.0, regression.missing[place] + USUAL * expected - n_clicks)
    regression.missing[place] = missing
    if missing * n_pages <= LEAST_MISSING * n_pages + MISSING_PART * seen * expected:
        return False
    regression.missing[place] = 0.0
    is_segment = has_segments and regression.layout.has_pairs
    n_levels, n_links, _ = regression.tilt.shape
    for level in range(n_levels):
        for link in range(n_links):
            _forget(regression.information[level, link], 1 + place if is_segment else -1)
            _forget(regression.tilt[level, link], 1 + place if is_segment else -1)
    return True


@inner
def _forget(sums: Floats, place: int) -> None:
    """Discard most of the views of a value, whose sums are at `place`, or of all if < 0."""
    if place < 0:
        for k in range(len(sums)):
            sums[k] *= 1.0 - FORGOTTEN_PART
    else:
        sums[0] -= FORGOTTEN_PART * sums[place]
        sums[place] *= 1.0 - FORGOTTEN_PART
