"""Paced Bayes: one optimistic score a link, and a price paced by the floor's promise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slotwise.policies.checks import check_positive, require_no_rate_floors
from slotwise.policies.contract import Floats, Knowledge, Links, Policy, Visitor
from slotwise.policies.evidence import Evidence, add_views, count_rounds, new_evidence
from slotwise.policies.joint_posterior import (
    JointPosterior,
    new_joint_posterior,
    note_outcomes,
    outcome_worth,
    refit_level,
    refresh_posteriors,
    reward_in_sales,
    score_jointly,
)
from slotwise.policies.paced_kl_visitors import PacedKLVisitors
from slotwise.policies.queue import QueuePolicy, Queues, new_queues, queue_outcomes
from slotwise.problem import Problem
from slotwise.selection.compiled import hot
from slotwise.selection.mix import Mix, new_mix
from slotwise.selection.top_links import take_top_links
from slotwise.selection.top_page import Search, new_search

__all__ = ["PacedBayes"]

FITTED = ("pool", "clock", "sales")
"""What is known of the pool as a whole: parts of the posterior that are saved."""


class PacedBayesState(NamedTuple):
    """Evidence, the posterior made from it, and the queues that set the price of each level."""

    evidence: Evidence
    queues: Queues
    posterior: JointPosterior
    score: Floats
    search: Search
    mix: Mix


@hot
def _price_levels(state: PacedBayesState) -> None:
    """Compute what a unit of each level is worth, in sales: its reward and its floor's price."""
    queues = state.queues
    for level in range(len(queues.worth)):
        queues.worth[level] = reward_in_sales(state.posterior, queues.rewards, level)
    for floor in range(len(queues.lengths)):
        level = queues.levels[floor]
        promised = queues.least[floor] * (state.evidence.rounds[level] + 1.0)
        unit = outcome_worth(state.posterior, queues.rewards, level)
        queues.worth[level] += (
            unit * queues.lengths[floor] / (queues.patience * math.sqrt(promised))
        )


@hot
def choose(state: PacedBayesState, visitor: Visitor, rng: np.random.Generator) -> None:
    """Take the links with the largest bound on what showing them is worth."""
    refresh_posteriors(state.posterior, state.evidence)
    _price_levels(state)
    score_jointly(state.posterior, state.queues.worth, state.score)
    clicks = state.posterior.mean[0]
    take_top_links(state.score, clicks, 0.0, state.queues.n_slots, state.search, state.mix)


@hot
def rank(state: PacedBayesState, links: Links, worth: Floats) -> None:
    """Write the scores of links on the page chosen last."""
    for k in range(len(links)):
        worth[k] = state.score[links[k]]


@hot
def look_again(state: PacedBayesState) -> None:
    """Let all posteriors be recomputed before the next page."""
    state.posterior.is_stale[:] = True


@hot
def learn(
    state: PacedBayesState,
    visitor: Visitor,
    level: int,
    links: Links,
    slots: Links,
    probabilities: Floats,
    views: Floats,
    outcomes: Floats,
) -> None:
    """Count, let the queues of the level grow or shrink, and refit the pool as it grows."""
    count_rounds(state.evidence, level, views)
    queue_outcomes(state.queues, level, views, outcomes, state.evidence.rounds)
    note_outcomes(state.posterior, level, links, views, outcomes)
    for k in range(len(links)):
        add_views(state.evidence, level, links[k], views[k], outcomes[k])
    refit_level(state.posterior, state.evidence, level)


@dataclass(frozen=True)
class PacedBayes(QueuePolicy):
    """Paced Bayes: show the links whose worth may be largest, at a price that follows the floor.

        shown = the L largest  E + sqrt(2 w Var) + (2/3) w Var / E  of  a (b + price)
        w     = c ln(1 + t L / (K N))
        price = b0 Q / (v sqrt(floor t)),   b0 the pool's mean revenue per click
        Q    <- the paced queue of `slotwise.policies.queue`

    a and b are the posterior click rate and revenue per click of a link, under priors fitted to
    the pool (`slotwise.policies.joint_posterior`). One bound on the whole score explores less
    than the sum of two, which counts the doubt about the click twice. The price is in units of
    what a click earns, so that revenue in another currency gives the same pages. c =
    `exploration`, v = `patience`: larger is smoother and slower to react.

    Needs no horizon and no tuning. Several floors have a queue each. No bound on regret is proven
    for the parts together; the leaderboard shows what it does.

    >>> from slotwise.policies import NOBODY
    >>> from slotwise.problem import Problem
    >>> state = PacedBayes().start(Problem(n_links=4, n_slots=2, click_floor=0.5))
    >>> PacedBayes.choose(state, NOBODY, np.random.default_rng(1))
    >>> state.mix.chances[:4].tolist()
    [0.5, 0.5, 0.5, 0.5]
    """

    exploration: float = 2 / 3
    patience: float = 0.25

    name: ClassVar[str] = "paced-bayes"
    choose: ClassVar[Any] = staticmethod(choose)
    learn: ClassVar[Any] = staticmethod(learn)
    rank: ClassVar[Any] = staticmethod(rank)
    look_again: ClassVar[Any] = staticmethod(look_again)
    ordered_knowledge: ClassVar[Any] = frozenset({"queue", *FITTED})

    def __post_init__(self) -> None:
        check_positive("exploration", self.exploration)
        check_positive("patience", self.patience)

    def for_problem(self, problem: Problem) -> Policy:
        """Return this policy, or paced KL for visitors where they have features."""
        return PacedKLVisitors() if problem.feature_sizes else self

    def start(self, problem: Problem) -> PacedBayesState:
        """Return a state in which nothing but the prior is known."""
        require_no_rate_floors(self.name, problem)
        return PacedBayesState(
            evidence=new_evidence(problem),
            queues=new_queues(problem, patience=self.patience),
            posterior=new_joint_posterior(problem, self.exploration),
            score=np.zeros(problem.n_links),
            search=new_search(problem.n_links),
            mix=new_mix(problem.n_links),
        )

    def knowledge(self, state: PacedBayesState) -> Knowledge:
        """Return the evidence, the queues and what was fitted to the pool."""
        fitted = {name: getattr(state.posterior, name).copy() for name in FITTED}
        return {**super().knowledge(state), **fitted}

    def restore_beyond_counts(
        self, state: PacedBayesState, knowledge: Mapping[str, Floats]
    ) -> None:
        """Give `state` the queues and what was fitted to the pool."""
        super().restore_beyond_counts(state, knowledge)
        for name in FITTED:
            getattr(state.posterior, name)[:] = knowledge[name]
