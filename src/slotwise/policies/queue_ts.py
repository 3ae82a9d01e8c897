"""Queue-TS: a queue for the floor, posterior sampling for everything else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slotwise.policies.checks import check_horizon, check_prior
from slotwise.policies.contract import Floats, Links
from slotwise.policies.evidence import (
    Evidence,
    add_views,
    check_memory,
    count_rounds,
    is_time_to_look_again,
    new_evidence,
)
from slotwise.policies.pool_prior import PoolPrior, new_pool_prior
from slotwise.policies.posterior import (
    Posterior,
    draw_links,
    draw_reachable,
    mean_worth,
    new_posterior,
    note_change,
    start_draw,
)
from slotwise.policies.queue import (
    QueuePolicy,
    Queues,
    new_queues,
    price_levels,
    queue_outcomes,
)
from slotwise.policies.sampling import (
    change_all,
    follow_evidence,
    forget_changes,
    worth_of_first_draws,
)
from slotwise.problem import Problem
from slotwise.selection.compiled import hot
from slotwise.selection.mix import Mix, new_mix
from slotwise.selection.top_links import share_top_page
from slotwise.selection.top_page import Search, new_search, top_page

__all__ = ["QueueTS"]


class QueueTSState(NamedTuple):
    """Evidence, its posteriors, and the queues that weigh what is drawn from them."""

    n_slots: int
    evidence: Evidence
    queues: Queues
    pool: PoolPrior
    posterior: Posterior
    score: Floats
    average_search: Search
    search: Search
    mix: Mix


@hot
def _page_of_candidates(state: QueueTSState, n_candidates: int) -> float:
    """Find the best page among what was drawn; return the worth of its last link."""
    compound, worth = state.posterior.compound, state.queues.worth
    for entry in range(n_candidates):
        state.score[entry] = 0.0
        for level in range(len(worth)):
            state.score[entry] += worth[level] * compound[level, entry]
    top_page(state.score, compound[0], n_candidates, state.n_slots, 1.0, 0.0, state.search)
    return state.search.first[state.n_slots - 1]


@hot
def choose(state: QueueTSState, rng: np.random.Generator) -> None:
    """Draw the links that can matter and take those worth most."""
    posterior, queues = state.posterior, state.queues
    follow_evidence(posterior, state.evidence, state.pool)
    forget_changes(posterior)
    price_levels(queues, state.evidence.rounds[0])
    start_draw(posterior, rng)
    mean_worth(posterior, queues.worth)
    least = worth_of_first_draws(posterior, state.n_slots, state.average_search)
    threshold = _page_of_candidates(state, draw_links(posterior, least, rng))
    _page_of_candidates(state, draw_reachable(posterior, queues.worth, threshold, rng))
    share_top_page(
        posterior.compound[0], posterior.candidates, 0.0, state.n_slots, state.search, state.mix
    )


@hot
def look_again(state: QueueTSState) -> None:
    """Work out every posterior anew before the next page."""
    change_all(state.posterior)


@hot
def learn(
    state: QueueTSState,
    level: int,
    links: Links,
    probabilities: Floats,
    views: Floats,
    outcomes: Floats,
) -> None:
    """Count, and let the queues grow or shrink."""
    evidence = state.evidence
    count_rounds(evidence, level, views)
    queue_outcomes(state.queues, level, views, outcomes)
    for k in range(len(links)):
        add_views(evidence, level, links[k], views[k], outcomes[k])
        note_change(state.posterior, links[k])
    if is_time_to_look_again(evidence, level):
        change_all(state.posterior)


@dataclass(frozen=True)
class QueueTS(QueuePolicy):
    """Queue-TS: draw what every link may bring, price clicks by the queue, show the best.

        a ~ Beta(p + clicks, q + views - clicks),   b ~ Beta(r + revenue, s + clicks - revenue)
        show the L largest  V a b + Q a,   Q <- [Q + floor - clicks of the page]+
        V = sqrt(T), or sqrt(t) without a horizon

    The shortfall never exceeds Q, which stays of the order of V; `knowledge(state)["queue"]`
    reads it. Several floors, also on conditional rates, have a queue each; n levels draw one
    conditional rate each. Draws are coherent: revenue never exceeds clicks. Outcomes inside
    (0, 1) add their value to the one and the rest to the other count, which keeps the mean and
    makes the posterior no narrower than that of clicks.

    Posterior sampling has small regret in practice and optimal regret in theory for such sums;
    with the queue it keeps the floor from the first minutes. `prior="fitted"` learns from the
    pool what an unknown link is like (see `slotwise.policies.pool_prior`). `memory`, in rounds,
    lets counts fade where rates drift. It learns from pages, not from counts: the order of
    rounds matters to a queue. Pages are drawn exactly as if every link were sampled; links that
    cannot matter are not (see `slotwise.policies.posterior`).

    >>> from slotwise.problem import Problem
    >>> policy = QueueTS()
    >>> state = policy.start(Problem(n_links=4, n_slots=2, click_floor=0.5))
    >>> QueueTS.learn(state, 0, np.array([2, 3]), np.ones(2), np.ones(2), np.zeros(2))
    >>> policy.knowledge(state)["queue"].tolist()          # one page without a click
    [0.5]
    """

    horizon: int | None = None
    prior: str = "uniform"
    memory: int | None = None

    name: ClassVar[str] = "queue-ts"
    choose: ClassVar[Any] = staticmethod(choose)
    learn: ClassVar[Any] = staticmethod(learn)
    look_again: ClassVar[Any] = staticmethod(look_again)
    samples: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_horizon(self.horizon)
        check_prior(self.prior)
        check_memory(self, self.memory)

    def start(self, problem: Problem) -> QueueTSState:
        """Return empty queues and posteriors that are the prior."""
        horizon = self.horizon if self.horizon is not None else problem.horizon
        return QueueTSState(
            n_slots=problem.n_slots,
            evidence=new_evidence(problem, self.memory),
            queues=new_queues(problem, horizon),
            pool=new_pool_prior(problem, self.prior),
            posterior=new_posterior(problem),
            score=np.zeros(problem.n_links),
            average_search=new_search(problem.n_links),
            search=new_search(problem.n_links),
            mix=new_mix(problem.n_links),
        )
