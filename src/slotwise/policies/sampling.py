"""What the sampling policies share: posteriors that follow the evidence, and the average page."""

from __future__ import annotations

from typing import Any

import numpy as np

from slotwise.policies.contract import Floats, Policy
from slotwise.policies.evidence import Evidence
from slotwise.policies.pool_prior import PoolPrior, fit_prior, take_in_link
from slotwise.policies.posterior import (
    N_CHANGED,
    Posterior,
    note_change,
    set_posterior,
    trials_and_hits,
)
from slotwise.problem import whole_number
from slotwise.selection.compiled import hot
from slotwise.selection.mix import dense_probabilities
from slotwise.selection.top_page import Search, top_page

__all__ = ["average_probabilities", "change_all", "follow_evidence", "forget_changes"]

FIRST_DRAWS = 3
"""How many links, in pages, are drawn to find a threshold for the others."""


@hot
def change_all(posterior: Posterior) -> None:
    """Let every posterior be worked out before the next page."""
    for link in range(len(posterior.is_changed)):
        note_change(posterior, link)


@hot
def follow_evidence(posterior: Posterior, evidence: Evidence, pool: PoolPrior) -> None:
    """Work out the posterior of every changed link; they stay listed as changed.

    A prior that moves changes all links.
    """
    n_levels = len(posterior.cap)
    if pool.is_fitted:
        for k in range(posterior.sizes[N_CHANGED]):
            link = posterior.changed[k]
            for level in range(n_levels):
                trials, hits = trials_and_hits(evidence, level, link)
                take_in_link(pool, level, link, trials, hits)
        if fit_prior(pool, posterior):
            change_all(posterior)
    for k in range(posterior.sizes[N_CHANGED]):
        link = posterior.changed[k]
        for level in range(n_levels):
            trials, hits = trials_and_hits(evidence, level, link)
            a = posterior.prior_hits[level] + hits
            b = posterior.prior_misses[level] + trials - hits
            set_posterior(posterior, level, link, a, b)


@hot
def forget_changes(posterior: Posterior) -> None:
    """Clear the list of changed links."""
    for k in range(posterior.sizes[N_CHANGED]):
        posterior.is_changed[posterior.changed[k]] = False
    posterior.sizes[N_CHANGED] = 0


@hot
def worth_of_first_draws(posterior: Posterior, n_slots: int, search: Search) -> float:
    """Return the worth, on average, from which links are drawn whatever the others bring.

    Some more than a page are: with them the threshold comes near to where it will end.
    """
    worth = posterior.worth
    n_first = min(len(worth), FIRST_DRAWS * n_slots)
    top_page(worth, worth, len(worth), n_first, 1.0, 0.0, search)
    return search.first[n_first - 1]


def average_probabilities(
    policy: Policy, state: Any, rng: np.random.Generator, n_draws: int = 1_000
) -> Floats:
    """Return the average page over `n_draws` choices of the policy.

    A sampling policy's page is certain given its draw, so its own probabilities say 1 for every
    link shown. Where propensities are logged, publish this average and round it: then the
    logged probability of a link is exactly the one it was shown with. One choice is enough for
    a policy that does not sample.

    >>> from slotwise.policies import ConTS
    >>> from slotwise.problem import Problem
    >>> problem = Problem(n_links=4, n_slots=2)
    >>> state = ConTS().start(problem)
    >>> average = average_probabilities(ConTS(), state, np.random.default_rng(1))
    >>> average.round(1).tolist()
    [0.5, 0.5, 0.5, 0.5]
    """
    n_draws = whole_number("n_draws", n_draws, at_least=1) if policy.samples else 1
    total = np.zeros(len(state.mix.sure))
    for _ in range(n_draws):
        type(policy).choose(state, rng)
        total += dense_probabilities(state.mix)
    return (total / n_draws).clip(0.0, 1.0)
