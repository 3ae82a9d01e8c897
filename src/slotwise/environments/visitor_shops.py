"""Simulated shops in which visitors differ: drawn from recipes, or made of links with one rate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotwise.environments.visitors import LogisticLinks, SegmentLinks
from slotwise.errors import InvalidInput
from slotwise.problem import is_finite_number

__all__ = ["feature_shop", "halfway_floor", "logistic_of", "segment_shop", "segments_of"]

Floats = NDArray[np.float64]

LEAST_RATE = 1e-6
"""Rates are taken to lie this far from 0 and 1, since those have no logit."""


def _sigmoid(logit: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-logit)))


def _logit(rate: ArrayLike) -> Floats:
    inside = np.clip(np.asarray(rate, np.float64), LEAST_RATE, 1.0 - LEAST_RATE)
    return np.asarray(np.log(inside / (1.0 - inside)))


def segment_shop(n_links: int, n_segments: int, seed: int = 4) -> SegmentLinks:
    """Return links with rates of their own in every segment, which is the one feature.

    click logit   = -2.6 + 0.8 z_link + 0.3 z_segment + 0.7 z_both
    revenue logit = -1.5 + z_link - 0.6 (ln click rate + 2.6) + 0.7 z_both
    """
    rng = np.random.default_rng(seed)
    of_link, of_segment = rng.normal(size=(n_links, 1)), rng.normal(size=(1, n_segments))
    of_both = rng.normal(size=(n_links, n_segments))
    clicks = _sigmoid(-2.6 + 0.8 * of_link + 0.3 * of_segment + 0.7 * of_both)
    of_link, of_both = rng.normal(size=(n_links, 1)), rng.normal(size=(n_links, n_segments))
    revenue = _sigmoid(-1.5 + of_link - 0.6 * (np.log(clicks) + 2.6) + 0.7 * of_both)
    return SegmentLinks(clicks.T, revenue.T, rng.dirichlet(np.full(n_segments, 1.5)))


def feature_shop(n_links: int, sizes: Sequence[int], effect: float, seed: int = 4) -> SegmentLinks:
    """Return links on which every feature has an additive effect in the logit, all kinds listed."""
    rng = np.random.default_rng(seed)
    kinds = np.array(list(product(*map(range, sizes))))
    each = effect / math.sqrt(len(sizes))
    clicks = np.tile(-2.6 + 0.8 * rng.normal(size=n_links), (len(kinds), 1))
    revenue = np.tile(-1.5 + rng.normal(size=n_links), (len(kinds), 1))
    shares = np.ones(len(kinds))
    for f, size in enumerate(sizes):
        on_clicks, on_revenue = each * rng.normal(size=(2, size, n_links))
        clicks += on_clicks[kinds[:, f]]
        revenue += (on_revenue - 0.6 * on_clicks)[kinds[:, f]]
        shares *= rng.dirichlet(np.full(size, 1.5))[kinds[:, f]]
    visitors = [{f"feature {f}": int(v) for f, v in enumerate(kind)} for kind in kinds]
    return SegmentLinks(_sigmoid(clicks), _sigmoid(revenue), shares, visitors)


def halfway_floor(links: SegmentLinks, n_slots: int) -> float:
    """Return the floor halfway from the clicks of the best page for all to the most clicks."""
    rates = links.rates(1)
    best_page = np.argsort(-rates[1])[:n_slots]
    return 0.5 * float(rates[0, best_page].sum() + np.sort(rates[0])[-n_slots:].sum())


def segments_of(
    click_rate: ArrayLike,
    revenue_per_click: ArrayLike,
    shares: Sequence[float],
    spread: float,
    seed: int,
    visitors: Sequence[Mapping[str, Any]] | None = None,
    slot_weights: Sequence[float] | None = None,
) -> SegmentLinks:
    """Return links whose rates differ between segments: logits move by `spread` times a normal.

    >>> segments_of([0.1, 0.2], [0.5, 0.5], [0.5, 0.5], spread=0.0, seed=1).rates(1)[0].round(6)
    array([0.1, 0.2])
    """
    _check_spread("spread", spread)
    rng = np.random.default_rng(seed)
    clicks, revenue = _logit(click_rate), _logit(revenue_per_click)
    moved = spread * rng.normal(size=(2, len(shares), len(clicks)))
    rates = _sigmoid(clicks + moved[0]), _sigmoid(revenue + moved[1])
    return SegmentLinks(*rates, shares, visitors, slot_weights)


def logistic_of(
    click_rate: ArrayLike,
    revenue_per_click: ArrayLike,
    sizes: Sequence[int],
    effect: float,
    seed: int,
    slot_weights: Sequence[float] | None = None,
) -> LogisticLinks:
    """Return links on which features of these numbers of values have additive effects.

    All features together move a logit by about `effect` times a normal; values are equally often.
    """
    _check_spread("effect", effect)
    rng = np.random.default_rng(seed)
    clicks, revenue = _logit(click_rate), _logit(revenue_per_click)
    each = effect / math.sqrt(max(1, len(sizes)))
    effects = [each * rng.normal(size=(2, size, len(clicks))) for size in sizes]
    return LogisticLinks(
        clicks,
        [of_value[0] for of_value in effects],
        revenue,
        [of_value[1] for of_value in effects],
        [np.full(size, 1.0 / size) for size in sizes],
        slot_weights,
    )


def _check_spread(name: str, spread: float) -> None:
    if not (is_finite_number(spread) and spread >= 0):
        raise InvalidInput.of(name, "a finite number that is at least 0", spread)
