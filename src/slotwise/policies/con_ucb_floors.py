"""Con-UCB with several floors: one bound a level, one row a floor, one program for all.

A floor on a compound asks for the upper bound of its level. A floor on a conditional rate asks
(C^j - rate C^(j-1)) . x >= 0 and takes the upper bound of C^j less the rate times the *lower*
bound of C^(j-1). While the bounds hold, no row is below the truth, so the best mix for the true
rates keeps every floor of the program, and the program's value is at least its value: Con-UCB
stays optimistic about each floor, as it is about clicks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.policies.contract import Floats, Links
from slotwise.policies.counts import Counts, new_counts
from slotwise.problem import Problem
from slotwise.selection.compiled import hot
from slotwise.selection.confidence import paper_lower, paper_upper
from slotwise.selection.mix import Mix
from slotwise.selection.several_floors import (
    FloorsProgram,
    new_floors_program,
    solve_floors_program,
)

__all__ = ["ConUCBFloorsState", "choose_with_floors", "learn_with_floors", "new_floors_state"]


class Rows(NamedTuple):
    """What each floor and the value are made of.

    Floor j is upper[level[j]] - rate[j] * lower[level[j] - 1]; value weighs the levels' upper
    bounds by `rewards`.
    """

    level: NDArray[np.int64]
    rate: Floats
    rewards: Floats


class ConUCBFloorsState(NamedTuple):
    """Counts, the bounds of every level and link, and the program on them, kept warm."""

    n_slots: int
    gamma: float
    counts: Counts
    rows: Rows
    upper: Floats
    lower: Floats
    program: FloorsProgram
    mix: Mix


def new_floors_state(problem: Problem, gamma: float) -> ConUCBFloorsState:
    """Return the state in which every bound is what no observation allows."""
    floors = problem.active_floors
    shape = (problem.n_levels, problem.n_links)
    program = new_floors_program(
        value=np.zeros(problem.n_links),
        demands=np.zeros((len(floors), problem.n_links)),
        floors=np.array([floor.least for floor in floors]),
    )
    state = ConUCBFloorsState(
        n_slots=problem.n_slots,
        gamma=gamma,
        counts=new_counts(problem),
        rows=Rows(
            level=np.array([floor.level for floor in floors], np.int64),
            rate=np.array([floor.rate for floor in floors], np.float64),
            rewards=np.array([problem.rewards.get(level, 0.0) for level in problem.levels]),
        ),
        upper=np.full(shape, paper_upper(0.0, 0.0, gamma)),
        lower=np.zeros(shape),
        program=program,
        mix=program.mix,
    )
    for link in range(problem.n_links):
        _believe(state, link)
    return state


@hot
def _believe(state: ConUCBFloorsState, link: int) -> None:
    """Give the program what the bounds of a link say of its value and of each floor."""
    rows, upper, simplex = state.rows, state.upper, state.program.simplex
    value = 0.0
    for level in range(len(upper)):
        value += rows.rewards[level] * upper[level, link]
    simplex.value[link] = value
    for j in range(len(rows.level)):
        demand = upper[rows.level[j], link]
        if rows.rate[j] > 0.0:
            demand -= rows.rate[j] * state.lower[rows.level[j] - 1, link]
        simplex.demands[j, link] = demand


@hot
def choose_with_floors(state: ConUCBFloorsState, rng: np.random.Generator) -> None:
    """Solve for all floors on the bounds; out of reach, miss them by the smallest part."""
    solve_floors_program(state.program, state.n_slots)


@hot
def learn_with_floors(
    state: ConUCBFloorsState,
    level: int,
    links: Links,
    probabilities: Floats,
    views: Floats,
    outcomes: Floats,
) -> None:
    """Count, and move the bounds of the links that were counted; no other bound changes."""
    counts = state.counts
    for k in range(len(links)):
        link = links[k]
        counts.views[level, link] += views[k]
        counts.sums[level, link] += outcomes[k]
        total, n_views = counts.sums[level, link], counts.views[level, link]
        state.upper[level, link] = paper_upper(total, n_views, state.gamma)
        state.lower[level, link] = paper_lower(total, n_views, state.gamma)
        _believe(state, link)
