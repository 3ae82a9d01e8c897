"""A page with pinned and excluded links: the rest of it chosen as well as can be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from slotwise.errors import InvalidInput
from slotwise.policies import Estimates
from slotwise.problem import Problem
from slotwise.rounds import Link
from slotwise.selection import solve, solve_floors

__all__ = ["check_restrictions", "restricted_probabilities"]


def check_restrictions(
    links: Sequence[Link],
    n_slots: int,
    pinned: NDArray[np.int64],
    excluded: NDArray[np.int64],
) -> None:
    """Refuse pinned and excluded links that leave no page of `n_slots` of the `links`."""
    if len(pinned) > n_slots:
        raise InvalidInput.of("pin", f"at most {n_slots} links, one a slot", len(pinned))
    both = np.intersect1d(pinned, excluded)
    if len(both):
        raise InvalidInput.of("pin", "links that are not excluded", links[both[0]])
    if len(links) - len(excluded) < n_slots:
        rule = f"few enough links to leave {n_slots} for the page"
        raise InvalidInput.of("exclude", rule, len(excluded))


def restricted_probabilities(
    probabilities: NDArray[np.float64],
    estimates: Estimates | None,
    problem: Problem,
    pinned: NDArray[np.int64],
    excluded: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return probabilities with the pinned links at 1 and the excluded ones at 0.

    A policy that solves the floor program solves it again for the slots that are left, with
    what the pinned links are expected to bring taken off its floors. Any other policy's
    probabilities are scaled to the slots that are left and capped at 1.
    """
    free = np.ones(len(probabilities), dtype=bool)
    free[pinned] = False
    free[excluded] = False
    restricted = np.zeros(len(probabilities))
    restricted[pinned] = 1.0
    n_left = problem.n_slots - len(pinned)
    if n_left == 0:
        return restricted
    if estimates is None:
        restricted[free] = fill_slots(probabilities[free], n_left)
    elif estimates.demands is not None and len(estimates.demands):
        demands = estimates.demands
        least = np.array([floor.least for floor in problem.active_floors])
        left = (least - demands[:, pinned].sum(axis=1)).clip(min=0.0)
        rest_of_page = solve_floors(estimates.value[free], demands[:, free], n_left, left)
        restricted[free] = rest_of_page.probabilities
    else:
        # weighed rewards may exceed 1; only their order matters
        value = estimates.value[free] / max(1.0, float(estimates.value[free].max()))
        floor_left = max(0.0, problem.click_floor - float(estimates.clicks[pinned].sum()))
        rest = solve(value, estimates.clicks[free], n_left, floor_left)
        restricted[free] = rest.probabilities
    return restricted


def fill_slots(weights: NDArray[np.float64], n_slots: int) -> NDArray[np.float64]:
    """Return probabilities in proportion to `weights`, capped at 1, that sum to `n_slots`.

    >>> fill_slots(np.array([0.6, 0.2, 0.2]), 2).tolist()
    [1.0, 0.5, 0.5]
    >>> fill_slots(np.array([1.0, 0.0, 0.0]), 2).tolist()
    [1.0, 0.5, 0.5]
    """
    probabilities = np.zeros(len(weights))
    capped = np.zeros(len(weights), dtype=bool)
    while True:
        rest = ~capped
        left = n_slots - int(capped.sum())
        total = weights[rest].sum()
        if total > 0:
            probabilities[rest] = weights[rest] * (left / total)
        else:
            probabilities[rest] = left / max(1, int(rest.sum()))
        over = rest & (probabilities >= 1.0)
        probabilities[over] = 1.0
        if not over.any():
            return probabilities
        capped |= over
