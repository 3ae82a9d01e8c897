"""What the sampling policies share: posteriors that follow the evidence, and the average page."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.compile import hot, switching
from slotwise.policies.evidence import Evidence, add_views, count_rounds, is_time_to_look_again
from slotwise.policies.policy import Floats, Links, Policy
from slotwise.policies.posterior import (
    N_CHANGED,
    PoolPrior,
    Posterior,
    draw_links,
    fit_prior,
    mean_worth,
    new_pool_prior,
    new_posterior,
    note_change,
    set_posterior,
    start_draw,
    take_in_link,
    trials_and_hits,
)
from slotwise.policies.within_rules import choosing_within
from slotwise.problem import Problem, whole_number
from slotwise.selection.mix import dense_probabilities
from slotwise.selection.page_rules import PageRules
from slotwise.selection.page_search import Entries, Objective, Search, new_search
from slotwise.selection.top_page import top_page

FIRST_DRAWS = 3
"""How many links, in pages, are drawn to find a threshold for the others."""


class Sampling(NamedTuple):
    """The posteriors of all links, the prior they share, and room for two searches."""

    pool: PoolPrior
    posterior: Posterior
    mean_search: Search
    search: Search


def new_sampling(problem: Problem, prior: str) -> Sampling:
    """Return posteriors that are the prior."""
    return Sampling(
        pool=new_pool_prior(problem, prior),
        posterior=new_posterior(problem),
        mean_search=new_search(problem.n_links),
        search=new_search(problem.n_links),
    )


@hot
def _change_all(posterior: Posterior) -> None:
    for link in range(len(posterior.is_changed)):
        note_change(posterior, link)


@hot
def look_again(state: Any) -> None:
    """Let every posterior be computed again before the next page."""
    _change_all(state.sampling.posterior)


@hot
def count_links(
    evidence: Evidence,
    sampling: Sampling,
    level: int,
    links: Links,
    views: Floats,
    outcomes: Floats,
) -> None:
    """Count; the posteriors of the links counted move before the next page."""
    count_rounds(evidence, level, views)
    for k in range(len(links)):
        add_views(evidence, level, links[k], views[k], outcomes[k])
        note_change(sampling.posterior, links[k])
    if is_time_to_look_again(evidence, level):
        _change_all(sampling.posterior)


@hot
def follow_evidence(sampling: Sampling, evidence: Evidence) -> None:
    """Compute the posterior of every changed link; they stay listed as changed.

    A prior that moves changes all links.
    """
    posterior, pool = sampling.posterior, sampling.pool
    n_levels = len(posterior.cap)
    if pool.is_fitted:
        for k in range(posterior.sizes[N_CHANGED]):
            link = posterior.changed[k]
            for level in range(n_levels):
                trials, hits = trials_and_hits(evidence, level, link)
                take_in_link(pool, level, link, trials, hits)
        if fit_prior(pool, posterior):
            _change_all(posterior)
    for k in range(posterior.sizes[N_CHANGED]):
        link = posterior.changed[k]
        for level in range(n_levels):
            trials, hits = trials_and_hits(evidence, level, link)
            a = posterior.prior_hits[level] + hits
            b = posterior.prior_misses[level] + trials - hits
            set_posterior(posterior, level, link, a, b)


@hot
def draw_first(
    sampling: Sampling, level_worth: Floats, n_slots: int, rng: np.random.Generator
) -> int:
    """Start the draw of a page with the links that are worth most on average; count them.

    They are more than a page: the threshold that they set is then close to the final one. The
    list of changed links is cleared.
    """
    posterior = sampling.posterior
    for k in range(posterior.sizes[N_CHANGED]):
        posterior.is_changed[posterior.changed[k]] = False
    posterior.sizes[N_CHANGED] = 0
    start_draw(posterior, rng)
    mean_worth(posterior, level_worth)
    worth, search = posterior.worth, sampling.mean_search
    n_first = min(len(worth), FIRST_DRAWS * n_slots)
    top_page(Entries(worth, worth, len(worth)), n_first, Objective(1.0, 0.0), search)
    return draw_links(posterior, search.first[n_first - 1], rng)


def average_probabilities(
    policy: Policy,
    state: Any,
    rng: np.random.Generator,
    n_draws: int = 1_000,
    visitors: NDArray[np.int64] | None = None,
    rules: PageRules | None = None,
) -> Floats:
    """Return the average page over `n_draws` choices of the policy for each of some visitors.

    `visitors` has a row each: by default such as the state has seen. Within `rules` each choice is
    a page within them, and so is the average.

    A sampling policy's page is certain given its sample, so its own probabilities say 1 for every
    link shown. Where propensities are logged, publish this average and round it: then the
    logged probability of a link is exactly the one it was shown with. One choice is enough for
    a policy that does not sample.

    >>> from slotwise.policies import QueueTS
    >>> from slotwise.problem import Problem
    >>> problem = Problem(n_links=4, n_slots=2)
    >>> state = QueueTS().start(problem)
    >>> average = average_probabilities(QueueTS(), state, np.random.default_rng(1))
    >>> average.round(1).tolist()
    [0.5, 0.5, 0.5, 0.5]
    """
    n_draws = whole_number("n_draws", n_draws, at_least=1) if policy.samples else 1
    who = policy.visitors_seen(state) if visitors is None else visitors
    different, counts = np.unique(who, axis=0, return_counts=True)
    total = np.zeros(len(state.mix.sure))
    choose, chosen_by = switching(type(policy).choose), policy.rng_of_choice(rng)
    within = switching(choosing_within(type(policy)))
    for visitor, share in zip(different, counts / len(who), strict=True):
        for _ in range(n_draws):
            if rules is None:
                choose(state, visitor, chosen_by)
                total += share * dense_probabilities(state.mix)
            else:
                within(state, visitor, chosen_by, rules)
                total += share * rules.probabilities
    return (total / n_draws).clip(0.0, 1.0)
