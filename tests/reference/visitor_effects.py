"""The effects of visitors on links, the slow way: loops over plain formulas, step by step.

Every function takes the arrays of a state before a step, by name, and says what they are after it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

Arrays = Mapping[str, Any]


def unit(a: Arrays, level: int) -> float:
    """Return the size of an outcome: 1, or that of the typical sale."""
    return float(a["sales"][0]) if level == 1 else 1.0


def common(a: Arrays, level: int, v: int) -> float:
    """Return what a value does to all links."""
    seen = a["common_sums"][level, v] / unit(a, level)
    return float((seen + 5) / (a["common_expected"][level, v] + 5))


def rate(a: Arrays, visitor: list[int], level: int, i: int) -> float:
    """Return the rate of a link for a visitor: its odds are a product."""
    odds = a["link_level"][level, i]
    for v in visitor:
        odds *= common(a, level, v) * float(a["effect"][level, v, i])
    return float(odds / (1 + odds))


def upper_bounds(a: Arrays, visitor: list[int], level: int) -> list[float]:
    """Return the optimistic rate of every link for a visitor."""
    bounds = []
    for i in range(a["link_level"].shape[1]):
        p = rate(a, visitor, level, i)
        doubts = [float(a["value_bonus"][level, v, i]) for v in visitor]
        d = a["link_bonus"][level, i] + p * sum(doubts)
        bounds.append(min(1, p + math.sqrt(2 * p * (1 - p) * d) + 2 / 3 * (1 - 2 * p) * d))
    return bounds


def plus(x: float) -> float:
    """Return ln+ of a number."""
    return max(0.0, math.log(x)) if x > 0 else 0.0


def _set_link(a: Any, views: Any, sums: Any, level: int, i: int, c: float, share: float) -> None:
    tau = a["tau"][level, -1]
    pseudo_views = tau / a["pool"][level, 3]
    a["link_level"][level, i] = (sums[level, i] / unit(a, level) + tau) / (
        a["link_exposure"][level, i] + pseudo_views
    )
    shown = max(views[level, i], views[0, i])
    width = c * plus(a["pool"][level, 2] * share / (shown + 1))
    a["link_bonus"][level, i] = width / (shown + pseudo_views)


def _set_value(a: Any, feature_of: Any, level: int, v: int, i: int, c: float, share: float) -> None:
    tau = a["tau"][level, feature_of[v]]
    exposure = a["value_exposure"][level, v, i]
    expected = exposure * a["used_level"][level, i]
    seen = a["value_sums"][level, v, i] / unit(a, level)
    a["effect"][level, v, i] = (seen + tau) / (expected + tau)
    width = c * plus(a["seen_at"][level, v] * share / (exposure + 1))
    a["value_bonus"][level, v, i] = width / (expected + tau)


def _variance(pairs: list[tuple[float, float]], before: float, first: float, least: float) -> float:
    """Return the variance beyond chance of (seen, expected), weighted as under `before`."""
    above, below = 10 * first, 10.0
    for seen, expected in pairs:
        weight = (1 + expected * before) ** -2
        above += weight * ((seen - expected) ** 2 - expected)
        below += weight * expected**2
    return max(least, above / below)


def learned(
    before: Arrays,
    evidence: Arrays,
    page: tuple[list[int], int, list[int], list[float]],
    settings: tuple[float, int],
) -> dict[str, Any]:
    """Return the arrays after one page; `evidence` has counted it already.

    `page` is visitor, level, links and outcomes; `settings` are exploration and slots.
    """
    visitor, level, links, outcomes = page
    c, n_slots = settings
    feature_of = before["feature_of"]
    a = {name: np.array(array, copy=True) for name, array in before.items()}
    views, sums, rounds = evidence["views"], evidence["sums"], evidence["rounds"]
    n_links = views.shape[1]
    share = n_slots / n_links
    if level == 1:
        sold = [y for y in outcomes if y > 0]
        if sold and not a["sales"][1]:
            a["sales"][0] = sold[0]
        a["sales"][1] += sum(sold)
        a["sales"][2] += sum(y * y for y in sold)
    a["pool"][level, 0] += len(links)
    a["pool"][level, 1] += sum(outcomes)
    for v in visitor:
        a["seen"][level, v] += len(links) / n_slots
    for i, y in zip(links, outcomes, strict=True):
        p = rate(a, visitor, level, i)
        at_start = a["link_level"][level, i]
        a["link_exposure"][level, i] += p / at_start
        commons = [common(a, level, v) for v in visitor]
        for v, of_all in zip(visitor, commons, strict=True):
            a["value_exposure"][level, v, i] += p / at_start / float(a["effect"][level, v, i])
            a["value_sums"][level, v, i] += y
            a["common_expected"][level, v] += p / of_all
            a["common_sums"][level, v] += y
        for other in (0, 1) if level == 0 else (1,):
            _set_link(a, views, sums, other, i, c, share)
        moved = abs(a["link_level"][level, i] - a["used_level"][level, i])
        if moved > 0.05 * a["used_level"][level, i]:
            a["used_level"][level, i] = a["link_level"][level, i]
            changed = list(range(len(feature_of)))
        else:
            changed = visitor
        for v in changed:
            _set_value(a, feature_of, level, v, i, c, share)
    if rounds[level] + 1 >= 1.1 * a["pool"][level, 2]:
        _refit(a, evidence, level, c, share)
    return a


def _refit(a: dict[str, Any], evidence: Arrays, level: int, c: float, share: float) -> None:
    views, sums, feature_of = evidence["views"], evidence["sums"], a["feature_of"]
    n_links = views.shape[1]
    a["pool"][level, 2] = evidence["rounds"][level] + 1
    a["seen_at"][level] = a["seen"][level]
    if level == 1 and a["sales"][1]:
        before = a["sales"][0]
        a["sales"][0] = a["sales"][2] / a["sales"][1]
        a["common_expected"][level] *= before / a["sales"][0]
    one = unit(a, level)
    a["pool"][level, 3] = pool_rate = (a["pool"][level, 1] / one + 0.25) / (a["pool"][level, 0] + 1)
    exposures = a["link_exposure"][level]
    pairs = [(sums[level, i] / one, exposures[i] * pool_rate) for i in range(n_links)]
    a["tau"][level, -1] = 1 / _variance(pairs, 1 / a["tau"][level, -1], 1.0, 1e-3)
    for i in range(n_links):
        _set_link(a, views, sums, level, i, c, share)
        a["used_level"][level, i] = a["link_level"][level, i]
    for f in sorted(set(feature_of.tolist())):
        pairs = [
            (
                a["value_sums"][level, v, i] / one,
                a["value_exposure"][level, v, i] * a["used_level"][level, i],
            )
            for v in np.flatnonzero(feature_of == f)
            for i in range(n_links)
        ]
        a["tau"][level, f] = 1 / _variance(pairs, 1 / a["tau"][level, f], 0.3, 1e-6)
    for v in range(len(feature_of)):
        for i in range(n_links):
            _set_value(a, feature_of, level, v, i, c, share)
