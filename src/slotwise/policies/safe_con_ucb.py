"""Safe-Con-UCB: hopeful about revenue, careful about clicks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slotwise.policies.checks import check_failure_probability, check_horizon
from slotwise.policies.contract import (
    Estimates,
    Floats,
    Links,
    require_click_floor_only,
    require_horizon,
)
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
from slotwise.selection.confidence import confidence_width, kl_lower, kl_upper
from slotwise.selection.floor_program import (
    Program,
    new_program,
    program_status,
    set_clicks,
    set_value,
    solve_program,
)
from slotwise.selection.mix import Mix, copy_mix, new_mix
from slotwise.selection.price_search import INFEASIBLE

__all__ = ["SafeConUCB"]


class SafeConUCBState(NamedTuple):
    """Evidence, and two floor programs kept warm: on lower and on upper bounds of clicks."""

    n_slots: int
    width: float
    evidence: Evidence
    deficit: Deficit
    careful: Program
    hopeful: Program
    mix: Mix


@hot
def choose(state: SafeConUCBState, rng: np.random.Generator) -> None:
    """Keep the floor by what is certain; while that is too little, by what is possible."""
    wanted = clicks_wanted(state.deficit)
    solve_program(state.careful, state.n_slots, wanted)
    if program_status(state.careful) == INFEASIBLE:
        solve_program(state.hopeful, state.n_slots, wanted)
        copy_mix(state.hopeful.mix, state.mix)
    else:
        copy_mix(state.careful.mix, state.mix)


@hot
def _believe(state: SafeConUCBState, level: int, link: int) -> None:
    total, n_views = state.evidence.sums[level, link], state.evidence.views[level, link]
    upper = kl_upper(total, n_views, state.width)
    if level == 0:
        set_clicks(state.careful, link, kl_lower(total, n_views, state.width))
        set_clicks(state.hopeful, link, upper)
    if level == len(state.evidence.views) - 1:
        set_value(state.careful, link, upper)
        set_value(state.hopeful, link, upper)


@hot
def look_again(state: SafeConUCBState) -> None:
    """Work out every bound anew."""
    for level in range(len(state.evidence.views)):
        for link in range(len(state.mix.sure)):
            _believe(state, level, link)


@hot
def learn(
    state: SafeConUCBState,
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
class SafeConUCB(DeficitPolicy):
    """Safe-Con-UCB: optimistic revenue, pessimistic clicks.

        U, Lower = KL bounds at B = ln(4 n_levels K T / delta)
        x = floor program on (U of revenue, Lower of clicks, floor)
        where that is infeasible:  floor program on (U of revenue, U of clicks, floor)

    With probability 1 - delta every page chosen by the first program keeps the floor in
    expectation. Until enough is known for that, it learns about clicks as KL-Con-UCB does.
    (Taking the links with the largest lower bounds instead would show the few links that are
    known, learn about no others and stay there.)

    Use it where falling short is worse than earning less: it keeps more clicks than asked for,
    for good, and pays for them with revenue. `deficit_feedback` makes up for clicks missed in
    the beginning. It has no memory setting: where rates drift a lower bound is not safe.

    >>> from slotwise.problem import Problem
    >>> policy = SafeConUCB(horizon=1000)
    >>> state = policy.start(Problem(n_links=4, n_slots=2, click_floor=0.5))
    >>> SafeConUCB.learn(state, 0, np.array([2]), np.ones(1), np.full(1, 90.0), np.full(1, 60.0))
    >>> state.careful.clicks.round(3).tolist(), state.hopeful.clicks.round(3).tolist()
    ([0.0, 0.0, 0.381, 0.0], [1.0, 1.0, 0.885, 1.0])
    """

    horizon: int | None = None
    failure_probability: float = 0.01
    deficit_feedback: bool = False

    name: ClassVar[str] = "safe-con-ucb"
    choose: ClassVar[Any] = staticmethod(choose)
    learn: ClassVar[Any] = staticmethod(learn)
    look_again: ClassVar[Any] = staticmethod(look_again)

    def __post_init__(self) -> None:
        check_failure_probability(self.failure_probability)
        check_horizon(self.horizon)

    def start(self, problem: Problem) -> SafeConUCBState:
        """Return the state in which every bound is what no observation allows: 1."""
        require_click_floor_only(self.name, problem)
        horizon = require_horizon(self.name, self.horizon, problem)
        most = np.ones(problem.n_links)
        return SafeConUCBState(
            n_slots=problem.n_slots,
            width=confidence_width(
                problem.n_links, horizon, self.failure_probability, problem.n_levels
            ),
            evidence=new_evidence(problem),
            deficit=new_deficit(problem, self.deficit_feedback, horizon),
            careful=new_program(most, np.zeros(problem.n_links)),
            hopeful=new_program(most, most),
            mix=new_mix(problem.n_links),
        )

    def estimates(self, state: SafeConUCBState) -> Estimates:
        """Return the upper bounds of revenue and the bounds of clicks of the last page."""
        is_careful = program_status(state.careful) != INFEASIBLE
        program = state.careful if is_careful else state.hopeful
        return Estimates(program.value, program.clicks)
