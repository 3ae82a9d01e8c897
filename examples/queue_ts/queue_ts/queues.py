"""Queues that price the floors: what the page owes, over the root of the rounds.

    Q <- [Q + h pages - outcomes]+          as page views settle
    score of a link = reward + (Q / V) * its outcome of the floor's level

A queue grows while pages fall short of the floor and shrinks while they exceed it, so by induction
the shortfall so far never exceeds it. Q / V estimates the floor's shadow price, with V = sqrt(T),
or the root of the rounds settled so far without a horizon.

Pages are settled views over slots, so batches are counted correctly, and late feedback moves the
queue when it settles. A batch of good and bad pages is one step: the order of rounds matters to a
queue, since it discards a surplus.

A floor on the part of one level that reaches the next, C^j - rate C^(j-1), owes `rate` of the
outcomes of the level before until its own level has settled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from queue_ts.evidence import EvidencePolicy
from slotwise.compile import inner
from slotwise.policies.policy import (
    Debt,
    Feedback,
    Floats,
    Knowledge,
    Links,
    State,
)
from slotwise.problem import Problem
from slotwise.selection.passes import total_of


class Queues(NamedTuple):
    """One queue per floor, and the value of a unit of each level that results from them.

    Floor f requires `least[f]` of level `levels[f]` per page, less `rates[f]` of the level before.
    `root_horizon` is zero if the horizon is not known.
    """

    lengths: Floats
    levels: Links
    least: Floats
    rates: Floats
    rewards: Floats
    worth: Floats
    n_slots: int
    root_horizon: float


def new_queues(problem: Problem, horizon: int | None = None) -> Queues:
    """Return empty queues, one for each floor above 0."""
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


@inner
def queue_outcomes(queues: Queues, level: int, views: Floats, outcomes: Floats) -> None:
    """Add what page views owe to the queues of a level and subtract their outcomes."""
    if len(queues.lengths) == 0:
        return
    pages, brought = total_of(views) / queues.n_slots, total_of(outcomes)
    for floor in range(len(queues.lengths)):
        if queues.levels[floor] == level:
            owed = queues.lengths[floor] + queues.least[floor] * pages - brought
            queues.lengths[floor] = max(0.0, owed)
        elif queues.levels[floor] == level + 1:
            queues.lengths[floor] += queues.rates[floor] * brought


@inner
def price_levels(queues: Queues, rounds: Floats, coming: Floats) -> None:
    """Compute the value of a unit of each level: its reward and the prices of its queues.

    `coming` is the expected change of each queue by open pages; it may be negative.
    """
    root = queues.root_horizon if queues.root_horizon > 0.0 else math.sqrt(max(1.0, rounds[0]))
    for level in range(len(queues.worth)):
        queues.worth[level] = queues.rewards[level]
    for floor in range(len(queues.lengths)):
        level = queues.levels[floor]
        price = max(0.0, queues.lengths[floor] + coming[floor]) / root
        queues.worth[level] += price
        if queues.rates[floor] > 0.0:
            queues.worth[level - 1] -= queues.rates[floor] * price


class QueuePolicy(EvidencePolicy):
    """A policy whose state has `evidence` and `queues`; the queues are part of its knowledge.

    `knowledge(state)["queue"]` is what the page owes, in clicks for the click floor: the shortfall
    never exceeds it.
    """

    needs: ClassVar[Any] = Feedback.COUNTS_IN_ORDER
    debt: ClassVar[Debt] = Debt.QUEUE

    def knowledge(self, state: Any) -> Knowledge:
        """Return the evidence and the queues."""
        return {**super().knowledge(state), "queue": state.queues.lengths.copy()}

    def restore_beyond_counts(self, state: Any, knowledge: Mapping[str, Floats]) -> None:
        """Restore the queues of `state`."""
        state.queues.lengths[:] = knowledge["queue"]

    def move(self, state: Any, problem: Problem, kept: Links) -> State:
        """Return a state for a changed pool; a floor that stays keeps its queue."""
        before = state.queues
        place = {
            floor: k for k, floor in enumerate(zip(before.levels, before.rates > 0.0, strict=True))
        }
        floors = [place.get((floor.level, floor.rate > 0.0)) for floor in problem.active_floors]
        if floors == list(range(len(before.lengths))):
            return super().move(state, problem, kept)
        after = new_queues(problem)
        for new, old in enumerate(floors):
            if old is not None:
                after.lengths[new] = before.lengths[old]
        return super().move(state._replace(queues=after), problem, kept)
