"""A page with pinned and excluded links: the rest of it chosen as well as can be."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.policies import Estimates
from slotwise.selection import solve

__all__ = ["restricted_probabilities"]


def restricted_probabilities(
    probabilities: NDArray[np.float64],
    estimates: Estimates | None,
    n_slots: int,
    floor: float,
    pinned: NDArray[np.int64],
    excluded: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return probabilities with the pinned links at 1 and the excluded ones at 0.

    A policy that solves the floor program solves it again for the slots that are left, with
    the clicks that the pinned links are believed to bring taken off the floor. Any other
    policy's probabilities are scaled to the slots that are left and capped at 1.
    """
    free = np.ones(len(probabilities), dtype=bool)
    free[pinned] = False
    free[excluded] = False
    restricted = np.zeros(len(probabilities))
    restricted[pinned] = 1.0
    n_left = n_slots - len(pinned)
    if n_left == 0:
        return restricted
    if estimates is None:
        restricted[free] = fill_slots(probabilities[free], n_left)
    else:
        floor_left = max(0.0, floor - float(estimates.clicks[pinned].sum()))
        rest = solve(estimates.value[free], estimates.clicks[free], n_left, floor_left)
        restricted[free] = rest.probabilities
    return restricted


def fill_slots(weights: NDArray[np.float64], n_slots: int) -> NDArray[np.float64]:
    """Return probabilities in proportion to `weights`, capped at 1, that sum to `n_slots`.

    >>> fill_slots(np.array([0.6, 0.2, 0.2]), 2).tolist()
    [1.0, 0.5, 0.5]
    >>> fill_slots(np.array([1.0, 0.0, 0.0]), 2).tolist()
    [1.0, 0.5, 0.5]
    """
    chances = np.zeros(len(weights))
    capped = np.zeros(len(weights), dtype=bool)
    while True:
        rest = ~capped
        left = n_slots - int(capped.sum())
        total = weights[rest].sum()
        if total > 0:
            chances[rest] = weights[rest] * (left / total)
        else:
            chances[rest] = left / max(1, int(rest.sum()))
        over = rest & (chances >= 1.0)
        chances[over] = 1.0
        if not over.any():
            return chances
        capped |= over
