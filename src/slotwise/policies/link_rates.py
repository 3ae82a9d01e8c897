"""Rates of links without features of visitors: exact counts and a prior fitted to the pool.

Each level has a Beta posterior of the rate at which a view that passed the level before passes this
one. At the last level it is the rate of a sale, and the amount of a sale is a factor of its own:

    rate    (hits + 1) / (trials + 1 / m)   for a prior mean m of at most 1/2; mirrored above it
    amount  (money + kappa) / (sales + kappa),   money in units of the pool's mean sale
    Var amount = amount^2 between kappa / (sales + kappa),   kappa = within / between

`within` and `between` are the squared coefficients of variation of the sales of one link and of the
mean sales of links, fitted to the pool. So a link that sells for 900 among links that sell for 10
is worth 90 times as much per sale after its first sales, and sales of equal size add no
uncertainty. A link that has not sold yet sells like those that have, or, with the chance 6 / (links
that have sold + 6), for anything from the mean sale to the largest possible one, on a logarithmic
scale: in a small pool whose limit is far above its sales, an expensive link that joins is tried for
longer. Its variance is that over both guesses. A view counts as a sale or not; the sizes in a batch
of many views are not known, so it counts as many sales of the mean size as make its total, at most
one for each trial.

The prior of a level is one Beta for the whole pool. Its smaller parameter is 1, which makes the
rarer outcome's rate about exponential: links several times better than the rest remain likely. At
the first level its mean is that of the links' rates, each with the weight n / (n + 100) of its n
views. At later levels it is the likeliest one given the trials and hits of every link: with a mean
over all clicks, links that are often clicked and never sell would lower the expected revenue of a
click on any other link; with a mean over links, those that happened to sell early, and are shown
more for it, would raise it.

The width of a bound (`bound`) is

    w = c ln(1 + 7 t L / (K N) * D / (D + 2 sqrt(Var)))

t L / K is a link's share of the views so far, and N are its own. With a horizon T, the T - t rounds
to come replace t. D is the margin of a link on the page over one not on it: the mean value of the L
best links less that of the next L. One more trial of a link costs about sqrt(Var), and can earn D
in every later page view. While not even the best page by the posterior means keeps the floor, D is
unbounded. Open views count in Var and N: otherwise the same uncertain links would fill every page
until the first feedback arrives. Used by `change_detection`, `older_states`, `paced_bayes`,
`player`, `visitor_learning` and `visitor_rates`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from slotwise.arrays import Floats
from slotwise.compile import inner
from slotwise.policies.bound import RatePosterior, before_level
from slotwise.policies.open_views import OpenLedger
from slotwise.problem import Problem
from slotwise.selection.passes import list_marked, whole_vectors

SHAPE = 1.0
"""The smaller parameter of a prior."""

HALF_WEIGHT = 100.0
"""Views after which a link has half its full weight in the mean of the first level."""

PSEUDO_LINK = 0.1
"""Weight of a pseudo-link that passes every level with probability 1/2: the initial guess."""

LARGEST_PRIOR = 0.999

FIT_STEPS, FIT_CHANGE = 10, 0.01
"""A fit of a later level ends after so many steps, or when a step changes its result by less."""

LARGE = 1e150
"""Products are turned into logarithms above it; a factor is far less than its square."""

REFIT_GROWTH = 1.02
"""A level is refitted, and all links are recomputed, when its rounds have grown by 2 %."""

TRIAL_GAIN, TRIAL_COST = 7.0, 2.0
"""Factors of the possible gain and of the cost of a trial, which set the length of trials."""

SINGLE = 4.0
"""Views that count as a single one: a view in a good slot counts as more than 1."""

LEAST_SALE = 1e-100
"""Less revenue than this, of at most 1, is no sale: its square and inverse would not be finite."""

UNIT, WITHIN, BETWEEN, UNSEEN = range(4)
"""The indices of `amounts`: the mean sale, 0 if unknown, two coefficients of variation, and the
expected sale of a link that has not sold yet, in mean sales."""

FIRST_VARIATION = 0.25
"""The initial guess of both squared coefficients, with the weight of one sale or link."""

OTHER_KINDS = 6.0
"""Weight of the guess that a link that has not sold yet sells for another amount, in links."""

LEAST_UNSEEN = 1.0 + 1e-6
"""Below it, the largest possible sale is the mean sale, and the guesses do not differ."""

LEAST_KAPPA, MOST_KAPPA = 0.1, 10.0
"""Limits of the weight of the pool's mean sale in that of a link, in sales."""


class RateCounts(NamedTuple):
    """What rates are made of: views and sums of outcomes by level and link, and rounds by level.

    `sales` and `squares` count the outcomes above 0 of the last level and sum their squares. A
    change of the links scales all but the rounds (`change_detection`), so they are not totals.
    """

    views: Floats
    sums: Floats
    sales: Floats
    squares: Floats
    rounds: Floats
    n_slots: int


class PoolFit(NamedTuple):
    """What is fitted to the pool as a whole.

    `rate` is the prior mean of each level, `clock` the rounds by which it was fitted, and `amounts`
    describes the sizes of sales.
    """

    rate: Floats
    clock: Floats
    amounts: Floats


def new_rate_counts(problem: Problem) -> RateCounts:
    """Return counts of nothing."""
    shape = (problem.n_levels, problem.n_links)
    return RateCounts(
        views=np.zeros(shape),
        sums=np.zeros(shape),
        sales=np.zeros(problem.n_links),
        squares=np.zeros(problem.n_links),
        rounds=np.zeros(problem.n_levels),
        n_slots=problem.n_slots,
    )


def new_pool_fit(problem: Problem) -> PoolFit:
    """Return the initial guess: every level is passed with probability 1/2."""
    return PoolFit(
        rate=np.full(problem.n_levels, 0.5),
        clock=np.ones(problem.n_levels),
        amounts=np.array([0.0, FIRST_VARIATION, FIRST_VARIATION, 1.0]),
    )


# Counting


@inner
def sales_of(pool: PoolFit, n_views: float, outcome: float) -> float:
    """Return how many sales the revenue of some views of a link is: at most one a view."""
    if outcome < LEAST_SALE:
        return 0.0
    return 1.0 if n_views <= SINGLE else min(n_views, outcome / mean_sale(pool))


@inner
def mean_sale(pool: PoolFit) -> float:
    """Return the mean amount of a sale; 1, the largest possible one, while there is none."""
    unit = pool.amounts[UNIT]
    return unit if unit > 0.0 else 1.0


@inner
def spread_of_sales(pool: PoolFit) -> float:
    """Return the root mean square of the mean sales of links, in mean sales."""
    return math.sqrt(1.0 + pool.amounts[BETWEEN])


@inner
def add_views(
    counts: RateCounts, pool: PoolFit, level: int, link: int, n_views: float, outcome: float
) -> float:
    """Count settled views of a link; return how many of them passed the level."""
    counts.views[level, link] += n_views
    counts.sums[level, link] += outcome
    if level < len(counts.rounds) - 1:
        return outcome
    n_sales = sales_of(pool, n_views, outcome)
    if n_sales > 0.0:
        if pool.amounts[UNIT] <= 0.0 and n_views <= SINGLE:
            pool.amounts[UNIT] = outcome  # until the next fit
        counts.sales[link] += n_sales
        counts.squares[link] += outcome * outcome / n_sales
    return n_sales


@inner
def trials_and_hits(counts: RateCounts, level: int, link: int) -> tuple[float, float]:
    """Return the settled trials of a link at a level and how many of them passed it.

    A trial is a view that passed the level before. Where levels settle one after the other, trials
    are the settled views times the rate at which views passed the level before.
    """
    trials = counts.views[level, link]
    hits = counts.sales[link] if level == len(counts.rounds) - 1 else counts.sums[level, link]
    if level > 0:
        n_views = counts.views[level - 1, link]
        if n_views > 0.0:
            trials *= counts.sums[level - 1, link] / n_views
    return trials, min(hits, trials)


# Fitting the pool


@inner
def is_refit_due(pool: PoolFit, counts: RateCounts, level: int) -> bool:
    """Return whether the rounds of a level have grown enough since its last fit."""
    return counts.rounds[level] + 1.0 >= REFIT_GROWTH * pool.clock[level]


@inner
def refit_pool(pool: PoolFit, counts: RateCounts, level: int) -> None:
    """Refit the priors from a level on; its settled outcomes are the trials of the next level."""
    pool.clock[level] = counts.rounds[level] + 1.0
    for later in range(level, len(pool.rate)):
        if later == 0:
            pool.rate[0] = _mean_of_links(counts)
        else:
            pool.rate[later] = _likeliest_mean(counts, later, pool.rate[later])
    if level == len(pool.rate) - 1:
        _refit_amounts(pool.amounts, counts)


@inner
def _mean_of_links(counts: RateCounts) -> float:
    """Return the mean rate of links at the first level."""
    total, weighted = PSEUDO_LINK, PSEUDO_LINK * 0.5
    is_last = len(counts.rounds) == 1
    for link in range(len(counts.sales)):
        n_views = counts.views[0, link]
        hits = counts.sales[link] if is_last else counts.sums[0, link]
        weight = 1.0 / (n_views + HALF_WEIGHT)
        total += weight * n_views
        weighted += weight * hits
    return weighted / total


@inner
def _likeliest_mean(counts: RateCounts, level: int, mean: float) -> float:
    """Return the mean of the likeliest prior of a level, by steps from the present mean.

    The likelihood of beta in Beta(1, beta), given n trials and s hits of every link, is largest
    where beta = links / sum of [psi(1 + beta + n) - psi(beta + n - s)]. Where most trials pass,
    hits and misses change places. psi(x) is ln(x + 1/2) - 1/x to within 2 % for x >= 1.
    """
    counts_hits = mean <= 0.5
    shape = (1.0 - mean) / mean if counts_hits else mean / (1.0 - mean)
    for _ in range(FIT_STEPS):
        n_links = total = PSEUDO_LINK
        product = 1.0  # of arguments of logarithms, which are slow: one for many links
        for link in range(len(counts.sales)):
            trials, hits = trials_and_hits(counts, level, link)
            if trials > 0.0:
                rare = hits if counts_hits else trials - hits
                after, misses = 1.0 + shape + trials, shape + trials - rare
                n_links += 1.0
                total += (after - misses) / (after * misses)
                product *= (after + 0.5) / (misses + 0.5)
                if product > LARGE:
                    total += math.log(product)
                    product = 1.0
        before, shape = shape, n_links / (total + math.log(product))
        if abs(shape - before) <= FIT_CHANGE * before:
            break
    rarer = 1.0 / (1.0 + shape)
    return rarer if counts_hits else 1.0 - rarer


@inner
def _kappa(amounts: Floats) -> float:
    return min(MOST_KAPPA, max(LEAST_KAPPA, amounts[WITHIN] / amounts[BETWEEN]))


@inner
def _refit_amounts(amounts: Floats, counts: RateCounts) -> None:
    """Fit the mean sale, and how sales vary within links and between them."""
    kappa, last = _kappa(amounts), len(counts.rounds) - 1
    total = weighted = n_sold = 0.0
    for link in range(len(counts.sales)):
        n_sales = counts.sales[link]
        if n_sales > 0.0:
            n_sold += 1.0
            total += n_sales / (n_sales + kappa)
            weighted += counts.sums[last, link] / (n_sales + kappa)
    if total == 0.0:
        return
    unit = weighted / total
    within, n_within = FIRST_VARIATION, 1.0
    for link in range(len(counts.sales)):
        n_sales, money = counts.sales[link], counts.sums[last, link]
        if n_sales > 1.0 and money > 0.0:
            within += max(0.0, counts.squares[link] * (n_sales / money) ** 2 - n_sales)
            n_within += n_sales - 1.0
    within /= n_within
    between, n_between = FIRST_VARIATION, 1.0
    for link in range(len(counts.sales)):
        n_sales = counts.sales[link]
        if n_sales > 0.0:
            ratio, weight = counts.sums[last, link] / (n_sales * unit), n_sales / (n_sales + kappa)
            between += weight * ((ratio - 1.0) ** 2 - within * ratio * ratio / n_sales)
            n_between += weight
    amounts[UNIT], amounts[WITHIN] = unit, within
    amounts[BETWEEN] = max(FIRST_VARIATION, between) / n_between
    ratio = max(1.0 + 1e-9, 1.0 / unit)
    chance = OTHER_KINDS / (OTHER_KINDS + n_sold)
    amounts[UNSEEN] = 1.0 + chance * ((ratio - 1.0) / math.log(ratio) - 1.0)


@inner
def prior_mean(pool: PoolFit, level: int) -> float:
    """Return the mean of a level's prior."""
    return min(pool.rate[level], LARGEST_PRIOR)


@inner
def prior_strength(mean: float) -> float:
    """Return the number of trials that a prior counts as."""
    return SHAPE / min(mean, 1.0 - mean)


@inner
def outcome_worth(pool: PoolFit, rewards: Floats, level: int) -> float:
    """Return the average revenue for each outcome of a level, with that of all other levels.

    `rewards` are in units of the mean sale, like the result. Rewards of earlier levels count for
    all of their outcomes that it takes to have one here: with rewards for clicks alone, a cart
    would otherwise be worth nothing, and so would its floor.
    """
    worth = earlier = 0.0
    for later in range(len(rewards) - 1, level, -1):
        worth = prior_mean(pool, later) * (rewards[later] + worth)
    for before in range(level):
        earlier = (earlier + rewards[before]) / prior_mean(pool, before + 1)
    return rewards[level] + worth + earlier


# The posterior


@inner
def amount_of(pool: PoolFit, counts: RateCounts, link: int, n_sales: float) -> tuple[float, float]:
    """Return mean and variance of the amount of a sale of a link, in units of the mean sale."""
    kappa = _kappa(pool.amounts)
    money = counts.sums[len(counts.rounds) - 1, link] / mean_sale(pool)
    mean = (money + kappa) / (n_sales + kappa) if n_sales > 0.0 else pool.amounts[UNSEEN]
    variance = mean * mean * pool.amounts[BETWEEN] * kappa / (n_sales + kappa)
    if n_sales <= 0.0 and mean > LEAST_UNSEEN:
        variance += _variance_of_guesses(1.0 / mean_sale(pool), mean)
    return mean, variance


@inner
def _variance_of_guesses(most: float, mean: float) -> float:
    """Return the variance of the amount of a link that has not sold yet, over both guesses.

    Its mean is `mean`, and `most` the largest possible sale, in mean sales. Without this, the
    score of an expensive link that joins would fall below those of the others before it sells.
    """
    log = math.log(most)
    chance = (mean - 1.0) / ((most - 1.0) / log - 1.0)
    square = 1.0 + chance * ((most * most - 1.0) / (2.0 * log) - 1.0)
    return max(0.0, square - mean * mean)


@inner
def with_amount(
    rate: float, variance: float, amount: float, amount_variance: float
) -> tuple[float, float]:
    """Return mean and variance of the revenue of a trial: a sale or not, times its amount."""
    return rate * amount, (
        variance * (amount_variance + amount * amount) + rate * rate * amount_variance
    )


@inner
def refresh_rates(
    posterior: RatePosterior,
    pool: PoolFit,
    counts: RateCounts,
    open_views: OpenLedger,
    with_widths: bool,
) -> int:
    """Recompute the links that have changed; return how many `posterior.to_do` lists.

    Without widths, the links stay marked as changed.
    """
    n_changed = list_marked(open_views.is_changed, posterior.to_do)
    last = len(pool.rate) - 1
    for level in range(last + 1):
        prior = prior_mean(pool, level)
        strength = prior_strength(prior)
        for k in range(n_changed):
            link = posterior.to_do[k]
            settled, hits = trials_and_hits(counts, level, link)
            trials = settled
            if level > 0:
                trials = max(settled, counts.sums[level - 1, link])
            waiting = open_views.views[0, link]
            for earlier in range(level):
                waiting *= posterior.mean[earlier, link]
            mean = (hits + strength * prior) / (settled + strength)
            variance = mean * (1.0 - mean) / (trials + waiting + strength + 1.0)
            if level == last:
                mean, variance = with_amount(mean, variance, *amount_of(pool, counts, link, hits))
            posterior.mean[level, link] = mean
            posterior.variance[level, link] = variance
    if with_widths:
        _refresh_widths(posterior, pool, counts, open_views, n_changed)
    return n_changed


@inner
def refresh_all_widths(
    posterior: RatePosterior, pool: PoolFit, counts: RateCounts, open_views: OpenLedger
) -> None:
    """Recompute the widths of all links, whose means and variances must be up to date."""
    n_links = len(posterior.width)
    for link in range(n_links):
        posterior.to_do[link] = link
    _refresh_widths(posterior, pool, counts, open_views, n_links)


@inner
def _rounds_to_come(posterior: RatePosterior, pool: PoolFit) -> float:
    """Return how many rounds may profit from a trial: as many as have passed, without a horizon.

    After the horizon there is none.
    """
    left = posterior.horizon - pool.clock[0]
    return left if left > 0.0 else pool.clock[0]


@inner
def _refresh_widths(
    posterior: RatePosterior,
    pool: PoolFit,
    counts: RateCounts,
    open_views: OpenLedger,
    n_listed: int,
) -> None:
    """Recompute the widths of the links in `to_do`, which are then no longer marked.

    Divisions and roots are computed in vectors.
    """
    links, grown, variance = posterior.to_do, posterior.buffers[0], posterior.buffers[1]
    for k in range(n_listed):
        mean = spread = 0.0
        for level in range(len(pool.rate) - 1, -1, -1):
            rate, uncertainty = posterior.mean[level, links[k]], posterior.variance[level, links[k]]
            mean, spread = before_level(mean, spread, posterior.worth[level], rate, uncertainty)
        variance[k] = spread
        grown[k] = counts.views[0, links[k]] + open_views.views[0, links[k]]
    margin, views = posterior.margin[0], _rounds_to_come(posterior, pool) * counts.n_slots
    for k in range(whole_vectors(n_listed)):
        gain = TRIAL_GAIN * margin / (margin + TRIAL_COST * math.sqrt(variance[k]) + 1e-300)
        grown[k] = 1.0 + views / (len(posterior.width) * (grown[k] + 1.0)) * gain
    for k in range(n_listed):
        posterior.width[links[k]] = posterior.exploration * math.log(grown[k])
        open_views.is_changed[links[k]] = False
