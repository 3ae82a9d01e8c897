"""The floor program on confidence bounds: the kernel of kl-, anytime- and safe-con-ucb.

    x = floor program on (upper bound of revenue, bound of clicks, floor)

The policies differ in the bound and in which bound of clicks they take. One kernel serves all
three: its `Rule` says which, and it compiles once.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from slotwise.policies.checks import require_click_floor_only
from slotwise.policies.contract import Estimates, Floats, Links, Visitor
from slotwise.policies.floors.deficit import (
    Deficit,
    DeficitPolicy,
    clicks_wanted,
    new_deficit,
    note_clicks,
)
from slotwise.policies.knowledge.evidence import (
    Evidence,
    add_views,
    count_rounds,
    is_time_to_look_again,
    new_evidence,
    weighted_counts,
)
from slotwise.problem import Problem
from slotwise.selection.compiled import hot
from slotwise.selection.confidence import anytime_upper, confidence_width, kl_lower, kl_upper
from slotwise.selection.floor_program import (
    Program,
    new_program,
    program_status,
    rank_by_program,
    set_clicks,
    set_value,
    solve_program,
)
from slotwise.selection.mix import Mix, copy_mix, new_mix
from slotwise.selection.price_search import INFEASIBLE

__all__ = ["BoundsPolicy", "BoundsState"]


class Rule(NamedTuple):
    """The settings as numbers. `is_careful` plans with the lower bounds of clicks first."""

    n_slots: int
    width: float
    is_anytime: bool
    is_careful: bool


class BoundsState(NamedTuple):
    """Evidence, and the floor programs on its bounds, kept warm.

    `program` takes the upper bounds of clicks; `careful` the lower ones, and is empty where no
    policy asks for it.
    """

    rule: Rule
    evidence: Evidence
    deficit: Deficit
    program: Program
    careful: Program
    mix: Mix


@hot
def choose(state: BoundsState, visitor: Visitor, rng: np.random.Generator) -> None:
    """Solve the floor program on the bounds; out of reach, take the most clicked links."""
    rule, wanted = state.rule, clicks_wanted(state.deficit)
    if rule.is_careful:
        solve_program(state.careful, rule.n_slots, wanted)
        if program_status(state.careful) != INFEASIBLE:
            copy_mix(state.careful.mix, state.mix)
            return
    solve_program(state.program, rule.n_slots, wanted)
    if rule.is_careful:
        copy_mix(state.program.mix, state.mix)


@hot
def rank(state: BoundsState, links: Links, worth: Floats) -> None:
    """Write the worth of links at the price of the page chosen last."""
    if state.rule.is_careful and program_status(state.careful) != INFEASIBLE:
        rank_by_program(state.careful, links, worth)
    else:
        rank_by_program(state.program, links, worth)


@hot
def _set_bounds(state: BoundsState, level: int, link: int) -> None:
    """Give the programs the bounds of one link at one level."""
    rule = state.rule
    total, n_views = weighted_counts(state.evidence, level, link)
    if rule.is_anytime:
        upper = anytime_upper(total, n_views, rule.width)
    else:
        upper = kl_upper(total, n_views, rule.width)
    if level == 0:
        set_clicks(state.program, link, upper)
        if rule.is_careful:
            set_clicks(state.careful, link, kl_lower(total, n_views, rule.width))
    if level == len(state.evidence.views) - 1:
        set_value(state.program, link, upper)
        if rule.is_careful:
            set_value(state.careful, link, upper)


@hot
def look_again(state: BoundsState) -> None:
    """Compute every bound again."""
    for level in range(len(state.evidence.views)):
        for link in range(len(state.program.value)):
            _set_bounds(state, level, link)


@hot
def learn(
    state: BoundsState,
    visitor: Visitor,
    level: int,
    links: Links,
    slots: Links,
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
            _set_bounds(state, level, links[k])
    if is_time_to_look_again(evidence, level):
        look_again(state)


class BoundsPolicy(DeficitPolicy):
    """A policy that solves the floor program on bounds; its settings say which ones."""

    choose: ClassVar[Any] = staticmethod(choose)
    learn: ClassVar[Any] = staticmethod(learn)
    rank: ClassVar[Any] = staticmethod(rank)
    look_again: ClassVar[Any] = staticmethod(look_again)
    is_careful: ClassVar[bool] = False
    failure_probability: float
    deficit_feedback: bool
    memory: int | None

    def start_on_bounds(self, problem: Problem, horizon: int | None) -> BoundsState:
        """Return the state in which every bound is what no observation allows.

        Without a `horizon` the bounds hold at all times.
        """
        require_click_floor_only(self.name, problem)
        n_links = problem.n_links
        delta, is_anytime = self.failure_probability, horizon is None
        width = confidence_width(n_links, horizon or 1, delta, problem.n_levels)
        most = np.ones(n_links)
        n_careful = n_links if self.is_careful else 0
        program = new_program(most, most)
        return BoundsState(
            rule=Rule(problem.n_slots, width, is_anytime, self.is_careful),
            evidence=new_evidence(problem, getattr(self, "memory", None)),
            deficit=new_deficit(problem, self.deficit_feedback, horizon or problem.horizon),
            program=program,
            careful=new_program(most[:n_careful], np.zeros(n_careful)),
            mix=new_mix(n_links) if self.is_careful else program.mix,
        )

    def estimates(self, state: BoundsState) -> Estimates:
        """Return the upper bounds of revenue and the bounds of clicks of the last page."""
        is_careful = self.is_careful and program_status(state.careful) != INFEASIBLE
        program = state.careful if is_careful else state.program
        return Estimates.of(program.value, program.clicks)
