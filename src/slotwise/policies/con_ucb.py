"""Con-UCB, the paper's algorithm: the floor program on upper confidence bounds.

Found by the registry in `policies`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slotwise.compile import hot, inner
from slotwise.errors import InvalidInput
from slotwise.policies.con_ucb_floors import ConUCBFloors
from slotwise.policies.open_views import OpenLedger, count_open, new_open_views
from slotwise.policies.policy import (
    Choose,
    ChooseWithin,
    Counts,
    Debt,
    Estimates,
    Floats,
    Knowledge,
    Learn,
    LinkFeedback,
    Links,
    NoteOpen,
    Policy,
    Rank,
    State,
    Visitor,
    add_counts,
    new_counts,
    require_horizon,
)
from slotwise.problem import Problem
from slotwise.selection.confidence import paper_upper
from slotwise.selection.floor_program import (
    PRICE,
    STATUS,
    Program,
    new_program,
    rank_by_program,
    set_clicks,
    set_value,
    solve_program,
)
from slotwise.selection.mix import Mix
from slotwise.selection.page_rules import PageRules
from slotwise.selection.page_search import BINDING
from slotwise.selection.page_within_rules import solve_within
from slotwise.selection.passes import whole_vectors

MOST_EXTRA = 0.25
"""The maximum demand above the floor, as a share of it."""

PAGES, CLICKS = 0, 1


class Deficit(NamedTuple):
    """The floor, and the pages and clicks settled so far where they are fed back.

        h_t = h + clip((h (t - 1) - clicks so far) / sqrt(T), 0, h / 4)

    Optimistic bounds overestimate clicks, so a policy that only plans to keep the floor falls
    behind it. A demand that grows with the missing clicks compensates for that.
    """

    floor: float
    n_slots: int
    root_horizon: float
    is_fed_back: bool
    totals: Floats


@inner
def _note_clicks(deficit: Deficit, views: Floats, clicks: Floats) -> None:
    """Count settled page views, in pages, and their clicks."""
    if deficit.is_fed_back:
        for k in range(len(views)):
            deficit.totals[PAGES] += views[k] / deficit.n_slots
            deficit.totals[CLICKS] += clicks[k]


@inner
def _clicks_wanted(deficit: Deficit) -> float:
    """Return the clicks required of the next page: the floor, and more if it was missed."""
    floor = deficit.floor
    if not deficit.is_fed_back:
        return floor
    missing = floor * deficit.totals[PAGES] - deficit.totals[CLICKS]
    return floor + min(max(0.0, missing / deficit.root_horizon), MOST_EXTRA * floor)


class ConUCBState(NamedTuple):
    """Counts, and the warm-started floor program on their upper bounds.

    `open` has the page views whose feedback is open; `page` is a buffer for the counts of the links
    of a page.
    """

    n_slots: int
    gamma: float
    counts: Counts
    open: OpenLedger
    deficit: Deficit
    program: Program
    mix: Mix
    page: Floats


@hot
def choose(state: ConUCBState, visitor: Visitor, rng: np.random.Generator) -> None:
    """Solve the floor program on the bounds; if it is infeasible, take the most clicked links."""
    solve_program(state.program, state.n_slots, _clicks_wanted(state.deficit))


@hot
def choose_within(
    state: ConUCBState, visitor: Visitor, rng: np.random.Generator, rules: PageRules
) -> None:
    """Solve the floor program on the bounds within the rules."""
    program = state.program
    for link in range(len(rules.worth)):
        rules.worth[link] = program.value[link] * rules.boost[link]
    found = solve_within(rules, rules.worth, program.clicks, _clicks_wanted(state.deficit))
    program.sizes[STATUS] = found.status
    program.numbers[PRICE] = found.price if found.status == BINDING else 0.0


@hot
def rank(state: ConUCBState, links: Links, worth: Floats) -> None:
    """Write the scores of links at the price of the page chosen last."""
    rank_by_program(state.program, links, worth)


@inner
def _set_bounds(state: ConUCBState, level: int, links: Links) -> None:
    """Pass the bounds of links at a level to the program.

    Their counts are copied next to each other, so that bounds are computed in vectors.
    """
    counts, total, n_views, n_open = state.counts, state.page[0], state.page[1], state.page[2]
    for k in range(len(links)):
        total[k] = counts.sums[level, links[k]]
        n_views[k] = counts.views[level, links[k]]
        n_open[k] = state.open.views[level, links[k]]
    for k in range(whole_vectors(len(links))):
        total[k] = paper_upper(total[k], n_views[k], state.gamma, n_open[k])
    if level == 0:
        for k in range(len(links)):
            set_clicks(state.program, links[k], total[k])
    elif level == len(counts.views) - 1:
        for k in range(len(links)):
            set_value(state.program, links[k], total[k])


@hot
def note_open(
    state: ConUCBState, visitor: Visitor, level: int, links: Links, n_views: float
) -> None:
    """Count page views whose feedback is open: they narrow the bounds of their links."""
    count_open(state.open, visitor, level, links, n_views)
    _set_bounds(state, level, links)


@hot
def learn(state: ConUCBState, visitor: Visitor, level: int, feedback: LinkFeedback) -> None:
    """Count, and move the bounds of the links that were counted; no other bound changes."""
    links, views, outcomes = feedback.links, feedback.views, feedback.outcomes
    if level == 0:
        _note_clicks(state.deficit, views, outcomes)
    add_counts(state.counts, level, links, views, outcomes)
    _set_bounds(state, level, links)


@dataclass(frozen=True)
class ConUCB(ConUCBFloors):
    """Con-UCB (the paper's Algorithm 1): be optimistic about clicks and revenue, keep the floor.

        gamma = gamma_scale * 72 ln(8 K T / delta)
        bound(sum, n) = min(1, m + 2 sqrt(gamma m / (n+1)) + 2 gamma / (n+1)),  m = sum / (n+1)
        x = floor program on (bound of revenue, bound of clicks, floor)

    With probability 1 - delta regret and shortfall grow as sqrt(K L T) (the paper's theorem).
    Unlike the paper, an infeasible floor takes the most clicked links instead of any page. At the
    printed width (`gamma_scale` 1) a link has the bound 1 for more than 2 gamma views, about 3,300
    at the paper's sizes, so most of 50,000 rounds look like uniform play; what the paper says about
    its data sets holds with `gamma_scale` from 1/720 to 1/7200. `deficit_feedback` (not in the
    paper) asks for more clicks while some are missing. Where feedback is late (not in the paper
    either), n + 1 in the width includes open views: otherwise the same uncertain links fill every
    page until their feedback arrives. There is no memory setting: the paper's bounds are for
    constant rates.

    With n levels gamma is 72 ln(4 n K T / delta). Floors on further levels and on conditional
    rates, and weighted rewards, need another program: `for_problem` then returns the policy of
    `slotwise.policies.con_ucb_floors`.

    >>> from slotwise.policies import NOBODY
    >>> from slotwise.problem import Problem
    >>> policy = ConUCB(horizon=1000)
    >>> state = policy.start(Problem(n_links=4, n_slots=2, click_floor=0.5))
    >>> ConUCB.choose(state, NOBODY, np.random.default_rng(1))
    >>> state.mix.sizes.tolist()          # nothing known: all four links share two slots
    [0, 0, 4, 2]
    """

    deficit_feedback: bool = False

    choose: ClassVar[Choose] = staticmethod(choose)
    learn: ClassVar[Learn] = staticmethod(learn)
    rank: ClassVar[Rank] = staticmethod(rank)
    note_open: ClassVar[NoteOpen] = staticmethod(note_open)
    choose_within: ClassVar[ChooseWithin] = staticmethod(choose_within)

    def for_problem(self, problem: Problem) -> Policy:
        """Return the form for a click floor alone, otherwise Con-UCB for several floors."""
        super().for_problem(problem)
        if self._is_for(problem):
            return self._with_its_debt()
        if self.deficit_feedback:
            raise InvalidInput.of("deficit_feedback", "False beyond clicks alone", True)
        return ConUCBFloors(self.horizon, self.failure_probability, self.gamma_scale)

    def _with_its_debt(self) -> ConUCB:
        return ConUCBWithDeficit(**vars(self)) if self.deficit_feedback else self

    def _is_for(self, problem: Problem) -> bool:
        is_for_clicks = problem.has_click_floor_only and problem.rewards_last_level_only
        return is_for_clicks and problem.n_levels > 1

    def start(self, problem: Problem) -> ConUCBState:
        """Return the state in which every bound is 1, since nothing was observed."""
        if not self._is_for(problem):
            advice = "start `policy.for_problem(problem)`, which keeps several floors"
            raise InvalidInput.of("problem", "one of a click floor alone", problem, advice)
        gamma = self.gamma(problem)
        unknown = np.full(problem.n_links, paper_upper(0.0, 0.0, gamma))
        program = new_program(unknown, unknown)
        horizon = require_horizon(self.name, self.horizon, problem)
        deficit = Deficit(
            floor=problem.click_floor,
            n_slots=problem.n_slots,
            root_horizon=math.sqrt(horizon),
            is_fed_back=bool(self.deficit_feedback),
            totals=np.zeros(2),
        )
        counts = new_counts(problem)
        return ConUCBState(
            n_slots=problem.n_slots,
            gamma=gamma,
            counts=counts,
            open=new_open_views(problem),
            deficit=deficit,
            program=program,
            mix=program.mix,
            page=np.zeros((3, whole_vectors(problem.n_links))),
        )

    def knowledge(self, state: ConUCBState) -> Knowledge:
        """Return the counts, and the deficit where it is fed back."""
        known = super().knowledge(state)
        if self.deficit_feedback:  # a state of several floors, which may move here, has none
            known["deficit"] = state.deficit.totals.copy()
        return known

    def restore(self, problem: Problem, knowledge: Mapping[str, Floats]) -> State:
        """Return a state that has seen these counts and has the same deficit."""
        state: Any = super().restore(problem, knowledge)
        if self.deficit_feedback:  # these totals include links that have left the pool
            state.deficit.totals[:] = knowledge["deficit"]
        return state

    def estimates(self, state: ConUCBState) -> Estimates:
        """Return the upper bounds of revenue and clicks."""
        return Estimates.of(state.program.value, state.program.clicks)


@dataclass(frozen=True)
class ConUCBWithDeficit(ConUCB):
    """Con-UCB that asks for more clicks while some are missing: its pages move every round.

    `ConUCB.for_problem` returns it where `deficit_feedback` is set.
    """

    debt: ClassVar[Debt] = Debt.BALANCE

    def _with_its_debt(self) -> ConUCB:
        return self
