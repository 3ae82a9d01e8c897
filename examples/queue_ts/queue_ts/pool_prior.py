"""The prior of a pool, fitted to the counts of its links, for policies that sample.

    p_i = hits / trials,   weight_i = n_i / (n_i + 10),   noise_i = p_i (1 - p_i) / (n_i - 1)
    mean = sum w p / sum w,   variance = sum w p^2 / sum w - mean^2 - sum w noise / sum w
    prior Beta(a, b) of this mean and variance, the smaller of a and b kept within [1/2, 2]

Data collected by a policy are not a random sample: good links are shown often, and links that had
bad luck have few views. Three measures prevent the fit from confirming itself:

- a link has more weight the more views it has, so bad luck with few views counts little; the
  good links, shown most, count most, so the prior mean is rather too high than too low
- the spread is never less than 1 / sqrt(2) of the mean (of its distance to 1, where that is
  nearer): a narrower prior would permanently exclude links that are better than the rest
- a tenth of a pseudo-link from the uniform prior is always included

The prior is a function of the counts alone, rounded to steps of 10 % so that it moves seldom; sums
over the pool are kept up to date by the links that change.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from queue_ts.posterior import Posterior
from slotwise.compile import hot
from slotwise.policies.policy import Floats
from slotwise.problem import Problem

HALF_TRUSTED = 10.0
"""Trials after which a link has half its full weight."""

LEAST_SHAPE, MOST_SHAPE = 0.5, 2.0
STEP = 0.1
PSEUDO_LINK = 0.1
"""Weight of a pseudo-link in the prior, whose mean is 1/2 and mean square 1/3."""

WEIGHT, FIRST, SECOND, NOISE = range(4)


class PoolPrior(NamedTuple):
    """Sums over the pool for each level, and each link's part of them."""

    is_fitted: bool
    parts: Floats
    totals: Floats


def new_pool_prior(problem: Problem, prior: str) -> PoolPrior:
    """Return the sums of a pool without observations."""
    return PoolPrior(
        is_fitted=prior == "fitted",
        parts=np.zeros((4, problem.n_levels, problem.n_links)),
        totals=np.zeros((4, problem.n_levels)),
    )


@hot
def _put(pool: PoolPrior, kind: int, level: int, link: int, part: float) -> None:
    pool.totals[kind, level] += part - pool.parts[kind, level, link]
    pool.parts[kind, level, link] = part


@hot
def count_link(pool: PoolPrior, level: int, link: int, trials: float, hits: float) -> None:
    """Update a link's part of the sums; a link with less than two trials has none."""
    weight = rate = noise = 0.0
    if trials >= 2.0:
        weight = trials / (trials + HALF_TRUSTED)
        rate = hits / trials
        noise = rate * (1.0 - rate) / (trials - 1.0)
    _put(pool, WEIGHT, level, link, weight)
    _put(pool, FIRST, level, link, weight * rate)
    _put(pool, SECOND, level, link, weight * rate * rate)
    _put(pool, NOISE, level, link, weight * noise)


@hot
def _rounded(number: float) -> float:
    return math.exp(STEP * math.floor(math.log(number) / STEP + 0.5))


@hot
def fit_prior(pool: PoolPrior, posterior: Posterior) -> bool:
    """Fit the priors of all levels; return whether any of them moved."""
    has_moved = False
    for level in range(len(posterior.prior_hits)):
        total = pool.totals[WEIGHT, level] + PSEUDO_LINK
        mean = (pool.totals[FIRST, level] + PSEUDO_LINK / 2.0) / total
        second = (
            pool.totals[SECOND, level] - pool.totals[NOISE, level] + PSEUDO_LINK / 3.0
        ) / total
        variance = max(second - mean * mean, 1e-12)
        rarer = min(mean, 1.0 - mean)
        shape = rarer * max(0.0, mean * (1.0 - mean) / variance - 1.0)
        shape = _rounded(min(MOST_SHAPE, max(LEAST_SHAPE, shape)))
        rarer = _rounded(rarer)
        hits = shape
        misses = shape * (1.0 - rarer) / rarer
        if mean > 0.5:
            hits, misses = misses, hits
        if hits != posterior.prior_hits[level] or misses != posterior.prior_misses[level]:
            posterior.prior_hits[level] = hits
            posterior.prior_misses[level] = misses
            has_moved = True
    return has_moved
