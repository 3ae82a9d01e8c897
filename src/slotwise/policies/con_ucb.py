"""Con-UCB, the paper's algorithm: the floor program on upper confidence bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slotwise.errors import InvalidInput
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
def choose(state: ConUCBState, rng: np.random.Generator) -> None:
    """Solve the floor program on the bounds; out of reach, take the most clicked links."""
    solve_program(state.program, state.rule.n_slots, clicks_wanted(state.deficit))


@hot
def learn(
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

    def start(self, problem: Problem) -> ConUCBState:
        """Return the state in which every bound is what no observation allows: 1."""
        horizon = require_horizon(self.name, self.horizon, problem)
        n_links = problem.n_links
        gamma = self.gamma_scale * paper_gamma(
            n_links, horizon, self.failure_probability, problem.n_levels
        )
        unknown = np.full(n_links, paper_upper(0.0, 0.0, gamma))
        program = new_program(unknown, unknown)
        deficit = new_deficit(problem, self.deficit_feedback, horizon)
        rule = Rule(problem.n_slots, gamma)
        return ConUCBState(rule, new_counts(problem), deficit, program, program.mix)

    def knowledge(self, state: ConUCBState) -> Knowledge:
        """Return the counts, and the deficit where it is fed back."""
        return with_deficit(super().knowledge(state), state)

    def restore(self, problem: Problem, knowledge: Mapping[str, Floats]) -> State:
        """Return a state that has seen these counts and is short of as many clicks."""
        state = super().restore(problem, knowledge)
        restore_deficit(state, knowledge)
        return state

    def estimates(self, state: ConUCBState) -> Estimates:
        """Return the upper bounds of revenue and clicks."""
        return Estimates(state.program.value, state.program.clicks)
