"""CUCB, the baseline that considers only revenue. Found by the registry in `policies`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slotwise.compile import hot
from slotwise.policies.policy import (
    Choose,
    ChooseWithin,
    CountingPolicy,
    Counts,
    Floats,
    Knowledge,
    Learn,
    LinkFeedback,
    Links,
    Rank,
    State,
    Visitor,
    add_counts,
    new_counts,
    require_last_level_reward,
)
from slotwise.policies.within_rules import by_scores
from slotwise.problem import Problem
from slotwise.selection.confidence import cucb_bonus
from slotwise.selection.mix import Mix, new_mix
from slotwise.selection.page_search import Search, new_search
from slotwise.selection.passes import aligned_zeros, total_of, whole_vectors
from slotwise.selection.share_slots import take_top_links

NEVER_SHOWN = 1e150
"""Replaces 1 / sqrt(0): larger than any bound, so that links never shown come first."""


NONE = 1e-300
"""Replaces 0 views, by which nothing is divided."""


class CUCBState(NamedTuple):
    """Counts, each link's mean revenue and 1 / sqrt(views), and a buffer for those of a page."""

    n_slots: int
    counts: Counts
    mean: Floats
    width: Floats
    rounds: Floats
    search: Search
    mix: Mix
    page: Floats


@hot
def choose(state: CUCBState, visitor: Visitor, rng: np.random.Generator) -> None:
    """Take the links with the largest bounds; links with equal bounds share their slots."""
    bonus = cucb_bonus(1.0 + state.rounds[0])
    take_top_links(state.mean, state.width, bonus, state.n_slots, state.search, state.mix)


@hot
def rank(state: CUCBState, links: Links, worth: Floats) -> None:
    """Write the bounds of links."""
    bonus = cucb_bonus(1.0 + state.rounds[0])
    for k in range(len(links)):
        worth[k] = state.mean[links[k]] + bonus * state.width[links[k]]


@hot
def learn(state: CUCBState, visitor: Visitor, level: int, feedback: LinkFeedback) -> None:
    """Count; the round number advances with the last level, the only one that matters here."""
    links, views, outcomes = feedback.links, feedback.views, feedback.outcomes
    counts = state.counts
    last = len(counts.views) - 1
    add_counts(counts, level, links, views, outcomes)
    if level == last:
        state.rounds[0] += total_of(views) / state.n_slots
        mean, n_views = state.page[0], state.page[1]  # in vectors, as in Con-UCB
        for k in range(len(links)):
            mean[k] = counts.sums[last, links[k]]
            n_views[k] = max(counts.views[last, links[k]], NONE)
        for k in range(whole_vectors(len(links))):
            mean[k] /= n_views[k]
            n_views[k] = 1.0 / np.sqrt(n_views[k])
        for k in range(len(links)):
            if counts.views[last, links[k]] > 0.0:
                state.mean[links[k]], state.width[links[k]] = mean[k], n_views[k]


@dataclass(frozen=True)
class CUCB(CountingPolicy):
    """CUCB (Chen, Wang and Yuan 2013), fed with revenue; it ignores the floor.

        show the L largest  m_i + sqrt(3 ln t / (2 n_i)),   m_i = sum_i / n_i

    Links never shown come first; no cap at 1. `t` counts the rounds whose revenue is settled.

    >>> from slotwise.policies import NOBODY, NO_SLOTS
    >>> from slotwise.problem import Problem
    >>> state = CUCB().start(Problem(n_links=3, n_slots=1))
    >>> once = np.ones(1)
    >>> CUCB.learn(state, NOBODY, 1, LinkFeedback(np.array([0]), NO_SLOTS, once, once, once))
    >>> CUCB.choose(state, NOBODY, np.random.default_rng(1))
    >>> state.mix.open[:2].tolist()          # links 1 and 2 were never shown
    [1, 2]
    """

    name: ClassVar[str] = "cucb"
    choose: ClassVar[Choose] = staticmethod(choose)
    learn: ClassVar[Learn] = staticmethod(learn)
    rank: ClassVar[Rank] = staticmethod(rank)
    choose_within: ClassVar[ChooseWithin] = staticmethod(by_scores(choose, rank))
    keeps_floor: ClassVar[bool] = False

    def start(self, problem: Problem) -> CUCBState:
        """Return a state in which no link was ever shown."""
        require_last_level_reward(self.name, problem)
        mean, width = aligned_zeros(problem.n_links), aligned_zeros(problem.n_links)
        width[:] = NEVER_SHOWN
        return CUCBState(
            n_slots=problem.n_slots,
            counts=new_counts(problem),
            mean=mean,
            width=width,
            rounds=np.zeros(1),
            search=new_search(problem.n_links),
            mix=new_mix(problem.n_links),
            page=np.ones((2, whole_vectors(problem.n_links))),
        )

    def knowledge(self, state: CUCBState) -> Knowledge:
        """Return the counts and the number of rounds behind them."""
        return {**super().knowledge(state), "rounds": state.rounds.copy()}

    def restore(self, problem: Problem, knowledge: Mapping[str, Floats]) -> State:
        """Return a state that has seen these counts in this many rounds."""
        state: Any = super().restore(problem, knowledge)
        state.rounds[:] = knowledge["rounds"]
        return state
