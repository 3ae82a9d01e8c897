"""Con-UCB for any problem: one bound per level and one row per floor in one program.

A floor on a compound uses the upper bound of its level. A floor on a conditional rate asks (C^j
- rate C^(j-1)) . x >= 0 and uses the upper bound of C^j less the rate times the *lower* bound of
C^(j-1). While the bounds hold, no row is below the truth, so the best mix for the true rates keeps
every floor of the program, and the program's value is at least that of this mix: Con-UCB is
optimistic about each floor, as it is about clicks. Used by `con_ucb`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slotwise.compile import hot
from slotwise.errors import InvalidInput
from slotwise.policies.open_views import OpenLedger, count_open, new_open_views
from slotwise.policies.policy import (
    Choose,
    CountingPolicy,
    Counts,
    Estimates,
    Floats,
    Learn,
    LinkFeedback,
    Links,
    NoteOpen,
    Rank,
    State,
    Visitor,
    add_counts,
    check_horizon,
    check_positive,
    new_counts,
    require_horizon,
)
from slotwise.problem import Problem
from slotwise.selection.confidence import (
    paper_gamma,
    paper_lower,
    paper_upper,
)
from slotwise.selection.mix import Mix
from slotwise.selection.several_floors import (
    FloorsProgram,
    new_floors_program,
    solve_floors_program,
)

LARGEST_PRICE = 1e6
"""Replaces the price of an infeasible floor when links are ranked."""


class FloorRows(NamedTuple):
    """The terms of each floor and of the value.

    Floor j is upper[level[j]] - rate[j] * lower[level[j] - 1]; the value weights the levels' upper
    bounds by `rewards`.
    """

    level: Links
    rate: Floats
    rewards: Floats


class ConUCBFloorsState(NamedTuple):
    """Counts, the bounds of every level and link, and the warm-started program on them."""

    n_slots: int
    gamma: float
    counts: Counts
    open: OpenLedger
    rows: FloorRows
    upper: Floats
    lower: Floats
    program: FloorsProgram
    mix: Mix


@hot
def _set_rows(state: ConUCBFloorsState, link: int) -> None:
    """Update a link's value and its entry of each floor in the program from its bounds."""
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
def choose(state: ConUCBFloorsState, visitor: Visitor, rng: np.random.Generator) -> None:
    """Solve for all floors on the bounds; if infeasible, minimise the relative shortfall."""
    solve_floors_program(state.program, state.n_slots)


@hot
def rank(state: ConUCBFloorsState, links: Links, worth: Floats) -> None:
    """Write the scores of links at the prices of the floors."""
    simplex, prices = state.program.simplex, state.program.prices
    for k in range(len(links)):
        worth[k] = simplex.value[links[k]]
        for j in range(len(prices)):
            price = min(prices[j], LARGEST_PRICE)
            worth[k] += price * simplex.demands[j, links[k]]


@hot
def _set_bounds(state: ConUCBFloorsState, level: int, link: int) -> None:
    """Recompute the bounds of a link at a level, and its entries of the program."""
    total, n_views = state.counts.sums[level, link], state.counts.views[level, link]
    n_open = state.open.views[level, link]
    state.upper[level, link] = paper_upper(total, n_views, state.gamma, n_open)
    state.lower[level, link] = paper_lower(total, n_views, state.gamma)
    _set_rows(state, link)


@hot
def note_open(
    state: ConUCBFloorsState, visitor: Visitor, level: int, links: Links, n_views: float
) -> None:
    """Count page views whose feedback is open: they narrow the upper bounds."""
    count_open(state.open, visitor, level, links, n_views)
    for k in range(len(links)):
        _set_bounds(state, level, links[k])


@hot
def learn(state: ConUCBFloorsState, visitor: Visitor, level: int, feedback: LinkFeedback) -> None:
    """Count, and move the bounds of the links that were counted; no other bound changes."""
    links, views, outcomes = feedback.links, feedback.views, feedback.outcomes
    add_counts(state.counts, level, links, views, outcomes)
    for k in range(len(links)):
        _set_bounds(state, level, links[k])


@dataclass(frozen=True)
class ConUCBFloors(CountingPolicy):
    """Con-UCB with floors on several levels and on conditional rates, and weighted rewards.

        gamma = gamma_scale * 72 ln(4 n_levels K T / delta)
        row of a floor on level j: upper(C^j) - rate * lower(C^(j-1)) in place of the truth
        x = the most upper(reward) that keeps every row; else the smallest relative shortfall

    `ConUCB.for_problem` returns it for problems with more than a click floor.
    """

    horizon: int | None = None
    failure_probability: float = 0.01
    gamma_scale: float = 1.0

    name: ClassVar[str] = "con-ucb"
    choose: ClassVar[Choose] = staticmethod(choose)
    learn: ClassVar[Learn] = staticmethod(learn)
    rank: ClassVar[Rank] = staticmethod(rank)
    note_open: ClassVar[NoteOpen] = staticmethod(note_open)

    def __post_init__(self) -> None:
        if not 0 < self.failure_probability < 1:
            raise InvalidInput.of("failure_probability", "in (0, 1)", self.failure_probability)
        check_positive("gamma_scale", self.gamma_scale)
        check_horizon(self.horizon)

    def gamma(self, problem: Problem) -> float:
        """Return the confidence width."""
        horizon = require_horizon(self.name, self.horizon, problem)
        delta, n_levels = self.failure_probability, problem.n_levels
        return self.gamma_scale * paper_gamma(problem.n_links, horizon, delta, n_levels)

    def start(self, problem: Problem) -> State:
        """Return the state with the bounds of links without observations."""
        gamma = self.gamma(problem)
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
            open=new_open_views(problem),
            rows=FloorRows(
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
            _set_rows(state, link)
        return state

    def estimates(self, state: Any) -> Estimates:
        """Return the upper bounds of reward and clicks, and the row of each floor."""
        simplex = state.program.simplex
        return Estimates.of(simplex.value, state.upper[0], simplex.demands)
