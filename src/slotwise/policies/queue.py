"""Virtual queues: what a page owes its floors, one number a floor (drift plus penalty).

    Q <- [Q + h pages - outcomes]+          as page views settle
    score of a link = reward + (Q / V) * what it brings of the floor's level

A queue grows while the page falls short of its floor and shrinks while it brings more, so by
induction the shortfall so far never exceeds it. Q / V estimates the floor's shadow price:
V = sqrt(T), or the root of the rounds settled so far where no horizon is known.

Pages are settled views over slots, so a batch of page views counts as what it is, and late
feedback moves the queue when it settles. A batch that mixes good and bad pages is taken in as
one: the order of rounds matters to a queue, which forgets a surplus.

A floor on the part of one level that reaches the next, C^j - rate C^(j-1), owes `rate` of what
the level before brought until its own level has settled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slotwise.policies.contract import Floats, Knowledge, Links
from slotwise.policies.evidence import EvidencePolicy
from slotwise.problem import Problem
from slotwise.selection.compiled import hot

__all__ = ["QueuePolicy", "Queues", "new_queues", "price_levels", "queue_outcomes"]


class Queues(NamedTuple):
    """One queue a floor, and what a unit of each level is worth because of them.

    Floor f asks for `least[f]` of level `levels[f]` a page, less `rates[f]` of the level before.
    `root_horizon` is zero where the horizon is not known.
    """

    lengths: Floats
    levels: Links
    least: Floats
    rates: Floats
    rewards: Floats
    worth: Floats
    n_slots: int
    root_horizon: float


def new_queues(problem: Problem, horizon: int | None) -> Queues:
    """Return empty queues, one for each floor that asks for something."""
    floors = problem.active_floors
    return Queues(
        lengths=np.zeros(len(floors)),
        levels=np.array([floor.level for floor in floors], np.int64),
        least=np.array([floor.least for floor in floors], np.float64),
        rates=np.array([floor.rate for floor in floors], np.float64),
        rewards=np.array([problem.rewards.get(level, 0.0) for level in problem.levels]),
        worth=np.zeros(problem.n_levels),
        n_slots=problem.n_slots,
        root_horizon=math.sqrt(horizon) if horizon else 0.0,
    )


@hot
def queue_outcomes(queues: Queues, level: int, views: Floats, outcomes: Floats) -> None:
    """Let the queues of a level grow by what its page views owe and shrink by what came."""
    if len(queues.lengths) == 0:
        return
    n_views = 0.0
    brought = 0.0
    for k in range(len(views)):
        n_views += views[k]
        brought += outcomes[k]
    pages = n_views / queues.n_slots
    for floor in range(len(queues.lengths)):
        if queues.levels[floor] == level:
            owed = queues.lengths[floor] + queues.least[floor] * pages - brought
            queues.lengths[floor] = max(0.0, owed)
        elif queues.levels[floor] == level + 1:
            queues.lengths[floor] += queues.rates[floor] * brought


@hot
def price_levels(queues: Queues, rounds: float) -> None:
    """Work out what a unit of each level is worth: its reward and the queues it shortens."""
    root = queues.root_horizon if queues.root_horizon > 0.0 else math.sqrt(max(1.0, rounds))
    for level in range(len(queues.worth)):
        queues.worth[level] = queues.rewards[level]
    for floor in range(len(queues.lengths)):
        price = queues.lengths[floor] / root
        level = queues.levels[floor]
        queues.worth[level] += price
        if queues.rates[floor] > 0.0:
            queues.worth[level - 1] -= queues.rates[floor] * price


class QueuePolicy(EvidencePolicy):
    """A policy whose state holds `evidence` and `queues`; the queues are part of what it knows.

    `knowledge(state)["queue"]` is what the page owes, in clicks for the click floor: no page
    has ever fallen further behind its floor than that.
    """

    learns_from_counts: ClassVar[bool] = False
    moves_each_round: ClassVar[bool] = True

    def knowledge(self, state: Any) -> Knowledge:
        """Return the evidence and the queues."""
        return {**super().knowledge(state), "queue": state.queues.lengths.copy()}

    def restore_beyond_counts(self, state: Any, knowledge: Mapping[str, Floats]) -> None:
        """Give `state` the queues of `knowledge`."""
        state.queues.lengths[:] = knowledge["queue"]
