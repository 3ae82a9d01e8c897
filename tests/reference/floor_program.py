"""The floor program the slow ways: a general solver, all pages, all pairs of links.

maximise value . x   subject to   clicks . x >= floor,  sum of x = n_slots,  0 <= x <= 1
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

Floats = NDArray[np.float64]


class Best(NamedTuple):
    """The best value that keeps the floor, and the price of the floor there."""

    value: float
    price: float


def best_by_highs(value: Floats, clicks: Floats, n_slots: int, floor: float) -> Best | None:
    """Ask HiGHS; None where it finds no mix that keeps the floor.

    Its simplex method gives up on one nearly tied program in some thousands ("unknown").
    """
    for method in ("highs", "highs-ipm"):
        answer = linprog(
            -value,
            A_ub=-clicks[None, :],
            b_ub=[-floor],
            A_eq=np.ones((1, len(value))),
            b_eq=[n_slots],
            bounds=(0, 1),
            method=method,
        )
        if answer.status == 2:
            return None
        if answer.status == 0:
            break
    assert answer.status == 0, answer.message
    return Best(-answer.fun, -answer.ineqlin.marginals[0])


def best_by_all_pages(
    value: list[Fraction], clicks: list[Fraction], n_slots: int, floor: Fraction
) -> Fraction | None:
    """Return the best value of any mix of two pages, in exact fractions; None where none fits.

    An optimum of a program with one floor mixes at most two pages.
    """
    pages = {
        (sum(value[i] for i in page), sum(clicks[i] for i in page))
        for page in combinations(range(len(value)), n_slots)
    }
    best = max((v for v, c in pages if c >= floor), default=None)
    for v_few, c_few in pages:
        for v_many, c_many in pages:
            if c_few < floor <= c_many:
                theta = (floor - c_few) / (c_many - c_few)
                mixed = theta * v_many + (1 - theta) * v_few
                best = mixed if best is None else max(best, mixed)
    return None if best is None else Fraction(best)


def best_clicks(clicks: Floats, n_slots: int) -> float:
    """Return the most clicks that any page brings."""
    return float(np.sort(clicks)[-n_slots:].sum())


def clicks_of_best_value(value: Floats, clicks: Floats, n_slots: int) -> float:
    """Return the clicks of the page with the most value, ties going to more clicks."""
    order = np.lexsort((-clicks, -value))
    return float(clicks[order[:n_slots]].sum())


def mix_by_all_pairs(
    value: Floats, clicks: Floats, n_slots: int, floor: float, tie: float = 1e-12
) -> tuple[str, Floats]:
    """Return the status and the mix, trying every price at which two links tie.

    The price is the smallest one whose best page, ties going to more clicks, keeps the floor.
    Links that tie at the boundary share its slots so that the floor is met exactly, and links
    with equal clicks share equally.
    """
    enough = floor * (1 - tie)
    if clicks_of_best_value(value, clicks, n_slots) >= enough:
        return "slack", _share_exact_ties(value, clicks, n_slots)
    if best_clicks(clicks, n_slots) < enough:
        return "infeasible", _share_exact_ties(clicks, value, n_slots)
    fewer, more = np.nonzero(clicks[:, None] < clicks[None, :])
    prices = (value[fewer] - value[more]) / (clicks[more] - clicks[fewer])
    prices = np.unique(prices[prices > 0])
    low, high = 0, len(prices) - 1
    while low < high:
        middle = (low + high) // 2
        most = _clicks_at_price(value, clicks, n_slots, prices[middle], tie)
        if most >= enough:
            high = middle
        else:
            low = middle + 1
    return "binding", _share_at_price(value, clicks, n_slots, floor, prices[low], tie)


def _share_exact_ties(first: Floats, second: Floats, n_slots: int) -> Floats:
    """Fill the page by `first`, then `second`; links equal in both at its end share equally."""
    keys = list(zip(first, second, strict=True))
    last = sorted(keys, reverse=True)[n_slots - 1]
    above = np.array([key > last for key in keys])
    tied = np.array([key == last for key in keys])
    return np.where(above, 1.0, np.where(tied, (n_slots - above.sum()) / tied.sum(), 0.0))


def _clicks_at_price(
    value: Floats, clicks: Floats, n_slots: int, price: float, tie: float
) -> float:
    """Return the most clicks of a page that is best at this price."""
    above, tied = _around_threshold(value + price * clicks, n_slots, tie)
    return float(clicks[above].sum() + np.sort(clicks[tied])[::-1][: n_slots - len(above)].sum())


def _around_threshold(
    score: Floats, n_slots: int, tie: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    threshold = np.sort(score)[-n_slots]
    above = np.flatnonzero(score > threshold * (1 + tie))
    tied = np.flatnonzero(np.abs(score - threshold) <= tie * threshold)
    return above, tied


def _share_at_price(
    value: Floats, clicks: Floats, n_slots: int, floor: float, price: float, tie: float
) -> Floats:
    above, tied = _around_threshold(value + price * clicks, n_slots, tie)
    n_left = n_slots - len(above)
    tied = tied[np.argsort(clicks[tied], kind="stable")]
    in_fewest = np.arange(len(tied)) < n_left
    in_most = np.arange(len(tied)) >= len(tied) - n_left
    fewest, most = clicks[tied[in_fewest]].sum(), clicks[tied[in_most]].sum()
    wanted = floor - clicks[above].sum()
    theta = 1.0 if most <= fewest else float(np.clip((wanted - fewest) / (most - fewest), 0, 1))
    mix = np.zeros(len(value))
    mix[above] = 1.0
    mix[tied] = theta * in_most + (1 - theta) * in_fewest
    for level in np.unique(clicks[tied]):
        group = tied[clicks[tied] == level]
        mix[group] = mix[group].mean()
    return mix
