"""Simulated shops whose visitors differ, and a floor for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from slotwise import SegmentLinks


def _sigmoid(logit: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(1.0 / (1.0 + np.exp(-logit)))


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
