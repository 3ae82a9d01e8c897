"""Rates of links for visitors with features: a Bayesian logistic regression per link.

    logit of link i for visitor x = b_i + sum over features f of e_fi(x_f)

at every level, given that the level before was passed; at the last level, of a sale, whose amount
is that of the link for all visitors (`link_rates`). The prior is shared: `center` has the intercept
of the pool and the effects of values on all links, `variance` the variances around it. A link that
no visitor of a kind has seen starts from the link's estimate and from the kind's effect on all
links, and a link without views from the pool. Posteriors are Gaussian, with the covariances between
the effects on one link (`link_regression`): an outcome is explained once, not once by every
feature. Where the pairs of values are too many, covariances are left out: that is another layout of
the same arrays, which `has_pairs` of the saved state says.

The width of a bound (`bound`) is w = c ln(1 + t L / (K N(x))), where N(x) is how often all visitors
would have seen the link if they had seen it as often as visitors like x: its views N times (N_v +
1) / (N t_v / t + 1) for each value v of x, plus its open views. Of the t page views, t_v had a
visitor with value v, and N_v of these showed the link. Used by `change_detection`, `older_states`,
`paced_bayes` and `visitor_learning`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.compile import inner
from slotwise.policies.bound import RatePosterior
from slotwise.policies.link_rates import (
    PoolFit,
    RateCounts,
    amount_of,
    prior_mean,
    prior_strength,
    trials_and_hits,
    with_amount,
)
from slotwise.policies.link_regression import (
    LinkEvidence,
    PosteriorLayout,
    PosteriorSolution,
    entries_of,
    new_layout,
    new_solution,
    pair,
    parameter,
    solve_link,
    step_of_pairs,
)
from slotwise.policies.open_views import OpenLedger
from slotwise.policies.policy import Floats, Knowledge, Links, Visitor
from slotwise.problem import Problem
from slotwise.selection.passes import list_marked

LINK_VARIANCE = 1.0
"""Variance of the logits of links around the pool: links several times better remain likely."""
FIRST_VARIANCE = 0.03
"""Initial variance of all features' effects together: features must prove to matter."""
MAX_LOGIT = 4.0
"""Rates are limited to 98 %."""

MAX_NUMBERS = 1_600_000
"""Maximum number of entries of a pool for pairs of values: about 45 MB in total."""
MAX_ADDED = 20_000
"""Maximum number of terms of a page at each level: 30,000 took more than 100 us."""
MAX_OTHER_VALUES = 24
"""Maximum number of values of all features but the largest: a link is learned in microseconds."""

WEIGHT_OF_FIRST = 1.0
"""Weight of the initial guess of a variance, in effects."""
LEAST_VARIANCE = 1e-4
COMMON_EFFECTS = 5.0
"""Links after which the effect of a value on all links has half its full weight."""
MOVED = 0.05
"""Links are refreshed when an entry of the prior's center moves this far, or a variance 10 %."""

BLOCK = 512
"""Links that are rated in one block."""
MAX_LOGITS = 80.0
"""Maximum total effect of features on a logit: odds stay finite in single precision."""
ONE, FOUR, TWENTY_FOUR = np.float32(1.0), np.float32(4.0), np.float32(24.0)

N_RECENT = 16
"""Latest visitors of each floor, over which its expected price is computed."""
LOG_GROWTH = math.log(1.1)
"""With independent effects, their prior is fitted when rounds have grown by 10 %."""
PRICE_GROWTH = 1.1
"""Expected prices are computed when rounds have grown by 10 %."""

PASSED, VIEWED = range(2)
"""The indices of `waiting`."""
AMOUNT, AMOUNT_VARIANCE = range(2)
"""The indices of `amount`."""


class RatesForVisitors(NamedTuple):
    """What is known of visitors, in the first part, and what is derived from it.

    `information` and `tilt` are J and the tilt of each parameter, by level and link. `waiting` has
    outcomes of each level whose next level is not settled yet, and their views. `value_views` are
    the views of links by visitors with each value, `seen` their pages. `missing` are the missing
    clicks of visitors with each value; with several features, at the first index, those of all
    visitors. `recent` has the latest visitors, of all and then of each floor, and `turns` how many
    there were; `priced` are the rounds when prices were computed. `floor_views` and `floor_sums`
    count the views of links by the visitors of each floor and their outcomes at its level.

    `odds` has a factor for the link and for each value, `doubt` the contribution of each entry of J
    to the variance of the logit, both by level and in single precision, in rows over links;
    `is_stale` marks where they are out of date, by level and link. `amount` has mean and variance
    of a sale of each link, in units of the mean sale. `open_rate` are the outcomes of each floor
    that an open view of each link is expected to bring.
    """

    information: Floats
    tilt: Floats
    waiting: Floats
    value_views: Floats
    seen: Floats
    center: Floats
    variance: Floats
    missing: Floats
    recent: NDArray[np.int64]
    turns: Floats
    priced: Floats
    floor_views: Floats
    floor_sums: Floats
    layout: PosteriorLayout
    solution: PosteriorSolution
    fitted: Floats
    odds: NDArray[np.float32]
    doubt: NDArray[np.float32]
    is_stale: NDArray[np.bool_]
    amount: Floats
    open_rate: Floats
    buffer: NDArray[np.float32]


class OpenFloor(NamedTuple):
    """A floor to which open views are expected to bring outcomes, in its units.

    `of_pool` is what a view of an average link brings. `unit` is 1, or the mean sale for money.
    """

    row: int
    level: int
    place: int
    of_pool: float
    unit: float
    is_money: bool


KNOWN = (
    *("information", "tilt", "waiting", "value_views", "seen"),
    *("center", "variance", "missing", "recent", "turns", "priced"),
    *("floor_views", "floor_sums"),
)
"""Names of the saved parts."""


def pairs_fit(problem: Problem) -> bool:
    """Return whether features have few enough values to store an entry for every pair of them."""
    sizes, n_links = problem.feature_sizes, problem.n_links
    n_added = n_links * (1 + len(sizes)) * (2 + len(sizes)) // 2
    is_small = n_links * entries_of(sizes) <= MAX_NUMBERS and n_added <= MAX_ADDED
    return is_small and sum(sizes) - max(sizes, default=0) <= MAX_OTHER_VALUES


def new_visitor_rates(problem: Problem, n_floors: int, has_pairs: bool) -> RatesForVisitors:
    """Return the rates of visitors without known features."""
    n_levels, n_links, sizes = problem.n_levels, problem.n_links, problem.feature_sizes
    layout = new_layout(sizes, has_pairs)
    n_parameters = 1 + sum(sizes)
    variance = np.full((n_levels, 1 + len(sizes)), FIRST_VARIANCE / max(1, len(sizes)))
    variance[:, 0] = LINK_VARIANCE
    return RatesForVisitors(
        information=np.zeros((n_levels, n_links, layout.n_entries)),
        tilt=np.zeros((n_levels, n_links, n_parameters)),
        waiting=np.zeros((2, n_levels, n_links)),
        value_views=np.zeros((sum(sizes), n_links)),
        seen=np.zeros(sum(sizes)),
        center=np.zeros((n_levels, n_parameters)),
        variance=variance,
        missing=np.zeros(sum(sizes)),
        recent=np.zeros((1 + n_floors, N_RECENT, len(sizes)), np.int64),
        turns=np.zeros(1 + n_floors),
        priced=np.zeros(1),
        floor_views=np.zeros((n_floors, n_links)),
        floor_sums=np.zeros((n_floors, n_links)),
        layout=layout,
        solution=new_solution(layout),
        fitted=np.zeros((4, n_parameters)),
        odds=np.ones((n_levels, n_parameters, n_links), np.float32),
        doubt=np.zeros((n_levels, layout.n_entries, n_links), np.float32),
        is_stale=np.ones((n_levels, n_links), np.bool_),
        amount=np.ones((2, n_links)),
        open_rate=np.zeros((n_floors, n_links)),
        buffer=np.zeros((2, BLOCK), np.float32),
    )


def known_by_link(visitors: RatesForVisitors) -> Knowledge:
    """Return copies of the saved parts in double precision, with links as the last axis."""
    known = {name: np.array(getattr(visitors, name), np.float64) for name in KNOWN}
    known["has_pairs"] = np.array([float(visitors.layout.has_pairs)])
    for name in ("information", "tilt"):
        known[name] = np.ascontiguousarray(known[name].swapaxes(1, 2))
    return known


def take_known(visitors: RatesForVisitors, known: Mapping[str, Floats]) -> None:
    """Restore the saved parts."""
    for name in KNOWN:
        links_last = known[name].swapaxes(1, 2) if name in ("information", "tilt") else known[name]
        getattr(visitors, name)[:] = links_last


def merged_value(known: Knowledge, sizes: Sequence[int], value: int, into: int) -> Knowledge:
    """Return saved parts as if visitors with one value had had another one of the same feature.

    J and the tilt are sums over views, so this is exact for the rates at which views were learned.
    """
    merged = {name: array.copy() for name, array in known.items()}
    layout = new_layout(sizes, bool(merged["has_pairs"][0]))
    entries = [(1 + value, 1 + into)]
    if layout.has_pairs:
        own = layout.feature_of[value]
        others = np.flatnonzero(layout.feature_of != own).tolist()
        entries += [(pair(layout, value, one), pair(layout, into, one)) for one in others]
    for name, moves in (("information", entries), ("tilt", entries[:1])):
        for old, new in moves:
            merged[name][:, new] += merged[name][:, old]
            merged[name][:, old] = 0.0
    for name in ("value_views", "seen"):
        merged[name][into] += merged[name][value]
        merged[name][value] = 0.0
    merged["center"][:, 1 + value] = 0.0
    merged["segment_missing"][value] = 0.0
    merged["recent"][merged["recent"] == value] = into
    return merged


def visitors_like_those_seen(
    pages: Floats, feature_of: Links, n_visitors: int
) -> NDArray[np.int64]:
    """Return visitors, a row each, with the frequencies of values in the pages seen.

    Correlations of features are not known: each is assigned independently, deterministically.
    """
    dealer = np.random.default_rng(0)
    places = (np.arange(n_visitors) + 0.5) / n_visitors
    columns = []
    for feature in range(int(feature_of.max(initial=-1)) + 1):
        values = np.flatnonzero(feature_of == feature)
        seen = pages[values]
        shares = np.cumsum(seen if seen.any() else np.ones(len(values)))
        column = values[np.searchsorted(shares, places * shares[-1], side="right")]
        columns.append(dealer.permutation(column))
    return np.array(columns, np.int64).reshape(len(columns), n_visitors).T.copy()


@inner
def solve_posterior(visitors: RatesForVisitors, level: int, link: int) -> None:
    """Write the posterior of a link at a level into `solution`."""
    solve_link(evidence_of(visitors, level, link), visitors.solution)


@inner
def evidence_of(visitors: RatesForVisitors, level: int, link: int) -> LinkEvidence:
    """Return the evidence of a link at a level."""
    return LinkEvidence(
        visitors.layout,
        visitors.information[level, link],
        visitors.tilt[level, link],
        visitors.center[level],
        visitors.variance[level],
    )


# Fitting the prior of effects


@inner
def is_fit_due(visitors: RatesForVisitors, before: float, now: float) -> bool:
    """Return whether the prior of effects is fitted with the pool, at the rounds `now`.

    `before` are the rounds of the previous fit of the pool.
    """
    if visitors.layout.has_pairs:
        return True
    return math.floor(math.log(now) / LOG_GROWTH) > math.floor(math.log(before) / LOG_GROWTH)


@inner
def fit_effects(visitors: RatesForVisitors, level: int, pool_mean: float) -> bool:
    """Fit the prior of a level to the links; return whether all links must be refreshed.

    The variance of a feature's effects is

        variance <- (v0 + sum (e - center)^2) / (1 + sum (1 - Var e / variance))

    (MacKay 1992), at most that of the links: otherwise few links with extreme effects would cause
    exploration of all links by all visitors. The denominator counts the effects that the data
    determine, so few data have little influence. A feature that does not matter gets a small
    variance, and its effects are then nearly 0.
    """
    layout, solution, fitted = visitors.layout, visitors.solution, visitors.fitted
    center, variance = visitors.center[level], visitors.variance[level]
    n_links = visitors.tilt.shape[1]
    fitted[:] = 0.0
    for link in range(n_links):
        if visitors.information[level, link, 0] > 0.0:
            solve_posterior(visitors, level, link)
            for value in range(len(layout.feature_of)):
                own = variance[1 + layout.feature_of[value]]
                known = max(0.0, 1.0 - solution.variance[1 + value] / own)
                effect = solution.mean[1 + value] - center[1 + value]
                fitted[0, value] += known
                fitted[1, value] += known * solution.mean[1 + value]
                fitted[2, value] += effect * effect
    level_of_pool = math.log(pool_mean / (1.0 - pool_mean))
    moved = abs(level_of_pool - center[0]) > MOVED
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


# Pages


class RegressionRows(NamedTuple):
    """Rates of some links and their variances; `begin` is the first link."""

    mean: Floats
    variance: Floats
    begin: int


@inner
def _most_effect(visitors: RatesForVisitors) -> float:
    """Return the largest effect of a value on a logit."""
    return MAX_LOGITS / max(len(visitors.layout.first) - 1, 5)


@inner
def refresh_parameter(visitors: RatesForVisitors, level: int, link: int, place: int) -> None:
    """Write one parameter of a link to the tables, in a layout without pairs."""
    mean, variance = parameter(evidence_of(visitors, level, link), place)
    visitors.doubt[level, place, link] = variance
    most = _most_effect(visitors)
    low, high = (-most, most) if place > 0 else (-math.inf, MAX_LOGIT)
    visitors.odds[level, place, link] = math.exp(max(low, min(high, mean)))


@inner
def _refresh_link(visitors: RatesForVisitors, level: int, link: int) -> None:
    """Write the posterior of a link to the tables."""
    if not visitors.layout.has_pairs:
        for place in range(visitors.tilt.shape[2]):
            refresh_parameter(visitors, level, link, place)
        return
    solve_posterior(visitors, level, link)
    layout, solution = visitors.layout, visitors.solution
    odds, doubt = visitors.odds[level], visitors.doubt[level]
    small, rest, start = solution.small, layout.rest, 0
    most = _most_effect(visitors)
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
        place, step = pair(layout, start, rest[j]), step_of_pairs(layout, rest[j])
        for k in range(len(solution.mixed)):
            doubt[place, link] = 2.0 * solution.mixed[k, 1 + j]
            place += step


@inner
def refresh_tables(
    visitors: RatesForVisitors,
    pool: PoolFit,
    counts: RateCounts,
    posterior: RatePosterior,
    is_changed: NDArray[np.bool_],
) -> None:
    """Recompute the tables where they are out of date, and mark these links as changed.

    Of most links shown they are out of date at one level only.
    """
    for level in range(len(visitors.is_stale)):
        for k in range(list_marked(visitors.is_stale[level], posterior.to_do)):
            link = posterior.to_do[k]
            visitors.is_stale[level, link] = False
            is_changed[link] = True
            _refresh_link(visitors, level, link)
            refresh_amount(visitors, pool, counts, link)


@inner
def refresh_amount(
    visitors: RatesForVisitors, pool: PoolFit, counts: RateCounts, link: int
) -> None:
    """Recompute the amount of a sale of a link."""
    _, n_sales = trials_and_hits(counts, len(counts.rounds) - 1, link)
    mean, variance = amount_of(pool, counts, link, n_sales)
    visitors.amount[AMOUNT, link] = mean
    visitors.amount[AMOUNT_VARIANCE, link] = variance


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
def _rate_independent(
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
def _write_widths(
    visitors: RatesForVisitors,
    counts: RateCounts,
    opened: Floats,
    visitor: Visitor,
    begin: int,
    width: Floats,
) -> None:
    """Write ln(1 + fair views / views) of some links, where fair views are an equal share.

    A value without expected views changes nothing. ln y = 8 ln z with z the eighth root of y, and
    ln z = 3 (z^2 - 1) / (z^2 + 4 z + 1) to within 1 % up to y = 10,000: a loop without calls, in
    single precision.
    """
    n_pages = counts.rounds[0] + 1.0
    fair = n_pages * counts.n_slots / counts.views.shape[1]
    all_views, waiting = counts.views[0, begin:], opened[begin:]
    for k in range(len(width)):
        width[k] = all_views[k]
    for f in range(len(visitor)):
        views = visitors.value_views[visitor[f], begin:]
        share = (visitors.seen[visitor[f]] + 1.0) / n_pages
        for k in range(len(width)):
            width[k] *= (views[k] + 1.0) / (share * all_views[k] + 1.0)
    for k in range(len(width)):
        ratio = np.float32(1.0 + fair / (width[k] + waiting[k] + 1.0))
        root = math.sqrt(math.sqrt(math.sqrt(ratio)))
        square = root * root
        width[k] = (TWENTY_FOUR * (square - ONE)) / (square + FOUR * root + ONE)


@inner
def rate_for(
    visitors: RatesForVisitors,
    counts: RateCounts,
    open_views: OpenLedger,
    visitor: Visitor,
    posterior: RatePosterior,
) -> None:
    """Write rates, variances and widths of all links for a visitor into `posterior`.

    Works on one block of links at a time, which fits into the cache.
    """
    n_links, last = len(posterior.width), len(posterior.mean) - 1
    for begin in range(0, n_links, BLOCK):
        end = min(n_links, begin + BLOCK)
        for level in range(last + 1):
            mean, variance = posterior.mean[level, begin:end], posterior.variance[level, begin:end]
            rows, odds, doubt = (
                RegressionRows(mean, variance, begin),
                visitors.odds[level],
                visitors.doubt[level],
            )
            if visitors.layout.has_pairs:
                _add_rows(visitors.layout, visitor, odds, doubt, rows)
                _rate_rows(rows)
            else:
                _rate_independent(visitor, odds, doubt, visitors.buffer, rows)
        amount = visitors.amount[AMOUNT, begin:end]
        spread = visitors.amount[AMOUNT_VARIANCE, begin:end]
        mean, variance = posterior.mean[last, begin:end], posterior.variance[last, begin:end]
        for k in range(len(mean)):
            mean[k], variance[k] = with_amount(mean[k], variance[k], amount[k], spread[k])
        width = posterior.width[begin:end]
        _write_widths(visitors, counts, open_views.views[0], visitor, begin, width)
        for k in range(len(width)):
            width[k] *= posterior.exploration


@inner
def count_open_trials(
    pool: PoolFit, counts: RateCounts, open_views: OpenLedger, posterior: RatePosterior
) -> None:
    """Reduce the variance of links as if the trials of their open views were settled."""
    for link in range(len(posterior.width)):
        waiting = open_views.views[0, link]
        if waiting > 0.0:
            for level in range(len(posterior.mean)):
                settled, _ = trials_and_hits(counts, level, link)
                known = settled + prior_strength(prior_mean(pool, level)) + 1.0
                posterior.variance[level, link] *= known / (known + waiting)
                waiting *= posterior.mean[level, link]


@inner
def _rate_of_open_views(
    visitors: RatesForVisitors, opened: OpenLedger, link: int, level: int, place: int
) -> float:
    """Return the share of a link's open views that pass all levels up to one.

    It is that of a visitor with the average odds of those who look at them, feature by feature, at
    the present estimates; all have the value `place`, where that is one.
    """
    first, passed = visitors.layout.first, 1.0
    for earlier in range(level + 1):
        odds = float(visitors.odds[earlier, 0, link])
        for feature in range(len(first) - 1):
            if first[feature] <= place < first[feature + 1]:
                odds *= float(visitors.odds[earlier, 1 + place, link])
                continue
            total = weighted = 0.0
            for value in range(first[feature], first[feature + 1]):
                n_views = opened.of_values[value, link]
                if n_views > 0.0:
                    total += n_views
                    weighted += n_views * float(visitors.odds[earlier, 1 + value, link])
            if total > 0.0:
                odds *= weighted / total
        passed *= odds / (1.0 + odds)
    return passed


@inner
def refresh_open_rate(
    visitors: RatesForVisitors, opened: OpenLedger, link: int, floor: OpenFloor
) -> None:
    """Recompute what an open view of a link is expected to bring to a floor.

    Open views whose visitors are not known bring what views of the link have brought so far, by
    visitors to whom it was shown, who like it better than others do. Known visitors matter where
    feedback is late: when the price falls, other visitors see the link, and the average of all
    views would report it a whole delay later, so that the price would oscillate.
    """
    row = floor.row
    n_views = visitors.floor_views[row, link] + 1.0
    average = (visitors.floor_sums[row, link] + floor.of_pool) / n_views
    known, n_open = 0.0, opened.views[0, link]
    for value in range(visitors.layout.first[1] if n_open > 0.0 else 0):
        known += opened.of_values[value, link]
    known = min(1.0, known / n_open) if known > 0.0 else 0.0
    if known > 0.0:
        rate = floor.unit * _rate_of_open_views(visitors, opened, link, floor.level, floor.place)
        if floor.is_money:
            rate *= visitors.amount[AMOUNT, link]
        average += known * (rate - average)
    visitors.open_rate[row, link] = average


@inner
def known_part(visitors: RatesForVisitors, visitor: Visitor, link: int, rate: float) -> float:
    """Return the share of a link's expected clicks that counts: 0 for a link without views."""
    hits = math.inf
    for k in range(len(visitor)):
        hits = min(hits, visitors.value_views[visitor[k], link] * rate)
    return hits / (hits + 1.0) if hits < math.inf else 0.0
