"""Con-UCB, the paper's algorithm: the floor program on upper confidence bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slotwise.errors import InvalidInput
from slotwise.policies.by_state import choose_by_state, learn_by_state
from slotwise.policies.con_ucb_floors import (
    ConUCBFloorsState,
    choose_with_floors,
    learn_with_floors,
    new_floors_state,
)
from slotwise.policies.contract import (
    Estimates,
    Floats,
    Knowledge,
    Links,
    State,
    require_horizon,
)
from slotwise.policies.counts import CountingPolicy, Counts, new_counts
from slotwise.policies.deficit import (
    Deficit,
    clicks_wanted,
    new_deficit,
    note_clicks,
    restore_deficit,
    with_deficit,
)
from slotwise.problem import Problem
from slotwise.selection.compiled import hot
from slotwise.selection.confidence import paper_gamma, paper_upper
from slotwise.selection.floor_program import (
    Program,
    new_program,
    set_clicks,
    set_value,
    solve_program,
)
from slotwise.selection.mix import Mix

__all__ = ["ConUCB"]


class Rule(NamedTuple):
    """The settings as numbers: slots, confidence width."""

    n_slots: int
    gamma: float


class ConUCBState(NamedTuple):
    """Counts, and the floor program on their upper bounds, kept warm."""

    rule: Rule
    counts: Counts
    deficit: Deficit
    program: Program
    mix: Mix


@hot
def choose_for_clicks(state: ConUCBState, rng: np.random.Generator) -> None:
    """Solve the floor program on the bounds; out of reach, take the most clicked links."""
    solve_program(state.program, state.rule.n_slots, clicks_wanted(state.deficit))


@hot
def learn_for_clicks(
    state: ConUCBState,
    level: int,
    links: Links,
    probabilities: Floats,
    views: Floats,
    outcomes: Floats,
) -> None:
    """Count, and move the bounds of the links that were counted; no other bound changes."""
    counts, program, gamma = state.counts, state.program, state.rule.gamma
    if level == 0:
        note_clicks(state.deficit, views, outcomes)
    for k in range(len(links)):
        link = links[k]
        counts.views[level, link] += views[k]
        counts.sums[level, link] += outcomes[k]
        upper = paper_upper(counts.sums[level, link], counts.views[level, link], gamma)
        if level == 0:
            set_clicks(program, link, upper)
        elif level == len(counts.views) - 1:
            set_value(program, link, upper)


_choose = choose_by_state({ConUCBState: choose_for_clicks, ConUCBFloorsState: choose_with_floors})
_learn = learn_by_state({ConUCBState: learn_for_clicks, ConUCBFloorsState: learn_with_floors})


@hot
def choose(state: Any, rng: np.random.Generator) -> None:
    """Solve the program of the state: for clicks alone, or with several floors."""
    _choose(state, rng)


@hot
def learn(
    state: Any,
    level: int,
    links: Links,
    probabilities: Floats,
    views: Floats,
    outcomes: Floats,
) -> None:
    """Count, and move the bounds of the links that were counted; no other bound changes."""
    _learn(state, level, links, probabilities, views, outcomes)


@dataclass(frozen=True)
class ConUCB(CountingPolicy):
    """Con-UCB (the paper's Algorithm 1): be optimistic about clicks and revenue, keep the floor.

        gamma = gamma_scale * 72 ln(8 K T / delta)
        bound(sum, n) = min(1, m + 2 sqrt(gamma m / (n+1)) + 2 gamma / (n+1)),  m = sum / (n+1)
        x = floor program on (bound of revenue, bound of clicks, floor)

    With probability 1 - delta regret and shortfall grow as sqrt(K L T) (the paper's theorem).
    Unlike the paper, a floor out of reach takes the most clicked links instead of any page.
    At the printed width (`gamma_scale` 1) a link keeps the bound 1 for more than 2 gamma views,
    about 3,300 at the paper's sizes, so most of 50,000 rounds look like uniform play; the
    paper's ordering of the algorithms appears from about `gamma_scale` = 1/72 down.
    `deficit_feedback` (not in the paper) asks for more clicks while some are missing. There is
    no memory setting: the paper's bounds speak of rates that stay.

    Floors on further levels and on conditional rates, and weighed rewards, are solved together
    (`slotwise.policies.con_ucb_floors`); with n levels gamma is 72 ln(4 n K T / delta). Floors
    out of reach are then missed by the smallest part of them.

    >>> from slotwise.problem import Problem
    >>> policy = ConUCB(horizon=1000)
    >>> state = policy.start(Problem(n_links=4, n_slots=2, click_floor=0.5))
    >>> ConUCB.choose(state, np.random.default_rng(1))
    >>> state.mix.sizes.tolist()          # nothing known: all four links share two slots
    [0, 0, 4, 2]
    """

    horizon: int | None = None
    failure_probability: float = 0.01
    gamma_scale: float = 1.0
    deficit_feedback: bool = False

    name: ClassVar[str] = "con-ucb"
    choose: ClassVar[Any] = staticmethod(choose)
    learn: ClassVar[Any] = staticmethod(learn)

    def __post_init__(self) -> None:
        if not 0 < self.failure_probability < 1:
            raise InvalidInput.of("failure_probability", "in (0, 1)", self.failure_probability)
        if not 0 < self.gamma_scale < np.inf:
            raise InvalidInput.of("gamma_scale", "a positive number", self.gamma_scale)
        if self.horizon is not None and self.horizon < 1:
            raise InvalidInput.of("horizon", "at least 1", self.horizon)

    def start(self, problem: Problem) -> ConUCBState | ConUCBFloorsState:
        """Return the state in which every bound is what no observation allows: 1.

        The program for clicks alone serves where nothing else is asked for.
        """
        horizon = require_horizon(self.name, self.horizon, problem)
        n_links = problem.n_links
        gamma = self.gamma_scale * paper_gamma(
            n_links, horizon, self.failure_probability, problem.n_levels
        )
        is_for_clicks = problem.has_click_floor_only and problem.rewards_last_level_only
        if not is_for_clicks or problem.n_levels == 1:
            if self.deficit_feedback:
                raise InvalidInput.of("deficit_feedback", "False beyond clicks alone", True)
            return new_floors_state(problem, gamma)
        unknown = np.full(n_links, paper_upper(0.0, 0.0, gamma))
        program = new_program(unknown, unknown)
        deficit = new_deficit(problem, self.deficit_feedback, horizon)
        rule = Rule(problem.n_slots, gamma)
        return ConUCBState(rule, new_counts(problem), deficit, program, program.mix)

    def knowledge(self, state: ConUCBState | ConUCBFloorsState) -> Knowledge:
        """Return the counts, and the deficit where it is fed back."""
        counts = super().knowledge(state)
        return with_deficit(counts, state) if isinstance(state, ConUCBState) else counts

    def restore(self, problem: Problem, knowledge: Mapping[str, Floats]) -> State:
        """Return a state that has seen these counts and is short of as many clicks."""
        state = super().restore(problem, knowledge)
        if isinstance(state, ConUCBState):
            restore_deficit(state, knowledge)
        return state

    def estimates(self, state: ConUCBState | ConUCBFloorsState) -> Estimates:
        """Return the upper bounds of revenue and clicks."""
        if isinstance(state, ConUCBFloorsState):
            return Estimates(state.program.simplex.value, state.upper[0])
        return Estimates(state.program.value, state.program.clicks)
