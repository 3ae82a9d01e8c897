"""Queue-KL: a queue for the floor, optimism for everything else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slotwise.policies.checks import (
    check_failure_probability,
    check_horizon,
    require_no_rate_floors,
)
from slotwise.policies.contract import Floats, Links, Visitor
from slotwise.policies.floors.queue import (
    QueuePolicy,
    Queues,
    new_queues,
    price_levels,
    queue_outcomes,
    score_links,
)
from slotwise.policies.knowledge.evidence import (
    Evidence,
    add_views,
    check_memory,
    count_rounds,
    is_time_to_look_again,
    new_evidence,
    weighted_counts,
)
from slotwise.policies.knowledge.width import Width, fixed_width, growing_width, widen
from slotwise.problem import Problem
from slotwise.selection.compiled import hot
from slotwise.selection.confidence import confidence_width, kl_upper
from slotwise.selection.mix import Mix, new_mix
from slotwise.selection.top_links import take_top_links
from slotwise.selection.top_page import Search, new_search

__all__ = ["QueueKL"]


class QueueKLState(NamedTuple):
    """Evidence, upper bounds per level and link, and the queues that weigh them."""

    width: Width
    evidence: Evidence
    queues: Queues
    bounds: Floats
    score: Floats
    search: Search
    mix: Mix


@hot
def choose(state: QueueKLState, visitor: Visitor, rng: np.random.Generator) -> None:
    """Take the links with the largest worth; exact ties share their slots."""
    queues, bounds, score = state.queues, state.bounds, state.score
    price_levels(queues, state.evidence.rounds)
    score_links(queues, bounds, 0, score)
    take_top_links(score, bounds[0], 0.0, queues.n_slots, state.search, state.mix)


@hot
def rank(state: QueueKLState, links: Links, worth: Floats) -> None:
    """Write the scores of links on the page chosen last."""
    for k in range(len(links)):
        worth[k] = state.score[links[k]]


@hot
def _set_bound(state: QueueKLState, level: int, link: int) -> None:
    total, n_views = weighted_counts(state.evidence, level, link)
    state.bounds[level, link] = kl_upper(total, n_views, state.width.now[0])


@hot
def look_again(state: QueueKLState) -> None:
    """Compute every bound again."""
    widen(state.width, state.evidence.rounds[0])
    for level in range(len(state.bounds)):
        for link in range(len(state.score)):
            _set_bound(state, level, link)


@hot
def learn(
    state: QueueKLState,
    visitor: Visitor,
    level: int,
    links: Links,
    slots: Links,
    probabilities: Floats,
    views: Floats,
    outcomes: Floats,
) -> None:
    """Count, move the bounds of the links counted, and let the queues grow or shrink."""
    evidence = state.evidence
    count_rounds(evidence, level, views)
    queue_outcomes(state.queues, level, views, outcomes, evidence.rounds)
    is_worth = state.queues.rewards[level] > 0.0
    for floor in range(len(state.queues.levels)):
        is_worth |= state.queues.levels[floor] == level
    for k in range(len(links)):
        add_views(evidence, level, links[k], views[k], outcomes[k])
        if is_worth:
            _set_bound(state, level, links[k])
    is_faded = is_time_to_look_again(evidence, level)
    if widen(state.width, state.evidence.rounds[0]) or is_faded:
        look_again(state)


@dataclass(frozen=True)
class QueueKL(QueuePolicy):
    """Queue-KL: show the links with the largest optimistic worth, clicks priced by the queue.

        show the L largest  V U(revenue) + Q U(clicks),   Q <- [Q + floor - clicks of the page]+
        U(sum, n) = max { q >= m : n kl(m, q) <= B },   m = sum / n,   V = sqrt(T)
        B = ln(4 n_levels K T / delta);  without a horizon V = sqrt(t), B = ln t + 3 ln ln t

    The shortfall never exceeds Q, which stays of the order of V; `knowledge(state)["queue"]`
    reads it. Several floors have a queue each. There is no program to solve, so a round costs
    little. With a horizon all bounds hold with probability 1 - delta; without one B is that of
    KL-UCB (Garivier and Cappé 2011), rounded up in steps of 0.1 in ln t, and
    `failure_probability` is not used.

    Use it where the floor must be kept from the first minutes and decisions must be the same
    for the same past. `memory`, in rounds, lets counts fade where rates drift (and t stop at
    the memory). The order of rounds matters to a queue: give it page by page what can be given so.

    >>> from slotwise.policies import NOBODY, NO_SLOTS
    >>> from slotwise.problem import Problem
    >>> policy = QueueKL()
    >>> state = policy.start(Problem(n_links=4, n_slots=2, click_floor=0.5))
    >>> QueueKL.learn(state, NOBODY, 0, np.array([2, 3]), NO_SLOTS,
    ...               np.ones(2), np.ones(2), np.zeros(2))
    >>> policy.knowledge(state)["queue"].tolist()          # one page without a click
    [0.5]
    """

    horizon: int | None = None
    failure_probability: float = 0.01
    memory: int | None = None

    name: ClassVar[str] = "queue-kl"
    choose: ClassVar[Any] = staticmethod(choose)
    learn: ClassVar[Any] = staticmethod(learn)
    rank: ClassVar[Any] = staticmethod(rank)
    look_again: ClassVar[Any] = staticmethod(look_again)

    def __post_init__(self) -> None:
        check_failure_probability(self.failure_probability)
        check_horizon(self.horizon)
        check_memory(self.memory)

    def start(self, problem: Problem) -> QueueKLState:
        """Return empty queues and bounds that nothing has lowered."""
        require_no_rate_floors(self.name, problem)
        horizon = self.horizon if self.horizon is not None else problem.horizon
        width = growing_width(self.memory)
        if horizon is not None:
            delta = self.failure_probability
            width = fixed_width(confidence_width(problem.n_links, horizon, delta, problem.n_levels))
        return QueueKLState(
            width=width,
            evidence=new_evidence(problem, self.memory),
            queues=new_queues(problem, horizon),
            bounds=np.ones((problem.n_levels, problem.n_links)),
            score=np.zeros(problem.n_links),
            search=new_search(problem.n_links),
            mix=new_mix(problem.n_links),
        )
