"""Con-TS: the floor program on a draw from the posterior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slotwise.policies.checks import check_prior, require_click_floor_only
from slotwise.policies.contract import Floats, Links, Visitor
from slotwise.policies.floors.deficit import (
    Deficit,
    DeficitPolicy,
    clicks_wanted,
    new_deficit,
    note_clicks,
)
from slotwise.policies.floors.drawn_program import DrawnProgram, new_drawn_program, solve_draw
from slotwise.policies.knowledge.evidence import Evidence, check_memory, new_evidence
from slotwise.policies.knowledge.posterior import rank_by_means
from slotwise.policies.knowledge.sampling import (
    Sampling,
    count_links,
    follow_evidence,
    look_again,
    new_sampling,
)
from slotwise.problem import Problem
from slotwise.selection.compiled import hot
from slotwise.selection.mix import Mix, new_mix

__all__ = ["ConTS"]


class ConTSState(NamedTuple):
    """Evidence, its posteriors, and the floor program on draws from them."""

    n_slots: int
    evidence: Evidence
    deficit: Deficit
    sampling: Sampling
    program: DrawnProgram
    mix: Mix


@hot
def choose(state: ConTSState, visitor: Visitor, rng: np.random.Generator) -> None:
    """Solve the floor program on a draw of the links that can matter."""
    follow_evidence(state.sampling, state.evidence)
    floor = clicks_wanted(state.deficit)
    solve_draw(state.program, state.sampling, state.n_slots, floor, rng, state.mix)


@hot
def rank(state: ConTSState, links: Links, worth: Floats) -> None:
    """Write what links are worth on average, at the price of the page chosen last."""
    rank_by_means(state.sampling.posterior, state.program.level_worth, links, worth)


@hot
def learn(
    state: ConTSState,
    visitor: Visitor,
    level: int,
    links: Links,
    slots: Links,
    probabilities: Floats,
    views: Floats,
    outcomes: Floats,
) -> None:
    """Count; the posteriors of the links counted move before the next page."""
    if level == 0:
        note_clicks(state.deficit, views, outcomes)
    count_links(state.evidence, state.sampling, level, links, views, outcomes)


@dataclass(frozen=True)
class ConTS(DeficitPolicy):
    """Con-TS: posterior sampling with the floor program.

        a ~ Beta(p + clicks, q + views - clicks),   b ~ Beta(r + revenue, s + clicks - revenue)
        x = floor program on (a b, a, floor)

    Draws are coherent: revenue never exceeds clicks; n levels draw one conditional rate each.
    Outcomes inside (0, 1) add their value to the one and the rest to the other count, which
    keeps the mean and makes the posterior no narrower than that of clicks.

    It needs no horizon and loses far less revenue than bounds that hold with certainty, but no
    bound keeps its floor: half of the draws overestimate clicks, and the program selects those.
    `deficit_feedback` makes up for it; Queue-TS keeps the floor by itself.
    `prior="fitted"` learns from the pool what an unknown link is like (see
    `slotwise.policies.knowledge.pool_prior`). `memory`, in rounds, lets counts fade where rates
    drift.
    Pages are drawn exactly as if every link were sampled; links that cannot matter are not (see
    `slotwise.policies.knowledge.posterior`).

    >>> from slotwise.policies import NOBODY, NO_SLOTS
    >>> from slotwise.problem import Problem
    >>> state = ConTS().start(Problem(n_links=4, n_slots=2, click_floor=0.5))
    >>> ConTS.learn(state, NOBODY, 0, np.array([2]), NO_SLOTS,
    ...             np.ones(1), np.full(1, 8.0), np.full(1, 2.0))
    >>> ConTS.choose(state, NOBODY, np.random.default_rng(1))
    >>> state.sampling.posterior.hits[0].tolist(), state.sampling.posterior.misses[0].tolist()
    ([1.0, 1.0, 3.0, 1.0], [1.0, 1.0, 7.0, 1.0])
    """

    prior: str = "uniform"
    deficit_feedback: bool = False
    memory: int | None = None

    name: ClassVar[str] = "con-ts"
    choose: ClassVar[Any] = staticmethod(choose)
    learn: ClassVar[Any] = staticmethod(learn)
    rank: ClassVar[Any] = staticmethod(rank)
    look_again: ClassVar[Any] = staticmethod(look_again)
    samples: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_prior(self.prior)
        check_memory(self.memory)

    def start(self, problem: Problem) -> ConTSState:
        """Return posteriors that are the prior."""
        require_click_floor_only(self.name, problem)
        return ConTSState(
            n_slots=problem.n_slots,
            evidence=new_evidence(problem, self.memory),
            deficit=new_deficit(problem, self.deficit_feedback, problem.horizon),
            sampling=new_sampling(problem, self.prior),
            program=new_drawn_program(problem),
            mix=new_mix(problem.n_links),
        )
