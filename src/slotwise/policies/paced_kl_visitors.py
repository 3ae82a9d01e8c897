"""Paced KL for visitors that differ: one price for all, rates and optimism for each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.compile import hot, switching
from slotwise.policies.evidence import (
    Evidence,
    EvidencePolicy,
    add_views,
    count_rounds,
    new_evidence,
)
from slotwise.policies.policy import (
    Feedback,
    Floats,
    Knowledge,
    Links,
    State,
    Visitor,
    check_positive,
    require_no_rate_floors,
)
from slotwise.policies.prices import (
    QueuePolicy,
    Queues,
    SegmentFloors,
    moved_segment_floors,
    new_queues,
    new_segment_floors,
    price_clicks,
    price_levels,
    queue_clicks,
    queue_outcomes,
    segment_knowledge,
)
from slotwise.policies.visitor_effects import (
    KNOWN,
    VisitorEffects,
    learn_effects,
    new_visitor_effects,
    refresh_effects,
    score_links,
    unit_of,
    visitors_like_those_seen,
)
from slotwise.problem import Problem
from slotwise.selection.mix import Mix, new_mix
from slotwise.selection.page_search import Search, new_search
from slotwise.selection.share_slots import take_top_links

OF_LINKS = frozenset({"value_sums", "value_exposure", "link_exposure", "used_level"})
OF_VALUES = (
    *("value_sums", "value_exposure", "common_sums", "common_expected", "seen", "seen_at"),
)
"""What is known by level and value of a feature: sums over the visitors with the value."""

N_VISITORS = 64
"""Visitors that stand for those seen: enough for shares in steps of 1.6 %."""

BLOCK = 512
"""Links scored together: all levels of so many stay in the processor's first cache."""


class PacedKLVisitorsState(NamedTuple):
    """Evidence, the effects of visitors made from it, and the queues that set the price."""

    evidence: Evidence
    queues: Queues
    segment_floors: SegmentFloors
    effects: VisitorEffects
    score: Floats
    search: Search
    mix: Mix


@hot
def upper_bound(p: float, doubt: float) -> float:
    """Return the largest rate that is plausible where p was seen with this doubt."""
    upper = p + math.sqrt(2.0 * p * (1.0 - p) * doubt) + (2.0 / 3.0) * (1.0 - 2.0 * p) * doubt
    return min(1.0, upper)


@hot
def _price_in_sales(state: PacedKLVisitorsState, visitor: Visitor) -> None:
    """Compute what a unit of each level is worth to a visitor, in units of the typical sale."""
    queues = state.queues
    price_levels(queues, state.evidence.rounds)
    queues.worth[0] += price_clicks(state.segment_floors, visitor)
    sale = unit_of(state.effects, len(queues.worth) - 1)
    for level in range(len(queues.worth) - 1):
        queues.worth[level] += queues.rewards[level] * (1.0 / sale - 1.0)


@hot
def _score_block(state: PacedKLVisitorsState, visitor: Visitor, begin: int, end: int) -> None:
    """Write the scores of some links: the bound of each level at its worth."""
    effects, worth = state.effects, state.queues.worth
    score = state.score[begin:end]
    for link in range(len(score)):
        score[link] = 0.0
    for level in range(len(worth)):
        if worth[level] > 0.0:
            rate = effects.rate[level, : len(score)]
            bonus = effects.bonus[level, : len(score)]
            score_links(effects, visitor, level, begin, rate, bonus)
            for link in range(len(score)):
                score[link] += worth[level] * upper_bound(rate[link], bonus[link])


@hot
def choose(state: PacedKLVisitorsState, visitor: Visitor, rng: np.random.Generator) -> None:
    """Take the links with the largest bounds for this visitor, each level at its worth."""
    queues, score = state.queues, state.score
    _price_in_sales(state, visitor)
    for begin in range(0, len(score), BLOCK):
        _score_block(state, visitor, begin, min(begin + BLOCK, len(score)))
    level = state.effects.link_level[0]
    take_top_links(score, level, 0.0, queues.n_slots, state.search, state.mix)


@hot
def rank(state: PacedKLVisitorsState, links: Links, worth: Floats) -> None:
    """Write the scores of links on the page chosen last."""
    for k in range(len(links)):
        worth[k] = state.score[links[k]]


@hot
def look_again(state: PacedKLVisitorsState) -> None:
    """Recompute all that follows from what is known."""
    for level in range(len(state.queues.worth)):
        refresh_effects(state.effects, state.evidence, level)


@hot
def learn(
    state: PacedKLVisitorsState,
    visitor: Visitor,
    level: int,
    links: Links,
    slots: Links,
    probabilities: Floats,
    views: Floats,
    outcomes: Floats,
) -> None:
    """Count, let the queues of the level grow or shrink, and learn of the visitor."""
    count_rounds(state.evidence, level, views)
    queue_outcomes(state.queues, level, views, outcomes, state.evidence.rounds)
    if level == 0:
        queue_clicks(state.segment_floors, visitor, views, outcomes)
    for k in range(len(links)):
        add_views(state.evidence, level, links[k], views[k], outcomes[k])
    learn_effects(state.effects, state.evidence, visitor, level, links, views, outcomes)


@dataclass(frozen=True)
class PacedKLVisitors(QueuePolicy):
    """Paced KL where visitors have features; `PacedKL.for_problem` returns it for such problems.

        shown = the L largest  U_revenue(x) / s + price U_clicks(x)   for visitor x
        U     = p + sqrt(2 p (1 - p) d) + 2/3 (1 - 2p) d
        d     = c ln+(t L / (K N)) / n_link  +  p sum_f c ln+(t_f L / (K N_f)) / (E_f + tau_f)

    The best mix for visitors that differ has one price for all of them, so the queue and its price
    are those of `PacedKL`, but for s, the size of a typical sale: with it, revenue in another
    currency gives the same pages. The rate p of a link for a visitor is that of
    `knowledge.visitor_effects`; the second-order expansion of the KL bound takes the place
    of the bound, since d changes with every visitor. d adds up the doubts about the link and about
    what each feature does to it. Each has its own log, of the fair share of views over the views:
    of all views for the link, of those of visitors with the same value for a feature. So nothing is
    explored for a feature whose effects are known or do not matter. Floors of segments have a queue
    each (`slotwise.policies.prices`), whose prices add to that of the floor for all.
    """

    exploration: float = 0.5
    patience: float = 1.0

    name: ClassVar[str] = "paced-kl"
    choose: ClassVar[Any] = staticmethod(choose)
    uses_rng: ClassVar[bool] = False
    learn: ClassVar[Any] = staticmethod(learn)
    rank: ClassVar[Any] = staticmethod(rank)
    ranks_all: ClassVar[bool] = True
    look_again: ClassVar[Any] = staticmethod(look_again)
    needs: ClassVar[Any] = Feedback.PAGES_IN_ORDER
    per_link: ClassVar[frozenset[str]] = EvidencePolicy.per_link | OF_LINKS
    ordered_knowledge: ClassVar[Any] = frozenset({"queue", "segment_queue", *KNOWN}) - {
        "value_sums",
        "seen",
    }
    keeps_segment_floors: ClassVar[bool] = True
    uses_visitors: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive("exploration", self.exploration)
        check_positive("patience", self.patience)

    def start(self, problem: Problem) -> PacedKLVisitorsState:
        """Return a state in which every link is as good as the pool for everybody."""
        require_no_rate_floors(self.name, problem)
        state = PacedKLVisitorsState(
            evidence=new_evidence(problem),
            queues=new_queues(problem, patience=self.patience),
            segment_floors=new_segment_floors(problem, self.patience),
            effects=new_visitor_effects(problem, self.exploration),
            score=np.zeros(problem.n_links),
            search=new_search(problem.n_links),
            mix=new_mix(problem.n_links),
        )
        switching(look_again)(state)
        return state

    def learning_only(self, state: PacedKLVisitorsState) -> PacedKLVisitorsState:
        """Return the state without room for exploration bonuses: it can learn, but not choose."""
        none = np.zeros((0, 0, 0), np.float32)
        return state._replace(effects=state.effects._replace(value_bonus=none))

    def visitors_seen(self, state: PacedKLVisitorsState) -> NDArray[np.int64]:
        """Return visitors with the values that were seen, in the shares in which they were."""
        return visitors_like_those_seen(state.effects.seen[0], state.effects.feature_of, N_VISITORS)

    def knowledge(self, state: PacedKLVisitorsState) -> Knowledge:
        """Return the evidence, the queues and the effects."""
        effects = {name: getattr(state.effects, name).copy() for name in KNOWN}
        segments = {
            name: array.copy() for name, array in segment_knowledge(state.segment_floors).items()
        }
        return {**super().knowledge(state), **effects, **segments}

    def restore_beyond_counts(
        self, state: PacedKLVisitorsState, knowledge: Mapping[str, Floats]
    ) -> None:
        """Give `state` the queues and the effects."""
        super().restore_beyond_counts(state, knowledge)
        for name in KNOWN:
            getattr(state.effects, name)[:] = knowledge[name]
        for name, array in segment_knowledge(state.segment_floors).items():
            array[:] = knowledge[name]

    def merge_value(
        self,
        knowledge: Knowledge,
        problem: Problem,  # noqa: ARG002
        value: int,
        into: int,
    ) -> Knowledge:
        """Add what visitors with one value did to what those with another one did."""
        merged = {name: array.copy() for name, array in knowledge.items()}
        for name in OF_VALUES:
            merged[name][:, into] += merged[name][:, value]
            merged[name][:, value] = 0.0
        return merged

    def move(self, state: PacedKLVisitorsState, problem: Problem, kept: Links) -> State:
        """Return a state for a changed pool; a segment that still has a floor keeps its queue."""
        floors = moved_segment_floors(state.segment_floors, problem, self.patience)
        return super().move(state._replace(segment_floors=floors), problem, kept)
