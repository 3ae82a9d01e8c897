"""Learn what visitors do to links: sums of what came and was expected, and fitted variances."""

from __future__ import annotations

from slotwise.policies.contract import Floats, Links, Visitor
from slotwise.policies.knowledge.evidence import Evidence
from slotwise.policies.knowledge.typical_sale import UNIT, note_sales, typical_sale
from slotwise.policies.knowledge.visitor_effects import (
    FIRST_VARIANCE,
    FITTED_AT,
    LINK_VARIANCE,
    OUTCOMES,
    PRIOR,
    RATE,
    VIEWS,
    VisitorEffects,
    common_effect,
    refresh_effects,
    set_link,
    set_value,
    unit_of,
)
from slotwise.selection.compiled import hot

__all__ = ["learn_effects"]

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
    weight = 1.0 / (1.0 + expected * variance) ** 2
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
