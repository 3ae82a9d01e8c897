"""What showing a link is worth under its joint posterior: on average, and at most."""

from __future__ import annotations

import math

from slotwise.policies.contract import Floats
from slotwise.policies.knowledge.joint_posterior import JointPosterior, before_level, prior_mean
from slotwise.policies.knowledge.typical_sale import UNIT
from slotwise.selection.compiled import inner, int64
from slotwise.selection.page_search.page_scratch import Search
from slotwise.selection.top_page import top_page

__all__ = [
    "largest_growth",
    "margin_of_page",
    "mean_worth",
    "outcome_worth",
    "reward_in_sales",
    "score_jointly",
    "score_link_jointly",
]

SCORED = int64(512)
"""Links that are scored together."""


@inner
def reward_in_sales(posterior: JointPosterior, rewards: Floats, level: int) -> float:
    """Return the reward of a unit of a level, in units of the typical sale."""
    if level == len(rewards) - 1:
        return rewards[level]
    return rewards[level] / posterior.sales[UNIT]


@inner
def outcome_worth(posterior: JointPosterior, rewards: Floats, level: int) -> float:
    """Return what an outcome of a level earns on average: its reward and what follows it."""
    worth = 0.0
    for later in range(len(rewards) - 1, level, -1):
        worth = prior_mean(posterior, later) * (reward_in_sales(posterior, rewards, later) + worth)
    return reward_in_sales(posterior, rewards, level) + worth


@inner
def mean_worth(
    posterior: JointPosterior, worth: Floats, level: int, value: Floats, brought: Floats
) -> None:
    """Write what showing each link is worth on average, and what it brings of a level."""
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
    page, _ = top_page(value, value, n_links, n_slots, 1.0, 0.0, search)
    both, _ = top_page(value, value, n_links, n_slots + n_others, 1.0, 0.0, search)
    return max(0.0, page / n_slots - (both - page) / n_others)


@inner
def score_jointly(posterior: JointPosterior, worth: Floats, score: Floats, scratch: Floats) -> None:
    """Write each link's bound on what showing it is worth, `worth` being that of each level.

    Blocks of links stay in the processor's first cache, and the loops over them have no branches,
    so that they run in vectors.
    """
    for begin in range(int64(0), len(score), SCORED):
        end = min(begin + SCORED, len(score))
        means, variances, width = (
            score[begin:end],
            scratch[: end - begin],
            posterior.width[begin:end],
        )
        for k in range(len(means)):
            means[k] = 0.0
            variances[k] = 0.0
        for level in range(len(worth) - 1, 0, -1):
            own = worth[level]
            rates = posterior.mean[level, begin:end]
            uncertainties = posterior.variance[level, begin:end]
            for k in range(len(means)):
                means[k], variances[k] = before_level(
                    means[k], variances[k], own, rates[k], uncertainties[k]
                )
        own, rates, uncertainties = (
            worth[0],
            posterior.mean[0, begin:end],
            posterior.variance[0, begin:end],
        )
        for k in range(len(means)):
            mean, variance = before_level(means[k], variances[k], own, rates[k], uncertainties[k])
            means[k] = _bound(mean, width[k] * variance)


@inner
def _bound(mean: float, spread: float) -> float:
    """Return the bound on a worth of this mean, `spread` being its variance times its width."""
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
def largest_growth(worth: Floats, before: Floats) -> float:
    """Return a factor by which no bound has grown since levels were worth what they were before.

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
