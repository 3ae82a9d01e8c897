"""Posterior sampling: draws follow the posterior, and pages those of sampling everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from queue_ts import QueueTS
from queue_ts.posterior import (
    MOST_ABOVE,
    draw_reachable,
    new_posterior,
    set_posterior,
    start_draw,
)
from scipy.stats import beta, kstest

from slotwise.player.page_set import Chooser, average_probabilities
from slotwise.policies import CUCB, LinkFeedback
from slotwise.policies.policy import NO_SLOTS, NOBODY
from slotwise.problem import Problem
from slotwise.selection import dense_probabilities
from tests.examples.every_link_drawn import draw_rates, queue_ts_page
from tests.selection.chance import is_plausible

Floats = NDArray[np.float64]

SHAPES = [
    (1.0, 1.0),
    (1.0, 2.0),
    (1.0, 300.0),
    (3.0, 80.0),
    (40.0, 900.0),
    (300.0, 200.0),
    (5.0, 1.0),
    (0.5, 30.0),
    (0.7, 0.6),
    (900.0, 4.0),
]


def test_draws_in_steps_follow_the_posterior() -> None:
    """Level 0 has the shapes in order, level 1 in reverse: both are drawn for every page.

    By accident a Kolmogorov-Smirnov test calls one of 20 laws wrong once in 10^7.
    """
    posterior = new_posterior(Problem(len(SHAPES), 1))
    for link, (a, b) in enumerate(SHAPES):
        set_posterior(posterior, 0, link, a, b)
        set_posterior(posterior, 1, len(SHAPES) - 1 - link, a, b)
    assert np.sum(posterior.cap[0] < 1.0) == 6  # the others have no tail to skip
    rng = np.random.default_rng(4)
    worth = np.ones(2)
    draws = np.zeros((2, len(SHAPES), 8_000))
    for k in range(draws.shape[2]):
        start_draw(posterior, rng)
        assert draw_reachable(posterior, worth, -1.0, rng) == len(SHAPES)
        draws[:, :, k] = posterior.reach
    for link, (a, b) in enumerate(SHAPES):
        for sample in (draws[0, link], draws[1, len(SHAPES) - 1 - link]):
            assert kstest(sample, beta(a, b).cdf).pvalue > 1e-7 / 20, (a, b)
    for link, cap in enumerate(posterior.cap[0]):
        n_above = int(np.sum(draws[0, link] > cap))
        chance = float(beta(*SHAPES[link]).sf(cap))
        assert chance <= MOST_ABOVE
        assert is_plausible(n_above, draws.shape[2], chance, len(SHAPES))


def known_pool(n_links: int) -> tuple[Floats, Floats, Floats]:
    """Return counts of a pool part of which is well known, part hardly and part not at all."""
    rng = np.random.default_rng(12)
    views = np.floor(10 ** rng.uniform(0, 3.3, n_links))
    views[:2] = 0.0
    clicks = rng.binomial(views.astype(int), rng.uniform(0.02, 0.5, n_links)).astype(np.float64)
    revenue = rng.binomial(clicks.astype(int), rng.uniform(0.1, 0.9, n_links)).astype(np.float64)
    return views, clicks, revenue


def state_of(policy: Any, problem: Problem, counts: tuple[Floats, Floats, Floats]) -> Any:
    views, clicks, revenue = counts
    knowledge = policy.knowledge(policy.start(problem))
    knowledge["views"][:] = views
    knowledge["sums"][:] = clicks, revenue
    return knowledge


@pytest.mark.compiled
@pytest.mark.parametrize("price", [0.0, 0.7])
def test_queue_ts_shows_what_sampling_all_links_would(price: float) -> None:
    n_links, n_slots, n_draws = 40, 4, 3_000
    problem = Problem(n_links, n_slots, 1.0)
    counts = known_pool(n_links)
    policy = QueueTS(horizon=100)
    knowledge = state_of(policy, problem, counts)
    knowledge["queue"][:] = 10.0 * price
    state: Any = policy.restore(problem, knowledge)
    ours = average_probabilities(Chooser(policy, problem, state), np.random.default_rng(1), n_draws)
    rng = np.random.default_rng(2)
    theirs = np.zeros(n_links)
    for _ in range(8 * n_draws):
        theirs += queue_ts_page(*draw_rates(*counts, rng), n_slots, price)
    theirs /= 8 * n_draws
    assert np.sum((theirs > 0.01) & (theirs < 0.99)) > 5
    for link in range(n_links):
        # eight times as many draws of the twin: its own error is small beside what is allowed
        assert (
            is_plausible(round(ours[link] * n_draws), n_draws, theirs[link], n_links)
            or abs(ours[link] - theirs[link]) < 1e-4
        ), link


def test_links_that_cannot_matter_are_not_drawn() -> None:
    policy = QueueTS(horizon=100)
    n_links = 200
    views = np.full(n_links, 3_000.0)
    clicks = np.where(np.arange(n_links) < 20, 900.0, np.linspace(90.0, 30.0, n_links))
    problem = Problem(n_links, 10, 2.0)
    state: Any = policy.restore(problem, state_of(policy, problem, (views, clicks, clicks / 2)))
    n_settled = []
    for seed in range(50):
        type(policy).choose(state, NOBODY, np.random.default_rng(seed))
        assert dense_probabilities(state.mix)[:20].sum() == pytest.approx(10.0)
        n_settled.append(int(state.posterior.n_settled.sum()))
    # 30 links, three pages, are always drawn; 170 others cannot reach the threshold
    assert max(n_settled) < 2 * 30 + 40


def test_revenue_that_is_late_counts_by_the_views_that_settled() -> None:
    policy = QueueTS()
    state: Any = policy.start(Problem(3, 1))
    QueueTS.learn(
        state,
        NOBODY,
        0,
        LinkFeedback(np.array([1]), NO_SLOTS, np.ones(1), np.array([40.0]), np.array([20.0])),
    )
    QueueTS.learn(
        state,
        NOBODY,
        1,
        LinkFeedback(np.array([1]), NO_SLOTS, np.ones(1), np.array([10.0]), np.array([2.0])),
    )
    QueueTS.choose(state, NOBODY, np.random.default_rng(1))
    # 10 of 40 views are settled: of their 5 clicks 2 brought revenue
    assert state.posterior.hits[:, 1].tolist() == [21.0, 3.0]
    assert state.posterior.misses[:, 1].tolist() == [21.0, 4.0]


def test_the_average_page_of_a_policy_that_does_not_sample_is_its_page() -> None:
    problem = Problem(4, 2)
    state: Any = CUCB().start(problem)
    average = average_probabilities(Chooser(CUCB(), problem, state), np.random.default_rng(1))
    assert average.tolist() == [0.5] * 4
