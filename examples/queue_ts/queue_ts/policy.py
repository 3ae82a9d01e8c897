"""Queue-TS: a queue for the floor, posterior sampling for everything else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from queue_ts.evidence import (
    Evidence,
    add_views,
    check_memory,
    count_rounds,
    is_refresh_due,
    new_evidence,
)
from queue_ts.pool_prior import PoolPrior, count_link, fit_prior, new_pool_prior
from queue_ts.posterior import (
    N_CHANGED,
    Posterior,
    draw_links,
    draw_reachable,
    mean_worth,
    new_posterior,
    note_change,
    set_posterior,
    start_draw,
    trials_and_hits,
)
from queue_ts.queues import (
    QueuePolicy,
    Queues,
    new_queues,
    price_levels,
    queue_outcomes,
)
from slotwise.compile import hot
from slotwise.errors import InvalidInput
from slotwise.policies.open_views import OpenLedger, count_open, new_open_views
from slotwise.policies.policy import Floats, LinkFeedback, Links, Visitor, check_horizon
from slotwise.problem import Problem
from slotwise.selection.mix import Mix, new_mix
from slotwise.selection.page_search import Entries, Objective, Search, new_search
from slotwise.selection.share_slots import share_top_page
from slotwise.selection.top_page import top_page

FIRST_DRAWS = 3
"""How many links, in pages, are drawn to find a threshold for the others."""


class QueueTSState(NamedTuple):
    """Evidence, the posteriors of all links, and the queues that weight their draws.

    `pool` is the prior that links share. `coming` is the expected change of each queue by open
    pages.
    """

    evidence: Evidence
    queues: Queues
    open: OpenLedger
    pool: PoolPrior
    posterior: Posterior
    mean_search: Search
    search: Search
    coming: Floats
    score: Floats
    mix: Mix


@hot
def refresh(state: QueueTSState) -> None:
    """Mark every posterior to be recomputed before the next page."""
    for link in range(len(state.posterior.is_changed)):
        note_change(state.posterior, link)


@hot
def _refresh_from_evidence(state: QueueTSState) -> None:
    """Compute the posterior of every changed link; they stay listed as changed.

    A prior that moves changes all links.
    """
    posterior, evidence = state.posterior, state.evidence
    n_levels = len(posterior.cap)
    if state.pool.is_fitted:
        for k in range(posterior.sizes[N_CHANGED]):
            link = posterior.changed[k]
            for level in range(n_levels):
                trials, hits = trials_and_hits(evidence, level, link)
                count_link(state.pool, level, link, trials, hits)
        if fit_prior(state.pool, posterior):
            refresh(state)
    for k in range(posterior.sizes[N_CHANGED]):
        link = posterior.changed[k]
        for level in range(n_levels):
            trials, hits = trials_and_hits(evidence, level, link)
            a = posterior.prior_hits[level] + hits
            b = posterior.prior_misses[level] + trials - hits
            set_posterior(posterior, level, link, a, b)


@hot
def _draw_first(state: QueueTSState, rng: np.random.Generator) -> int:
    """Start the draw of a page with the links of the highest mean values; return their number.

    They are more than a page, so that their threshold is close to the final one. The list of
    changed links is cleared.
    """
    posterior, search = state.posterior, state.mean_search
    for k in range(posterior.sizes[N_CHANGED]):
        posterior.is_changed[posterior.changed[k]] = False
    posterior.sizes[N_CHANGED] = 0
    start_draw(posterior, rng)
    mean_worth(posterior, state.queues.worth)
    worth = posterior.worth
    n_first = min(len(worth), FIRST_DRAWS * state.queues.n_slots)
    top_page(Entries(worth, worth, len(worth)), n_first, Objective(1.0, 0.0), search)
    return draw_links(posterior, search.first[n_first - 1], rng)


@hot
def _page_of_candidates(state: QueueTSState, n_candidates: int) -> float:
    """Find the best page among the drawn links; return the value of its last link."""
    compound, worth, search = state.posterior.compound, state.queues.worth, state.search
    for entry in range(n_candidates):
        state.score[entry] = 0.0
        for level in range(len(worth)):
            state.score[entry] += worth[level] * compound[level, entry]
    entries = Entries(state.score, compound[0], n_candidates)
    top_page(entries, state.queues.n_slots, Objective(1.0, 0.0), search)
    return search.first[state.queues.n_slots - 1]


@hot
def _expect_open(state: QueueTSState, level: int) -> float:
    """Return the expected outcomes of open views at a level, at the present means."""
    opened, expected = state.open.views[level], 0.0
    hits, misses = state.posterior.hits, state.posterior.misses
    for link in range(len(opened)):
        if opened[link] > 0.0:
            brought = opened[link]
            for each in range(level + 1):
                brought *= hits[each, link] / (hits[each, link] + misses[each, link])
            expected += brought
    return expected


@hot
def _expect_queues(state: QueueTSState) -> None:
    """Write the expected change of each queue by open pages."""
    queues, n_open = state.queues, state.open.pages
    for floor in range(len(state.coming)):
        level, debt = queues.levels[floor], 0.0
        if n_open[level] > 0.0:
            debt = queues.least[floor] * n_open[level] - _expect_open(state, level)
        if queues.rates[floor] > 0.0 and n_open[level - 1] > 0.0:
            debt += queues.rates[floor] * _expect_open(state, level - 1)
        state.coming[floor] = debt


@hot
def note_open(
    state: QueueTSState, visitor: Visitor, level: int, links: Links, n_views: float
) -> None:
    """Count page views whose feedback at a level is open."""
    count_open(state.open, visitor, level, links, n_views)


@hot
def choose(state: QueueTSState, visitor: Visitor, rng: np.random.Generator) -> None:
    """Draw the links that can matter and take those worth most."""
    posterior, queues = state.posterior, state.queues
    _refresh_from_evidence(state)
    _expect_queues(state)
    price_levels(queues, state.evidence.rounds, state.coming)
    threshold = _page_of_candidates(state, _draw_first(state, rng))
    _page_of_candidates(state, draw_reachable(posterior, queues.worth, threshold, rng))
    share_top_page(posterior.candidates, queues.n_slots, state.search, state.mix)


@hot
def rank(state: QueueTSState, links: Links, worth: Floats) -> None:
    """Write the mean values of links at the price of the page chosen last."""
    level_worth, posterior = state.queues.worth, state.posterior
    for k in range(len(links)):
        worth[k] = 0.0
        for level in range(len(level_worth) - 1, -1, -1):
            hits, misses = posterior.hits[level, links[k]], posterior.misses[level, links[k]]
            worth[k] = (level_worth[level] + worth[k]) * hits / (hits + misses)


@hot
def learn(state: QueueTSState, visitor: Visitor, level: int, feedback: LinkFeedback) -> None:
    """Count, and update the queues."""
    links, views, outcomes = feedback.links, feedback.views, feedback.outcomes
    count_rounds(state.evidence, level, views)
    for k in range(len(links)):
        add_views(state.evidence, level, links[k], views[k], outcomes[k])
        note_change(state.posterior, links[k])
    if is_refresh_due(state.evidence, level):
        refresh(state)
    queue_outcomes(state.queues, level, views, outcomes)


@dataclass(frozen=True)
class QueueTS(QueuePolicy):
    """Queue-TS: sample the rates of every link, price clicks by the queue, show the best.

        a ~ Beta(p + clicks, q + views - clicks),   b ~ Beta(r + revenue, s + clicks - revenue)
        show the L largest  V a b + Q a,   Q <- [Q + floor - clicks of the page]+
        V = sqrt(T), or sqrt(t) without a horizon

    The shortfall never exceeds Q, which stays of the order of V; `knowledge(state)["queue"]` reads
    it. Several floors, also on conditional rates, have a queue each; n levels draw one conditional
    rate each. Draws are coherent: revenue never exceeds clicks. Outcomes inside (0, 1) add their
    value to one count and the rest to the other, which preserves the mean and makes the posterior
    no narrower than that of clicks.

    Posterior sampling has small regret in practice and optimal regret in theory for such sums; with
    the queue it keeps the floor from the first minutes. `prior="fitted"` fits the prior of links to
    the pool (`PoolPrior`). `memory`, in rounds, discounts old counts where rates drift. The order
    of rounds matters to a queue: feed it page by page if possible. Where feedback is late, Q
    includes the expected debt of open pages: otherwise it grows while their clicks are pending.
    Pages have exactly the same distribution as if every link were sampled; links that cannot matter
    are not (see `queue_ts.posterior`).

    >>> from slotwise.policies import NOBODY, NO_SLOTS
    >>> from slotwise.problem import Problem
    >>> policy = QueueTS()
    >>> state = policy.start(Problem(n_links=4, n_slots=2, click_floor=0.5))
    >>> once = np.ones(2)
    >>> feedback = LinkFeedback(np.array([2, 3]), NO_SLOTS, once, once, np.zeros(2))
    >>> QueueTS.learn(state, NOBODY, 0, feedback)
    >>> policy.knowledge(state)["queue"].tolist()          # one page without a click
    [0.5]
    """

    horizon: int | None = None
    prior: str = "uniform"
    memory: int | None = None

    name: ClassVar[str] = "queue-ts"
    choose: ClassVar[Any] = staticmethod(choose)
    learn: ClassVar[Any] = staticmethod(learn)
    rank: ClassVar[Any] = staticmethod(rank)
    note_open: ClassVar[Any] = staticmethod(note_open)
    refresh: ClassVar[Any] = staticmethod(refresh)
    samples: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_horizon(self.horizon)
        if self.prior not in ("uniform", "fitted"):
            raise InvalidInput.of("prior", '"uniform" or "fitted"', self.prior)
        check_memory(self.memory)

    def start(self, problem: Problem) -> QueueTSState:
        """Return empty queues and posteriors equal to the prior."""
        horizon = self.horizon if self.horizon is not None else problem.horizon
        queues = new_queues(problem, horizon)
        return QueueTSState(
            evidence=new_evidence(problem, self.memory),
            queues=queues,
            open=new_open_views(problem),
            pool=new_pool_prior(problem, self.prior),
            posterior=new_posterior(problem),
            mean_search=new_search(problem.n_links),
            search=new_search(problem.n_links),
            coming=np.zeros(len(queues.lengths)),
            score=np.zeros(problem.n_links),
            mix=new_mix(problem.n_links),
        )
