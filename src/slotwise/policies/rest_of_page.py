"""The rest of a page with pins and exclusions, for any policy.

Used by `player` and `service`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from slotwise.policies.policy import Estimates, Floats, Links, OtherLinks, Policy
from slotwise.problem import Problem
from slotwise.selection.several_floors import solve_floors
from slotwise.selection.solve import solve

KEPT_FLOOR = 1e-9
"""What remains of a floor that the pinned links keep: the policy still has a queue for it."""


class Rest(NamedTuple):
    """What pins and exclusions leave of a page: `n_slots` slots for the `free` links."""

    free: Links
    n_slots: int
    pinned: Links


def rest_of_page(
    policy: Policy,
    state: object,
    problem: Problem,
    rest: Rest,
    rates: Floats,
    page_of: Callable[[object, Problem], Floats],
) -> Floats:
    """Return the probabilities of the free links on the slots that pins leave.

    A policy that solves the floor program solves it again for these links, with its estimates of
    the pinned links subtracted from its floors. Any other policy is moved to the rest of the page,
    with floors lowered by the pinned links' `rates` (a row for each level), and `page_of` returns
    its page there; if `move` raises `OtherLinks`, its page is scaled. Any other error is raised.
    """
    estimates = policy.estimates(state)
    if estimates is not None:
        return solve_rest(estimates, problem, rest)
    free, n_slots, pinned = rest
    left = _problem_left(problem, len(free), n_slots, rates[:, pinned].sum(axis=1))
    try:
        moved = policy.move(state, left, free)
    except OtherLinks:
        return fill_slots(page_of(state, problem)[free], n_slots)
    return page_of(moved, left)


def solve_rest(estimates: Estimates, problem: Problem, rest: Rest) -> Floats:
    """Return the best mix for the rest of the page under these estimates."""
    demands, (free, n_slots, pinned) = estimates.demands, rest
    if demands is not None and len(demands):
        least = np.array([floor.least for floor in problem.active_floors])
        left = (least - demands[:, pinned].sum(axis=1)).clip(min=0.0)
        return solve_floors(estimates.value[free], demands[:, free], n_slots, left).probabilities
    # weighted rewards may exceed 1; only their order matters
    value = estimates.value[free] / max(1.0, float(estimates.value[free].max()))
    floor_left = max(0.0, problem.click_floor - float(estimates.clicks[pinned].sum()))
    return solve(value, estimates.clicks[free], n_slots, floor_left).probabilities


def _problem_left(problem: Problem, n_links: int, n_slots: int, brought: Floats) -> Problem:
    """Return the problem of the remaining slots; a floor out of their reach is lowered to them."""
    most = float(np.nextafter(n_slots, 0))

    def left(least: float, level: int) -> float:
        return min(max(least - float(brought[level]), KEPT_FLOOR * least), most)

    floors = {
        level: left(least, problem.levels.index(level)) for level, least in problem.floors.items()
    }
    of_segments = {
        name: {value: left(least, 0) for value, least in of_values.items()}
        for name, of_values in problem.segment_floors.items()
    }
    return replace(
        problem,
        n_links=n_links,
        n_slots=n_slots,
        click_floor=floors.pop(problem.levels[0]),
        floors=floors,
        segment_floors=of_segments,
        slot_weights=(),
    )


def fill_slots(weights: Floats, n_slots: int) -> Floats:
    """Return probabilities in proportion to `weights`, capped at 1, that sum to `n_slots`.

    >>> fill_slots(np.array([0.6, 0.2, 0.2]), 2).tolist()
    [1.0, 0.5, 0.5]
    >>> fill_slots(np.array([1.0, 0.0, 0.0]), 2).tolist()
    [1.0, 0.5, 0.5]
    """
    probabilities = np.zeros(len(weights))
    capped = np.zeros(len(weights), dtype=bool)
    while True:
        uncapped = ~capped
        left = n_slots - int(capped.sum())
        total = weights[uncapped].sum()
        if total > 0:
            probabilities[uncapped] = weights[uncapped] * (left / total)
        else:
            probabilities[uncapped] = left / max(1, int(uncapped.sum()))
        over = uncapped & (probabilities >= 1.0)
        probabilities[over] = 1.0
        if not over.any():
            return probabilities
        capped |= over
