"""Virtual queues: what a page owes its floors, one number a floor (drift plus penalty).

    Q <- [Q + h pages - outcomes]+          as page views settle
    score of a link = reward + (Q / V) * what it brings of the floor's level

A queue grows while the page falls short of its floor and shrinks while it brings more, so by
induction the shortfall so far never exceeds it. Q / V estimates the floor's shadow price:
V = sqrt(T), or the root of the rounds settled so far where no horizon is known.

A *paced* queue (`patience` above 0) takes V = patience sqrt(h t), the root of what the floor
has promised so far, and its reserve, the part of Q that is not owed, grows with that root:

    Q <- [Q + h pages - outcomes + growth]+
    growth = reserve / (2t) + sqrt(h / t) / 4 while something is owed,   reserve = [Q - owed+]+

The second term is for a floor that is expensive from the first round on. Its queue must reach
price * V, and without a reserve only debt makes it longer: the page would owe price * V for ever.
The term adds up to V / 2, so that a price of up to a half is reached without debt.

Pages are settled views over slots, so a batch of page views counts as what it is, and late
feedback moves the queue when it settles. A batch that mixes good and bad pages is taken in as
one: the order of rounds matters to a queue, which does not carry a surplus over.

A floor on the part of one level that reaches the next, C^j - rate C^(j-1), owes `rate` of what
the level before brought until its own level has settled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slotwise.policies.contract import Feedback, Floats, Knowledge, Links, State
from slotwise.policies.knowledge.evidence import EvidencePolicy, WithMemory
from slotwise.problem import Problem
from slotwise.selection.compiled import inner
from slotwise.selection.vectors.totals import total_of

__all__ = [
    "QueuePolicy",
    "Queues",
    "new_queues",
    "paced_length",
    "price_levels",
    "queue_outcomes",
    "queue_totals",
    "score_link",
    "score_links",
]

DEBT_GROWTH = 0.25
"""How fast a paced queue grows while something is owed, in sqrt(floor / rounds) a page."""


class Queues(NamedTuple):
    """One queue a floor, and what a unit of each level is worth because of them.

    Floor f asks for `least[f]` of level `levels[f]` a page, less `rates[f]` of the level before.
    `owed` is what all settled pages together lack. `root_horizon` is zero where the horizon is
    not known, `patience` where the queues are not paced.
    """

    lengths: Floats
    owed: Floats
    levels: Links
    least: Floats
    rates: Floats
    rewards: Floats
    worth: Floats
    n_slots: int
    root_horizon: float
    patience: float


def new_queues(problem: Problem, horizon: int | None = None, patience: float = 0.0) -> Queues:
    """Return empty queues, one for each floor that asks for something."""
    floors = problem.active_floors
    return Queues(
        lengths=np.zeros(len(floors)),
        owed=np.zeros(len(floors)),
        levels=np.array([floor.level for floor in floors], np.int64),
        least=np.array([floor.least for floor in floors], np.float64),
        rates=np.array([floor.rate for floor in floors], np.float64),
        rewards=np.array([problem.rewards.get(level, 0.0) for level in problem.levels]),
        worth=np.zeros(problem.n_levels),
        n_slots=problem.n_slots,
        root_horizon=math.sqrt(horizon) if horizon else 0.0,
        patience=patience,
    )


@inner
def paced_length(
    queues: Queues, floor: int, missing: float, n_pages: float, rounds: float
) -> float:
    """Return the length of a paced queue after `n_pages` of `rounds` pages lacked `missing`."""
    length = queues.lengths[floor]
    queues.owed[floor] += missing
    reserve = max(0.0, length - max(0.0, queues.owed[floor]))
    growth = min(0.5, 0.5 * n_pages / rounds) * reserve
    if queues.owed[floor] > 0.0:
        growth += DEBT_GROWTH * math.sqrt(queues.least[floor] / rounds) * n_pages
    return max(0.0, length + missing + growth)


@inner
def queue_outcomes(
    queues: Queues, level: int, views: Floats, outcomes: Floats, rounds: Floats
) -> None:
    """Let the queues of a level grow by what its page views owe and shrink by what came.

    `rounds` are those settled at each level, the present ones included.
    """
    if len(queues.lengths) > 0:
        queue_totals(queues, level, total_of(views), total_of(outcomes), rounds)


@inner
def queue_totals(
    queues: Queues, level: int, n_views: float, brought: float, rounds: Floats
) -> None:
    """Do as `queue_outcomes` with the number of views and the sum of what they brought."""
    pages = n_views / queues.n_slots
    for floor in range(len(queues.lengths)):
        if queues.levels[floor] == level:
            if queues.patience == 0.0:
                owed = queues.lengths[floor] + queues.least[floor] * pages - brought
                queues.lengths[floor] = max(0.0, owed)
            elif pages > 0.0 or brought > 0.0:
                missing = queues.least[floor] * pages - brought
                queues.lengths[floor] = paced_length(queues, floor, missing, pages, rounds[level])
        elif queues.levels[floor] == level + 1:
            queues.lengths[floor] += queues.rates[floor] * brought


@inner
def price_levels(queues: Queues, rounds: Floats) -> None:
    """Compute what a unit of each level is worth: its reward and the queues it shortens."""
    root = queues.root_horizon if queues.root_horizon > 0.0 else math.sqrt(max(1.0, rounds[0]))
    for level in range(len(queues.worth)):
        queues.worth[level] = queues.rewards[level]
    for floor in range(len(queues.lengths)):
        level = queues.levels[floor]
        if queues.patience > 0.0:
            root = queues.patience * math.sqrt(queues.least[floor] * (rounds[level] + 1.0))
        price = queues.lengths[floor] / root
        queues.worth[level] += price
        if queues.rates[floor] > 0.0:
            queues.worth[level - 1] -= queues.rates[floor] * price


@inner
def score_link(queues: Queues, bounds: Floats, first_level: int, link: int, score: Floats) -> None:
    """Write one link's sum of bounds as `score_links` does."""
    score[link] = 0.0
    for level in range(first_level, len(bounds)):
        score[link] += queues.worth[level] * bounds[level, link]


@inner
def score_links(queues: Queues, bounds: Floats, first_level: int, score: Floats) -> None:
    """Write each link's sum of bounds from a level on, each at the worth of its level."""
    is_blank = True
    for level in range(first_level, len(bounds)):
        worth, bound = queues.worth[level], bounds[level]
        if is_blank:
            for link in range(len(score)):
                score[link] = worth * bound[link]
        elif worth != 0.0:
            for link in range(len(score)):
                score[link] += worth * bound[link]
        is_blank = False
    if is_blank:
        for link in range(len(score)):
            score[link] = 0.0


class QueuePolicy(EvidencePolicy):
    """A policy whose state holds `evidence` and `queues`; the queues are part of what it knows.

    `knowledge(state)["queue"]` is what the page owes, in clicks for the click floor: no page
    has ever fallen further behind its floor than that.
    """

    needs: ClassVar[Any] = Feedback.COUNTS_IN_ORDER
    ordered_knowledge: ClassVar[Any] = WithMemory(
        frozenset({"queue"}), EvidencePolicy.per_link | {"queue"}
    )
    moves_each_round: ClassVar[bool] = True

    def knowledge(self, state: Any) -> Knowledge:
        """Return the evidence and the queues."""
        known = {**super().knowledge(state), "queue": state.queues.lengths.copy()}
        if state.queues.patience > 0.0:
            known["owed"] = state.queues.owed.copy()
        return known

    def restore_beyond_counts(self, state: Any, knowledge: Mapping[str, Floats]) -> None:
        """Give `state` the queues of `knowledge`."""
        state.queues.lengths[:] = knowledge["queue"]
        if state.queues.patience > 0.0:
            state.queues.owed[:] = knowledge["owed"]

    def move(self, state: Any, problem: Problem, kept: Links) -> State:
        """Return a state for a changed pool; a floor that stays keeps its queue."""
        before = state.queues
        place = {
            floor: k for k, floor in enumerate(zip(before.levels, before.rates > 0.0, strict=True))
        }
        floors = [place.get((floor.level, floor.rate > 0.0)) for floor in problem.active_floors]
        if floors == list(range(len(before.lengths))):
            return super().move(state, problem, kept)
        after = new_queues(problem, patience=before.patience)
        for new, old in enumerate(floors):
            if old is not None:
                after.lengths[new], after.owed[new] = before.lengths[old], before.owed[old]
        return super().move(state._replace(queues=after), problem, kept)
