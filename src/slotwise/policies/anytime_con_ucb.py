"""Anytime-Con-UCB: the floor program on bounds that hold at every time, without a horizon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slotwise.policies.checks import check_failure_probability
from slotwise.policies.contract import Estimates, Floats, Links, require_click_floor_only
from slotwise.policies.deficit import (
    Deficit,
    DeficitPolicy,
    clicks_wanted,
    new_deficit,
    note_clicks,
)
from slotwise.policies.evidence import (
    Evidence,
    add_views,
    count_rounds,
    new_evidence,
)
from slotwise.problem import Problem
from slotwise.selection.compiled import hot
from slotwise.selection.confidence import anytime_upper, confidence_width
from slotwise.selection.floor_program import (
    Program,
    new_program,
    set_clicks,
    set_value,
    solve_program,
)
from slotwise.selection.mix import Mix

__all__ = ["AnytimeConUCB"]


class AnytimeConUCBState(NamedTuple):
    """Evidence, and the floor program on its upper bounds, kept warm."""

    n_slots: int
    width: float
    evidence: Evidence
    deficit: Deficit
    program: Program
    mix: Mix


@hot
def choose(state: AnytimeConUCBState, rng: np.random.Generator) -> None:
    """Solve the floor program on the bounds; out of reach, take the most clicked links."""
    solve_program(state.program, state.n_slots, clicks_wanted(state.deficit))


@hot
def _believe(state: AnytimeConUCBState, level: int, link: int) -> None:
    evidence, program = state.evidence, state.program
    upper = anytime_upper(evidence.sums[level, link], evidence.views[level, link], state.width)
    if level == 0:
        set_clicks(program, link, upper)
    if level == len(evidence.views) - 1:
        set_value(program, link, upper)


@hot
def look_again(state: AnytimeConUCBState) -> None:
    """Work out every bound anew."""
    for level in range(len(state.evidence.views)):
        for link in range(len(state.program.value)):
            _believe(state, level, link)


@hot
def learn(
    state: AnytimeConUCBState,
    level: int,
    links: Links,
    probabilities: Floats,
    views: Floats,
    outcomes: Floats,
) -> None:
    """Count, and move the bounds of the links that were counted; no other bound changes."""
    evidence = state.evidence
    if level == 0:
        note_clicks(state.deficit, views, outcomes)
    count_rounds(evidence, level, views)
    for k in range(len(links)):
        add_views(evidence, level, links[k], views[k], outcomes[k])
        if level == 0 or level == len(evidence.views) - 1:
            _believe(state, level, links[k])


@dataclass(frozen=True)
class AnytimeConUCB(DeficitPolicy):
    """Anytime-Con-UCB: Con-UCB's plan on confidence sequences, for a page without an end date.

        ln M(q) = ln Beta(s+1/2, n-s+1/2) - ln Beta(1/2, 1/2) - s ln q - (n-s) ln(1-q)
        U(s, n) = max { q >= s/n : ln M(q) <= ln(4 n_levels K / delta) }
        x = floor program on (U of revenue, U of clicks, floor)

    With probability 1 - delta every bound of every link holds at all times at once, however
    long the page lives; regret and shortfall grow as sqrt(K L T ln T). The price for not naming
    T is about ln(n) / 2 in place of ln(T) in the width, which is less for links seldom shown.

    Use it where a promise about all links is wanted and nobody knows how long the page will
    run. `deficit_feedback` asks for more clicks while some are missing. It has no memory
    setting: a confidence sequence speaks of one rate for ever, not of one that drifts.

    >>> from slotwise.problem import Problem
    >>> policy = AnytimeConUCB()
    >>> state = policy.start(Problem(n_links=4, n_slots=2, click_floor=0.5))
    >>> AnytimeConUCB.learn(state, 0, np.array([2]), np.ones(1), np.full(1, 50.0), np.zeros(1))
    >>> state.program.clicks.round(3).tolist()
    [1.0, 1.0, 0.191, 1.0]
    """

    failure_probability: float = 0.01
    deficit_feedback: bool = False

    name: ClassVar[str] = "anytime-con-ucb"
    choose: ClassVar[Any] = staticmethod(choose)
    learn: ClassVar[Any] = staticmethod(learn)
    look_again: ClassVar[Any] = staticmethod(look_again)

    def __post_init__(self) -> None:
        check_failure_probability(self.failure_probability)

    def start(self, problem: Problem) -> AnytimeConUCBState:
        """Return the state in which every bound is what no observation allows: 1."""
        require_click_floor_only(self.name, problem)
        unknown = np.ones(problem.n_links)
        program = new_program(unknown, unknown)
        return AnytimeConUCBState(
            n_slots=problem.n_slots,
            width=confidence_width(problem.n_links, 1, self.failure_probability, problem.n_levels),
            evidence=new_evidence(problem),
            deficit=new_deficit(problem, self.deficit_feedback, problem.horizon),
            program=program,
            mix=program.mix,
        )

    def estimates(self, state: AnytimeConUCBState) -> Estimates:
        """Return the upper bounds of revenue and clicks."""
        return Estimates(state.program.value, state.program.clicks)
