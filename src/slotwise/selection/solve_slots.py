"""The best order of a page whose slots differ, for visitors of several kinds.

    maximise  sum_m share_m sum_l weight_l value_m[page_m(l)]
    subject to  sum_m share_m sum_l weight_l clicks_m[page_m(l)] >= floor

At a price a link's score is value + price * clicks; the best page has the `n_slots` largest scores,
the largest in the slot of the largest weight. The floor is kept by mixing two such pages.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.selection.solve import STATUSES, Solution, check_kinds
from slotwise.selection.top_page import TIE

Floats = NDArray[np.float64]

MAX_STEPS = 200


def _pages(
    value: Floats, clicks: Floats, shares: Floats, weights: Floats, price: float
) -> tuple[float, float]:
    """Return value and clicks of the best pages at a price; an infinite one counts clicks alone."""
    score, second = (clicks, value) if np.isinf(price) else (value + price * clicks, clicks)
    order = np.lexsort((-second, -score), axis=1)[:, : len(weights)]
    worth = shares[:, None] * weights
    return (
        float((worth * np.take_along_axis(value, order, axis=1)).sum()),
        float((worth * np.take_along_axis(clicks, order, axis=1)).sum()),
    )


def solve_slots(
    value: Floats, clicks: Floats, floor: float, slot_weights: Floats, shares: Floats
) -> Solution:
    """Return what the best pages bring; `probabilities` is empty, since a mix has no order.

    >>> best = solve_slots(np.array([[0.5, 0.2]]), np.array([[0.5, 0.2]]), 0.0,
    ...                    np.array([1.5, 0.5]), np.array([1.0]))
    >>> round(best.value, 6)
    0.85
    """
    value, clicks, shares = check_kinds(value, clicks, len(slot_weights), shares)
    weights = np.sort(slot_weights)[::-1]
    nothing = np.zeros(0)
    few = _pages(value, clicks, shares, weights, 0.0)
    if few[1] >= floor - TIE * floor:
        return Solution(nothing, 0.0, STATUSES[0], *few)
    many = _pages(value, clicks, shares, weights, np.inf)
    if many[1] < floor - TIE * floor:
        return Solution(nothing, np.inf, STATUSES[2], *many)
    price = 0.0
    for _ in range(MAX_STEPS):
        price = max(0.0, (few[0] - many[0]) / (many[1] - few[1]))
        pages = _pages(value, clicks, shares, weights, price)
        meeting = few[0] + price * few[1]
        if pages[0] + price * pages[1] <= meeting + 1e-12 * meeting:
            break
        if pages[1] >= floor:
            many = pages
        else:
            few = pages
    part = (floor - few[1]) / (many[1] - few[1])
    return Solution(nothing, price, STATUSES[1], few[0] + part * (many[0] - few[0]), floor)
