"""What visitors do to links: a logistic model in which every effect is shrunk by its own fit.

    odds of an outcome on link i for visitor x  =  link_i * product over features f of
                                                   common_f(x_f) * effect_fi(x_f)

`link` is the link's own level, `common` what a value of a feature does to all links, `effect` what
it does to this link beyond that. Each is a ratio of outcomes seen to outcomes expected, shrunk
towards the level above it, the effects towards 1 and the links towards the pool:

    effect = (S + tau) / (E + tau),    E = sum of what was expected without the effect

tau = 1 / variance of the effects of this feature at this level of feedback, fitted while learning
from how far S is from E beyond chance: Var(S) = E + variance E^2. A feature that does not matter
gets a large tau and its effects stay at 1, so that it costs nothing. A link that no visitor of a
kind has seen starts from what is known of the link, and a link that nobody has seen from the pool.

At a stationary point S equals the sum of expected outcomes for every factor, which are the score
equations of logistic regression. Outcomes of the last level count in typical sales
(`knowledge.typical_sale`), so that revenue in another currency gives the same pages. Everything is
kept value by value in rows over the links, so that scoring all links for a visitor multiplies a few
contiguous rows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.compile import hot
from slotwise.policies.evidence import Evidence
from slotwise.policies.link_posterior import UNIT, note_sales, typical_sale
from slotwise.policies.policy import Floats, Links, Visitor
from slotwise.problem import Problem

FIRST_VARIANCE = 0.3
"""Variance of effects before anything is known: about a factor of e^0.55 either way."""
LINK_VARIANCE = 1.0
"""The same for links around the pool."""
COMMON_TAU = 5.0
"""Outcomes after which the common effect of a value has half its full weight."""
PRIOR = 0.25
"""What a view brings before one was seen, as one pseudo-view of the pool."""

VIEWS, OUTCOMES, FITTED_AT, RATE = range(4)


class VisitorEffects(NamedTuple):
    """What is known, in the first half, and what follows from it, in the second.

    Arrays are by level, then by value of a feature where they have that axis, then by link.
    `exposure` is the sum of views, each times all factors but the link's own level (`link_`) or but
    the link's level and this effect (`value_`). The last entry of `tau` is that of the links.
    `pool` has views and outcomes of all links, then the rounds and the rate at the last fit, and
    `sales` the typical sale. Sums and `pool` are in money, all that follows from them in sales.
    What follows for each value and link is in single precision: it is read, never added to, and a
    page for a visitor takes as long as reading it.
    """

    value_sums: Floats
    value_exposure: Floats
    link_exposure: Floats
    common_sums: Floats
    common_expected: Floats
    seen: Floats
    tau: Floats
    pool: Floats
    sales: Floats
    feature_of: NDArray[np.int64]
    exploration: float
    share: float
    link_level: Floats
    used_level: Floats
    link_bonus: Floats
    effect: NDArray[np.float32]
    value_bonus: NDArray[np.float32]
    seen_at: Floats
    rate: Floats
    bonus: Floats


KNOWN = (
    *("value_sums", "value_exposure", "link_exposure", "common_sums", "common_expected"),
    *("seen", "tau", "pool", "sales", "seen_at", "used_level"),
)
"""What of the effects is saved."""


def new_visitor_effects(problem: Problem, exploration: float) -> VisitorEffects:
    """Return effects of which nothing is known."""
    n_levels, n_links = problem.n_levels, problem.n_links
    feature_of = np.repeat(np.arange(len(problem.feature_sizes)), problem.feature_sizes)
    n_values = len(feature_of)
    tau = np.full((n_levels, len(problem.feature_sizes) + 1), 1.0 / FIRST_VARIANCE)
    tau[:, -1] = 1.0 / LINK_VARIANCE
    pool = np.zeros((n_levels, 4))
    pool[:, RATE] = PRIOR
    return VisitorEffects(
        value_sums=np.zeros((n_levels, n_values, n_links)),
        value_exposure=np.zeros((n_levels, n_values, n_links)),
        link_exposure=np.zeros((n_levels, n_links)),
        common_sums=np.zeros((n_levels, n_values)),
        common_expected=np.zeros((n_levels, n_values)),
        seen=np.zeros((n_levels, n_values)),
        tau=tau,
        pool=pool,
        sales=np.array([1.0, 0.0, 0.0]),
        feature_of=feature_of,
        exploration=exploration,
        share=problem.n_slots / n_links,
        link_level=np.zeros((n_levels, n_links)),
        used_level=np.zeros((n_levels, n_links)),
        link_bonus=np.zeros((n_levels, n_links)),
        effect=np.ones((n_levels, n_values, n_links), np.float32),
        value_bonus=np.zeros((n_levels, n_values, n_links), np.float32),
        seen_at=np.zeros((n_levels, n_values)),
        rate=np.zeros((n_levels, n_links)),
        bonus=np.zeros((n_levels, n_links)),
    )


def visitors_like_those_seen(
    pages: Floats, feature_of: Links, n_visitors: int
) -> NDArray[np.int64]:
    """Return visitors, a row each, in which every value is as frequent as in the pages seen.

    How features go together is not known: each is dealt out by itself, always in the same way.
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


@hot
def unit_of(effects: VisitorEffects, level: int) -> float:
    """Return what counts as one outcome of a level: at the last, the typical sale."""
    return effects.sales[UNIT] if 0 < level == len(effects.common_sums) - 1 else 1.0


@hot
def _log_above_one(ratio: float) -> float:
    return math.log(ratio) if ratio > 1.0 else 0.0


@hot
def set_link(effects: VisitorEffects, evidence: Evidence, level: int, link: int) -> None:
    """Set a link's own level and its bonus: the log of its fair share of views over its views."""
    tau = effects.tau[level, effects.tau.shape[1] - 1]
    prior_views = tau / effects.pool[level, RATE]
    exposure = effects.link_exposure[level, link] + prior_views
    outcomes = evidence.sums[level, link] / unit_of(effects, level)
    effects.link_level[level, link] = (outcomes + tau) / exposure
    n_shown = max(evidence.views[level, link], evidence.views[0, link])
    effects.link_bonus[level, link] = link_bonus(effects, level, n_shown)


@hot
def link_bonus(effects: VisitorEffects, level: int, n_shown: float) -> float:
    """Return the bonus of a link that was shown so often."""
    tau = effects.tau[level, effects.tau.shape[1] - 1]
    fair = effects.pool[level, FITTED_AT] * effects.share
    width = effects.exploration * _log_above_one(fair / (n_shown + 1.0))
    return width / (n_shown + tau / effects.pool[level, RATE])


@hot
def value_bonus(
    effects: VisitorEffects, level: int, value: int, exposure: float, used_level: float
) -> float:
    """Return the bonus for not being sure what a value does to a link seen so often with it."""
    tau = effects.tau[level, effects.feature_of[value]]
    fair = effects.seen_at[level, value] * effects.share
    width = effects.exploration * _log_above_one(fair / (exposure + 1.0))
    return width / (exposure * used_level + tau)


@hot
def set_value(effects: VisitorEffects, level: int, value: int, link: int) -> None:
    """Set what a value does to a link, and the bonus for not being sure of it."""
    tau = effects.tau[level, effects.feature_of[value]]
    exposure = effects.value_exposure[level, value, link]
    used_level = effects.used_level[level, link]
    expected = exposure * used_level + tau
    outcomes = effects.value_sums[level, value, link] / unit_of(effects, level)
    effects.effect[level, value, link] = (outcomes + tau) / expected
    if len(effects.value_bonus) > 0:  # a state that only learns has no room for bonuses
        bonus = value_bonus(effects, level, value, exposure, used_level)
        effects.value_bonus[level, value, link] = bonus


@hot
def refresh_effects(effects: VisitorEffects, evidence: Evidence, level: int) -> None:
    """Recompute all that follows from what is known."""
    for link in range(evidence.views.shape[1]):
        set_link(effects, evidence, level, link)
    for value in range(len(effects.feature_of)):
        for link in range(evidence.views.shape[1]):
            set_value(effects, level, value, link)


@hot
def common_effect(effects: VisitorEffects, level: int, value: int) -> float:
    """Return what a value does to all links."""
    seen = effects.common_sums[level, value] / unit_of(effects, level) + COMMON_TAU
    return seen / (effects.common_expected[level, value] + COMMON_TAU)


@hot
def score_level(effects: VisitorEffects, visitor: Visitor, level: int) -> None:
    """Write the rate of every link for a visitor, and the level of doubt, `bonus`, behind it."""
    score_links(effects, visitor, level, 0, effects.rate[level], effects.bonus[level])


@hot
def score_links(
    effects: VisitorEffects, visitor: Visitor, level: int, begin: int, rate: Floats, bonus: Floats
) -> None:
    """Write the rates and doubts of as many links as `rate` has places, from `begin` on.

    A rate p is plausible up to p + sqrt(2 p (1 - p) bonus): the doubt about the link, plus p times
    the doubts about each effect on it.
    """
    end = begin + len(rate)
    common = 1.0
    for k in range(len(visitor)):
        common *= common_effect(effects, level, visitor[k])
    own, doubt = effects.link_level[level, begin:end], effects.link_bonus[level, begin:end]
    for link in range(len(rate)):
        rate[link] = common * own[link]
        bonus[link] = 0.0
    for k in range(len(visitor)):
        row = effects.effect[level, visitor[k], begin:end]
        doubts = effects.value_bonus[level, visitor[k], begin:end]
        for link in range(len(rate)):
            rate[link] *= row[link]
            bonus[link] += doubts[link]
    for link in range(len(rate)):
        rate[link] /= 1.0 + rate[link]
        bonus[link] = doubt[link] + rate[link] * bonus[link]


WEIGHT_OF_FIRST = 10.0
"""Weight of the first guesses of variances in the fit, in squared expected outcomes."""
LEAST_VARIANCE, LEAST_LINK_VARIANCE = 1e-6, 1e-3
GRID = 1.1
"""Fits, and the rounds behind an exploration bonus, are renewed when rounds grow by 10 %."""
MOVED = 0.05
"""The effects of a link are recomputed when the link's own level has moved by 5 %."""


@hot
def _set_values(effects: VisitorEffects, level: int, link: int) -> None:
    effects.used_level[level, link] = effects.link_level[level, link]
    for value in range(len(effects.feature_of)):
        set_value(effects, level, value, link)


@hot
def _excess(seen: float, expected: float, variance: float) -> tuple[float, float]:
    """Return the parts of one effect in the fit of the variance, weighted by its precision."""
    spread = 1.0 + expected * variance
    weight = 1.0 / (spread * spread)
    miss = seen - expected
    return weight * (miss * miss - expected), weight * expected * expected


@hot
def _fit(effects: VisitorEffects, evidence: Evidence, level: int) -> None:
    """Fit the variance of the links, then that of the effects of every feature."""
    n_links = evidence.views.shape[1]
    last = effects.tau.shape[1] - 1
    pool = effects.pool[level]
    unit = unit_of(effects, level)
    pool[RATE] = (pool[OUTCOMES] / unit + PRIOR) / (pool[VIEWS] + 1.0)
    above, below = WEIGHT_OF_FIRST * LINK_VARIANCE, WEIGHT_OF_FIRST
    for link in range(n_links):
        expected = effects.link_exposure[level, link] * pool[RATE]
        more = _excess(evidence.sums[level, link] / unit, expected, 1.0 / effects.tau[level, last])
        above += more[0]
        below += more[1]
    effects.tau[level, last] = 1.0 / max(LEAST_LINK_VARIANCE, above / below)
    for link in range(n_links):
        set_link(effects, evidence, level, link)
        effects.used_level[level, link] = effects.link_level[level, link]
    for feature in range(last):
        variance = 1.0 / effects.tau[level, feature]
        above, below = WEIGHT_OF_FIRST * FIRST_VARIANCE, WEIGHT_OF_FIRST
        for value in range(len(effects.feature_of)):
            if effects.feature_of[value] == feature:
                for link in range(n_links):
                    exposure = effects.value_exposure[level, value, link]
                    expected = exposure * effects.used_level[level, link]
                    seen = effects.value_sums[level, value, link] / unit
                    more = _excess(seen, expected, variance)
                    above += more[0]
                    below += more[1]
        effects.tau[level, feature] = 1.0 / max(LEAST_VARIANCE, above / below)
    refresh_effects(effects, evidence, level)


@hot
def _refit_sale(effects: VisitorEffects, level: int) -> None:
    """Take the typical sale from all sales so far; what was expected is converted to it."""
    before = unit_of(effects, level)
    effects.sales[UNIT] = typical_sale(effects.sales, effects.pool[level, OUTCOMES])
    for value in range(len(effects.feature_of)):
        effects.common_expected[level, value] *= before / unit_of(effects, level)


@hot
def _odds(effects: VisitorEffects, visitor: Visitor, level: int, link: int) -> float:
    odds = effects.link_level[level, link]
    for k in range(len(visitor)):
        value = visitor[k]
        odds *= common_effect(effects, level, value) * effects.effect[level, value, link]
    return odds


@hot
def learn_effects(
    effects: VisitorEffects,
    evidence: Evidence,
    visitor: Visitor,
    level: int,
    links: Links,
    views: Floats,
    outcomes: Floats,
) -> None:
    """Take in what a visitor's page brought at a level; `evidence` has counted it already."""
    if level == len(effects.tau) - 1:
        note_sales(effects.sales, effects.pool[level, OUTCOMES] == 0.0, views, outcomes)
    n_views = 0.0
    for k in range(len(links)):
        n_views += views[k]
        effects.pool[level, OUTCOMES] += outcomes[k]
    effects.pool[level, VIEWS] += n_views
    n_pages = n_views / evidence.n_slots
    for j in range(len(visitor)):
        effects.seen[level, visitor[j]] += n_pages
    for k in range(len(links)):
        link = links[k]
        odds = _odds(effects, visitor, level, link)
        per_factor = views[k] / (1.0 + odds)
        effects.link_exposure[level, link] += per_factor * odds / effects.link_level[level, link]
        for j in range(len(visitor)):
            value = visitor[j]
            common = common_effect(effects, level, value)
            without = odds / effects.effect[level, value, link] / effects.link_level[level, link]
            effects.value_exposure[level, value, link] += per_factor * without
            effects.value_sums[level, value, link] += outcomes[k]
            effects.common_expected[level, value] += per_factor * odds / common
            effects.common_sums[level, value] += outcomes[k]
        for other in range(level, len(effects.tau) if level == 0 else level + 1):
            set_link(effects, evidence, other, link)  # its bonus depends on views of level 0
        used, now = effects.used_level[level, link], effects.link_level[level, link]
        if abs(now - used) > MOVED * used:
            _set_values(effects, level, link)
        else:
            for j in range(len(visitor)):
                set_value(effects, level, visitor[j], link)
    if evidence.rounds[level] + 1.0 >= GRID * effects.pool[level, FITTED_AT]:
        effects.pool[level, FITTED_AT] = evidence.rounds[level] + 1.0
        for value in range(len(effects.feature_of)):
            effects.seen_at[level, value] = effects.seen[level, value]
        if level == len(effects.tau) - 1:
            _refit_sale(effects, level)
        _fit(effects, evidence, level)
