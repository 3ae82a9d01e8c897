"""One optimistic score per link: a bound on the value of a view under the posterior of all levels.

The outcome of a link at level j, given that it passed level j - 1, has a posterior with mean m_j
and variance v_j; at the last level it is revenue, the probability of a sale times its amount. A
unit of level j is worth y_j: its reward plus the prices of its floors. The value of a view is
nested, so its mean and variance follow from the last level back:

    X_j = theta_j (y_j + X_(j+1)),   X_(n+1) = 0
    E X_j   = m_j (y_j + E X_(j+1))
    Var X_j = v_j (Var X_(j+1) + (y_j + E X_(j+1))^2) + m_j^2 Var X_(j+1)
    score   = E + sqrt(2 w Var) + (2/3) w Var / E

The bound is Bernstein's, at the posterior's variance: a sum of one bound per level would count the
uncertainty of the click twice. `link_rates` and `visitor_rates` write means, variances and the
widths w. Used by `link_rates`, `paced_bayes` and `visitor_rates`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from slotwise.arrays import Floats, Links
from slotwise.compile import inner, int64
from slotwise.problem import Problem
from slotwise.selection.page_search import Entries, Objective, Search
from slotwise.selection.passes import total_of_products, whole_vectors
from slotwise.selection.top_page import top_page

SCORED = int64(512)
"""Links that are scored in one block."""


class RatePosterior(NamedTuple):
    """Mean and variance of each level and link for one visitor, and the width of each bound.

    The last level is in units of the pool's mean sale. `worth` is the value of a unit of each level
    when prices were last computed, and `margin` what a link on the page was worth more than one not
    on it; both enter the widths. `to_do` and `buffers` are for the links that are recomputed.
    """

    mean: Floats
    variance: Floats
    width: Floats
    worth: Floats
    margin: Floats
    to_do: Links
    buffers: Floats
    exploration: float
    horizon: float


def new_posterior(problem: Problem, exploration: float, horizon: int | None) -> RatePosterior:
    """Return a posterior that is not computed yet."""
    shape = (problem.n_levels, problem.n_links)
    return RatePosterior(
        mean=np.zeros(shape),
        variance=np.zeros(shape),
        width=np.zeros(problem.n_links),
        worth=np.ones(problem.n_levels),
        margin=np.ones(1),
        to_do=np.zeros(problem.n_links + 1, np.int64),
        buffers=np.zeros((2, whole_vectors(problem.n_links))),
        exploration=exploration,
        horizon=float(horizon or 0),
    )


@inner
def before_level(
    mean: float, variance: float, worth: float, rate: float, uncertainty: float
) -> tuple[float, float]:
    """Return mean and variance of X_j from those of X_(j+1), with the value and rate of level j."""
    beyond = worth + mean
    return rate * beyond, uncertainty * (variance + beyond * beyond) + rate * rate * variance


@inner
def mean_worth(
    posterior: RatePosterior, worth: Floats, level: int, value: Floats, brought: Floats
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
def expected_outcomes(posterior: RatePosterior, level: int, views: Floats, buffer: Floats) -> float:
    """Return the expected outcomes at a level of views of the links, for this visitor."""
    for link in range(len(views) if level > 0 else 0):
        buffer[link] = views[link] * posterior.mean[0, link]
        for earlier in range(1, level):
            buffer[link] *= posterior.mean[earlier, link]
    reached = buffer if level > 0 else views
    return total_of_products(reached, posterior.mean[level])


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
def score_links(posterior: RatePosterior, worth: Floats, score: Floats, buffer: Floats) -> None:
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
def score_link(posterior: RatePosterior, worth: Floats, link: int) -> float:
    """Return what `score_links` writes for one link."""
    mean = variance = 0.0
    for level in range(len(worth) - 1, -1, -1):
        rate, uncertainty = posterior.mean[level, link], posterior.variance[level, link]
        mean, variance = before_level(mean, variance, worth[level], rate, uncertainty)
    return _bound(mean, posterior.width[link] * variance)


@inner
def score_boosted(
    posterior: RatePosterior, worth: Floats, rewards: Floats, boost: Floats, score: Floats
) -> None:
    """Write the scores of links whose rewards are multiplied by `boost`, where that is not 1.

    A boost multiplies the reward of a link, not the value of its clicks for the floors. `rewards`
    are those of each level in the units of `worth`.
    """
    for link in range(len(score)):
        more = boost[link] - 1.0
        if more <= 0.0:
            continue
        mean = variance = 0.0
        for level in range(len(worth) - 1, -1, -1):
            own = worth[level] + more * rewards[level]
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
