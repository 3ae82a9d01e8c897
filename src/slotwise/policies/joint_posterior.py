"""One optimistic score per link: a bound on its value under the joint posterior of all levels.

The outcome of a link at level j, given that it passed level j - 1, has a Beta posterior with mean
m_j and variance v_j. A unit of level j is worth y_j: its reward plus the price of its floor. The
value of a view of a link is nested, so its mean and variance follow from the last level back:

    X_j = theta_j (y_j + X_(j+1)),   X_(n+1) = 0
    E X_j   = m_j (y_j + E X_(j+1))
    Var X_j = v_j (Var X_(j+1) + (y_j + E X_(j+1))^2) + m_j^2 Var X_(j+1)
    score   = E + sqrt(2 w Var) + (2/3) w Var / E
    w       = c ln(1 + 7 t L / (K N) * D / (D + 2 sqrt(Var)))

The bound is Bernstein's, at the posterior's variance: a sum of one bound per level would count the
uncertainty of the click twice. t L / K is a link's share of the views so far, and N are its own.
Where a horizon T is known, t is replaced by the T - t rounds to come. Late outcomes: the mean is
that of the settled views. Open views count in the variance and in N: otherwise the same uncertain
links would fill every page until the first feedback arrives.

D is the margin of a link on the page over one not on it: the mean value of the L best links less
that of the next L. One more trial of a link costs about sqrt(Var), and can earn D in every later
page view. Where hundreds of links are worth nearly the same, as they are at the price of an
expensive floor, few deserve a long trial. While not even the best page by the posterior means keeps
the floor, D is unbounded: better links must be found, however close the known ones are to each
other. D and the price in this Var are those of the last refit.

The prior of a level is one Beta for the whole pool. Its smaller parameter is 1, which makes the
rarer outcome's rate about exponential: links several times better than the rest remain likely. Its
mean is that of the links' own rates, each with the weight n / (n + 100) of its n views at the first
level and n / (n + 3) of its n clicks at the second. With a mean over all clicks of the pool, links
that are often clicked and never sell would lower the expected revenue of a click on any other link.
Where levels settle one after the other, the trials at a level are its settled views times the rate
at which they passed the level before. Revenue is counted in typical sales (`typical_sale`). Used by
`paced_bayes`, `paced_bayes_visitors`, `visitor_pages` and `visitor_regression`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.compile import inner, int64
from slotwise.policies.evidence import Evidence
from slotwise.policies.link_posterior import (
    SALES,
    UNIT,
    Change,
    has_changed,
    has_drifted,
    new_change,
    note_sales,
    recent_sum,
    recent_views,
    typical_sale,
)
from slotwise.policies.policy import Floats, Links
from slotwise.problem import Problem
from slotwise.selection.page_search import Entries, Objective, Search
from slotwise.selection.passes import list_marked, total_of_products, whole_vectors
from slotwise.selection.top_page import top_page

SHAPE = 1.0
"""The smaller parameter of a prior."""

HALF_WEIGHT, HALF_WEIGHT_LATER = 100.0, 3.0
"""Views, and trials at later levels, after which a link has half its full weight in the mean."""

PSEUDO_LINK = 0.1
"""Weight of a pseudo-link that passes every level with probability 1/2: the initial guess."""

LARGEST_PRIOR = 0.999

REFIT_GROWTH = 1.02
"""A level is refitted, and all links are recomputed, when its rounds have grown by 2 %."""

TRIAL_GAIN, TRIAL_COST = 7.0, 2.0
"""Factors of the possible gain and of the cost of a trial, which set the length of trials."""


class JointPosterior(NamedTuple):
    """Means and variances per level and link, and the inputs of their computation.

    `pool` has the mean of each level's prior times those of the levels before, and `clock` the
    rounds by which it was fitted; `worth` what a unit of each level was worth then, and `margin`
    what a link on the page was worth more than one not on it. `sales` are the typical sale by then,
    and the sums of outcomes and of their squares at the last level, of feedback received view by
    view. `change` has the discarded part of the counts; only the pool's means contain it.
    `is_stale` marks links whose counts have changed; `to_do` and `buffers` are for them.
    """

    mean: Floats
    variance: Floats
    width: Floats
    is_stale: NDArray[np.bool_]
    to_do: Links
    buffers: Floats
    pool: Floats
    clock: Floats
    sales: Floats
    worth: Floats
    margin: Floats
    change: Change
    exploration: float
    horizon: float


def new_joint_posterior(
    problem: Problem, exploration: float, horizon: int | None = None
) -> JointPosterior:
    """Return the posterior of a pool without any feedback."""
    shape = (problem.n_levels, problem.n_links)
    return JointPosterior(
        mean=np.zeros(shape),
        variance=np.zeros(shape),
        width=np.zeros(problem.n_links),
        is_stale=np.ones(problem.n_links, np.bool_),
        to_do=np.zeros(problem.n_links + 1, np.int64),
        buffers=np.zeros((2, whole_vectors(problem.n_links))),
        pool=0.5 ** np.arange(1.0, problem.n_levels + 1.0),
        clock=np.ones(problem.n_levels),
        sales=np.array([1.0, 0.0, 0.0]),
        worth=np.ones(problem.n_levels),
        margin=np.ones(1),
        change=new_change(problem),
        exploration=exploration,
        horizon=float(horizon or 0),
    )


@inner
def sum_in_order(numbers: Floats) -> float:
    """Return the sum of numbers, added strictly from the first to the last, unlike numpy."""
    total = 0.0
    for number in numbers:
        total += number
    return total


@inner
def note_outcomes(
    posterior: JointPosterior,
    evidence: Evidence,
    level: int,
    links: Links,
    views: Floats,
    outcomes: Floats,
) -> None:
    """Record that links are about to be counted; a batch does not reveal the size of a sale."""
    for k in range(len(links)):
        posterior.is_stale[links[k]] = True
    if level == len(posterior.pool) - 1:
        is_first = posterior.sales[SALES] == 0.0 and sum_in_order(evidence.sums[level]) == 0.0
        note_sales(posterior.sales, is_first, views, outcomes)


@inner
def notice_change(
    posterior: JointPosterior, evidence: Evidence, links: Links, views: Floats, clicks: Floats
) -> bool:
    """Compare clicks about to be counted with those expected; return whether the links changed.

    Expected clicks of a link are its past rate, shrunk to 0: a new link has no influence.
    """
    prior = prior_mean(posterior, 0)
    strength = SHAPE / min(prior, 1.0 - prior)
    expected = likely = n_clicks = n_views = 0.0
    for k in range(len(links)):
        trials = recent_views(posterior.change, evidence, int64(0), links[k])
        hits = recent_sum(posterior.change, evidence, 0, links[k])
        expected += views[k] * hits / (trials + strength)
        likely += views[k] * (hits + SHAPE) / (trials + strength)
        n_clicks += clicks[k]
        n_views += views[k]
    n_pages = max(1e-300, n_views / evidence.n_slots)
    if has_changed(posterior.change, evidence, expected, n_clicks, n_pages):
        return True
    return has_drifted(posterior.change, evidence, expected, likely, n_clicks, n_pages)


@inner
def refit_level(posterior: JointPosterior, evidence: Evidence, level: int) -> bool:
    """Refit the pool's means from a level on, and the typical sale; return whether it was due.

    The settled outcomes of a level are the trials of the next one, so that is refitted, too.
    """
    rounds = evidence.rounds[level] + 1.0
    if rounds < REFIT_GROWTH * posterior.clock[level]:
        return False
    posterior.clock[level] = rounds
    posterior.is_stale[:] = True
    if level == len(posterior.pool) - 1:
        total = sum_in_order(evidence.sums[level])
        posterior.sales[UNIT] = typical_sale(posterior.sales, total)
    mean = posterior.pool[level - 1] if level > 0 else 1.0
    for later in range(level, len(posterior.pool)):
        mean *= _mean_rate(posterior, evidence, later)
        posterior.pool[later] = mean
    return True


@inner
def _mean_rate(posterior: JointPosterior, evidence: Evidence, level: int) -> float:
    """Return the mean over links of the outcome of a trial at a level."""
    unit = posterior.sales[UNIT] if level == len(posterior.pool) - 1 else 1.0
    total, weighted = PSEUDO_LINK, PSEUDO_LINK * 0.5 * unit
    for link in range(len(posterior.width)):
        trials, outcomes = evidence.views[level, link], evidence.sums[level, link]
        weight = 1.0 / (trials + HALF_WEIGHT)
        if level > 0:
            passed = evidence.sums[level - 1, link] / max(evidence.views[level - 1, link], 1e-300)
            trials = max(trials * passed, outcomes / unit)
            weight = 1.0 / (trials + HALF_WEIGHT_LATER)
        total += weight * trials
        weighted += weight * outcomes
    return weighted / total


@inner
def prior_mean(posterior: JointPosterior, level: int) -> float:
    """Return the mean of a level's prior, at the last level in units of the typical sale."""
    mean = posterior.pool[level]
    if level > 0:
        mean /= posterior.pool[level - 1]
    if level == len(posterior.pool) - 1:
        mean /= posterior.sales[UNIT]
    return min(mean, LARGEST_PRIOR)


@inner
def refresh_posteriors(posterior: JointPosterior, evidence: Evidence, with_widths: bool) -> int:
    """Recompute the posteriors that are stale; return how many links `to_do` lists.

    Without widths, the links stay stale.
    """
    n_stale = list_marked(posterior.is_stale, posterior.to_do)
    for level in range(len(posterior.pool)):
        prior = prior_mean(posterior, level)
        strength = SHAPE / min(prior, 1.0 - prior)
        unit = posterior.sales[UNIT] if level == len(posterior.pool) - 1 else 1.0
        for k in range(n_stale):
            _refresh_rate(posterior, evidence, level, posterior.to_do[k], prior, strength, unit)
    if with_widths:
        _refresh_widths(posterior, evidence, n_stale)
    return n_stale


@inner
def before_level(
    mean: float, variance: float, worth: float, rate: float, uncertainty: float
) -> tuple[float, float]:
    """Return mean and variance of X_j from those of X_(j+1), with the value and rate of level j."""
    beyond = worth + mean
    return rate * beyond, uncertainty * (variance + beyond * beyond) + rate * rate * variance


@inner
def _rounds_to_come(posterior: JointPosterior) -> float:
    """Return how many rounds may profit from a trial: as many as have passed, without a horizon.

    After the horizon there is none.
    """
    left = posterior.horizon - posterior.clock[0]
    return left if left > 0.0 else posterior.clock[0]


@inner
def _refresh_widths(posterior: JointPosterior, evidence: Evidence, n_listed: int) -> None:
    """Recompute the widths of the bounds of the links in `to_do`, which are then not stale.

    Divisions and roots are computed in vectors.
    """
    links, grown, variance = posterior.to_do, posterior.buffers[0], posterior.buffers[1]
    for k in range(n_listed):
        mean = spread = 0.0
        for level in range(len(posterior.pool) - 1, -1, -1):
            rate, uncertainty = posterior.mean[level, links[k]], posterior.variance[level, links[k]]
            mean, spread = before_level(mean, spread, posterior.worth[level], rate, uncertainty)
        variance[k] = spread
        grown[k] = recent_views(posterior.change, evidence, int64(0), links[k])
        grown[k] += evidence.open_views[0, links[k]]
    margin, views = posterior.margin[0], _rounds_to_come(posterior) * evidence.n_slots
    for k in range(whole_vectors(n_listed)):
        gain = TRIAL_GAIN * margin / (margin + TRIAL_COST * math.sqrt(variance[k]) + 1e-300)
        grown[k] = 1.0 + views / (len(posterior.width) * (grown[k] + 1.0)) * gain
    for k in range(n_listed):
        posterior.width[links[k]] = posterior.exploration * math.log(grown[k])
        posterior.is_stale[links[k]] = False


@inner
def _open_trials(posterior: JointPosterior, evidence: Evidence, level: int, link: int) -> float:
    """Return the expected number of trials at a level of a link's open views."""
    trials = evidence.open_views[0, link]
    for earlier in range(level):
        trials *= posterior.mean[earlier, link]
    return trials


@inner
def open_debt(
    posterior: JointPosterior, evidence: Evidence, level: int, least: float, buffer: Floats
) -> float:
    """Return the expected shortfall of the open pages from `least` outcomes of a level per page."""
    opened = evidence.open_views[level]
    if level > 0:
        for link in range(len(buffer)):
            buffer[link] = opened[link] * posterior.mean[0, link]
        for earlier in range(1, level):
            for link in range(len(buffer)):
                buffer[link] *= posterior.mean[earlier, link]
        opened = buffer
    return least * evidence.open_pages[level] - total_of_products(opened, posterior.mean[level])


@inner
def _refresh_rate(
    posterior: JointPosterior,
    evidence: Evidence,
    level: int,
    link: int,
    prior: float,
    strength: float,
    unit: float,
) -> None:
    """Recompute mean and variance of a link at a level.

    A trial at a level is a view that passed the level before; `settled` are those with a known
    outcome.
    """
    change = posterior.change
    settled = trials = recent_views(change, evidence, level, link)
    if level > 0:
        trials = recent_sum(change, evidence, level - 1, link)
        n_views = recent_views(change, evidence, level - 1, link)
        if n_views > 0.0:
            settled *= trials / n_views
        trials = max(settled, trials)
    trials += _open_trials(posterior, evidence, level, link)
    hits = min(recent_sum(change, evidence, level, link) / unit, settled)
    mean = (hits + strength * prior) / (settled + strength)
    posterior.mean[level, link] = mean
    posterior.variance[level, link] = mean * (1.0 - mean) / (trials + strength + 1.0)


@inner
def note_worth(posterior: JointPosterior, evidence: Evidence, worth: Floats, margin: float) -> None:
    """Record the value of each level and the margin of the page; recompute all widths."""
    for level in range(len(worth)):
        posterior.worth[level] = worth[level]
    posterior.margin[0] = margin
    n_links = len(posterior.width)
    for link in range(n_links):
        posterior.to_do[link] = link
    _refresh_widths(posterior, evidence, n_links)


SCORED = int64(512)
"""Links that are scored in one block."""


@inner
def reward_in_sales(posterior: JointPosterior, rewards: Floats, level: int) -> float:
    """Return the reward of a unit of a level, in units of the typical sale."""
    if level == len(rewards) - 1:
        return rewards[level]
    return rewards[level] / posterior.sales[UNIT]


@inner
def outcome_worth(posterior: JointPosterior, rewards: Floats, level: int) -> float:
    """Return the average revenue for each outcome of a level, with that of all other levels.

    Rewards of earlier levels count for all of their outcomes that it takes to have one here: with
    rewards for clicks alone, a cart would otherwise be worth nothing, and so would its floor.
    """
    worth = earlier = 0.0
    for later in range(len(rewards) - 1, level, -1):
        worth = prior_mean(posterior, later) * (reward_in_sales(posterior, rewards, later) + worth)
    for before in range(level):
        earlier += reward_in_sales(posterior, rewards, before)
        earlier /= prior_mean(posterior, before + 1)
    return reward_in_sales(posterior, rewards, level) + worth + earlier


@inner
def mean_worth(
    posterior: JointPosterior, worth: Floats, level: int, value: Floats, brought: Floats
) -> None:
    """Write the mean value of a view of each link, and its mean outcome of a level."""
    n_levels = len(worth)
    for link in range(len(value)):
        mean = 0.0
        for later in range(n_levels - 1, -1, -1):
            mean = posterior.mean[later, link] * (worth[later] + mean)
        value[link] = mean
        brought[link] = 1.0
        for earlier in range(level + 1):
            brought[link] *= posterior.mean[earlier, link]


@inner
def margin_of_page(value: Floats, n_slots: int, search: Search) -> float:
    """Return the mean of the `n_slots` largest values less that of as many that follow."""
    n_links = len(value)
    n_others = min(n_slots, n_links - n_slots)
    if n_others == 0:
        return 0.0
    entries, by_value = Entries(value, value, n_links), Objective(1.0, 0.0)
    page, _ = top_page(entries, n_slots, by_value, search)
    both, _ = top_page(entries, n_slots + n_others, by_value, search)
    return max(0.0, page / n_slots - (both - page) / n_others)


@inner
def score_jointly(posterior: JointPosterior, worth: Floats, score: Floats, buffer: Floats) -> None:
    """Write each link's bound on the value of a view; `worth` has the value of each level.

    Blocks of links fit into the first-level cache, and the loops over them have no branches, so
    that they are vectorised. Two levels take a single loop.
    """
    if len(worth) == 2:
        means, variances = posterior.mean, posterior.variance
        for k in range(len(score)):
            last = before_level(0.0, 0.0, worth[1], means[1, k], variances[1, k])
            mean, variance = before_level(*last, worth[0], means[0, k], variances[0, k])
            score[k] = _bound(mean, posterior.width[k] * variance)
        return
    for begin in range(int64(0), len(score), SCORED):
        end = min(begin + SCORED, len(score))
        means, variances, width = (
            score[begin:end],
            buffer[: end - begin],
            posterior.width[begin:end],
        )
        for k in range(len(means)):
            means[k] = 0.0
            variances[k] = 0.0
        for level in range(len(worth) - 1, -1, -1):
            own = worth[level]
            rates = posterior.mean[level, begin:end]
            uncertainties = posterior.variance[level, begin:end]
            for k in range(len(means)):
                means[k], variances[k] = before_level(
                    means[k], variances[k], own, rates[k], uncertainties[k]
                )
        for k in range(len(means)):
            means[k] = _bound(means[k], width[k] * variances[k])


@inner
def _bound(mean: float, spread: float) -> float:
    """Return the bound on a value with this mean; `spread` is its variance times its width."""
    return mean + math.sqrt(2.0 * spread) + spread / (1.5 * mean + 1e-300)


@inner
def score_link_jointly(posterior: JointPosterior, worth: Floats, link: int) -> float:
    """Return what `score_jointly` writes for one link."""
    mean = variance = 0.0
    for level in range(len(worth) - 1, -1, -1):
        rate, uncertainty = posterior.mean[level, link], posterior.variance[level, link]
        mean, variance = before_level(mean, variance, worth[level], rate, uncertainty)
    return _bound(mean, posterior.width[link] * variance)


@inner
def score_boosted(
    posterior: JointPosterior, worth: Floats, rewards: Floats, boost: Floats, score: Floats
) -> None:
    """Write the scores of links whose rewards are multiplied by `boost`, where that is not 1.

    A boost multiplies the reward of a link, not the value of its clicks for the floors.
    """
    for link in range(len(score)):
        more = boost[link] - 1.0
        if more <= 0.0:
            continue
        mean = variance = 0.0
        for level in range(len(worth) - 1, -1, -1):
            own = worth[level] + more * reward_in_sales(posterior, rewards, level)
            rate, uncertainty = posterior.mean[level, link], posterior.variance[level, link]
            mean, variance = before_level(mean, variance, own, rate, uncertainty)
        score[link] = _bound(mean, posterior.width[link] * variance)


@inner
def largest_growth(worth: Floats, before: Floats) -> float:
    """Return an upper bound of the growth of any bound since levels had the values `before`.

    If each worth has grown by a factor in [low, high], low <= 1 <= high, so has the mean of a link;
    its variance has grown by at most high^2, and variance / mean by high^2 / low.
    """
    low = high = 1.0
    for level in range(len(worth)):
        if worth[level] != before[level]:
            if min(worth[level], before[level]) <= 0.0:
                return math.inf
            low = min(low, worth[level] / before[level])
            high = max(high, worth[level] / before[level])
    return high * high / low
