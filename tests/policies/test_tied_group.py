"""Pages that end in a kept group of ties are those that listing all ties gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise import Selector
from slotwise.compile import switching
from slotwise.policies import NO_SLOTS, NOBODY, LinkFeedback, PacedBayes
from slotwise.policies.bound import largest_growth, new_posterior, score_link, score_links
from slotwise.policies.paced_bayes import SAFE
from slotwise.policies.tied_group import LEAST_POOL
from slotwise.problem import Problem
from slotwise.selection import draw_page
from slotwise.selection.mix import N_TIED, dense_probabilities

LEVELS = ("click", "cart", "order", "revenue")

POLICIES = [PacedBayes()]
"""They choose without chance: no generator, as in a selector, whose compiled code is shared."""


def one_round(policy: Any, state: Any, rates: Any, rng: np.random.Generator, n_slots: int) -> None:
    """Draw a page from the state's mix and learn what it brings."""
    shown, probabilities = np.zeros(n_slots, np.int64), np.zeros(n_slots)
    draw_page(state.mix, rng, shown, probabilities)
    clicks = (rng.random(n_slots) < rates[0][shown]).astype(np.float64)
    revenue = clicks * (rng.random(n_slots) < rates[1][shown])
    for level, outcomes in enumerate((clicks, revenue)):
        views = np.ones(n_slots)
        feedback = LinkFeedback(shown, NO_SLOTS, probabilities, views, outcomes)
        switching(type(policy).learn)(state, NOBODY, level, feedback)


@pytest.mark.compiled  # 500 pages of a large pool
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_pages_from_the_group_are_those_of_listing_all_ties(policy: Any) -> None:
    problem = Problem(LEAST_POOL + 500, 10, click_floor=1.5)
    rng = np.random.default_rng(5)
    rates = 0.4 * rng.random(problem.n_links), rng.random(problem.n_links)
    state = policy.start(problem)
    n_from_group = 0
    for round_number in range(500):
        had_group = state.group.size[0] > 0
        switching(type(policy).choose)(state, NOBODY, None)
        n_from_group += had_group and state.mix.sizes[N_TIED] > 0
        if round_number % 5 == 0:
            fresh = policy.restore(problem, policy.knowledge(state))
            switching(type(policy).choose)(fresh, NOBODY, None)
            expected = dense_probabilities(fresh.mix)
            assert dense_probabilities(state.mix) == pytest.approx(expected, abs=1e-12)
            again = dense_probabilities(state.mix)
            switching(type(policy).choose)(state, NOBODY, None)
            assert np.array_equal(dense_probabilities(state.mix), again)
        one_round(policy, state, rates, rng, problem.n_slots)
    assert n_from_group > 250


@pytest.mark.compiled
def test_most_pages_of_a_large_pool_are_found_without_scoring_all_links() -> None:
    problem = Problem(LEAST_POOL, 10, click_floor=3.0)
    rng = np.random.default_rng(8)
    rates = 0.4 * rng.random(problem.n_links), rng.random(problem.n_links)
    policy: Any = PacedBayes()
    state = policy.start(problem)
    n_by_last_scores = 0
    for _ in range(400):
        switching(type(policy).choose)(state, NOBODY, None)
        worth, shown = state.floors.worth.copy(), np.flatnonzero(dense_probabilities(state.mix))
        n_by_last_scores += not np.array_equal(state.scored_at, worth)
        scores = np.zeros(problem.n_links)
        policy.rank(state, np.arange(problem.n_links), scores)
        assert scores[shown].min() >= np.delete(scores, shown).max(initial=0.0)
        one_round(policy, state, rates, rng, problem.n_slots)
    assert n_by_last_scores > 100


def posterior_of(rng: np.random.Generator, n_levels: int) -> Any:
    """Return a posterior with means, variances and widths of any size."""
    posterior = new_posterior(Problem(700, 3, levels=LEVELS[:n_levels]), 0.6, None)
    posterior.mean[:] = 10.0 ** rng.uniform(-6, 0, posterior.mean.shape)
    variance = posterior.mean * (1.0 - posterior.mean)
    posterior.variance[:] = variance * 10.0 ** rng.uniform(-4, 0, variance.shape)
    posterior.width[:] = 10.0 ** rng.uniform(-3, 1, 700)
    return posterior


@pytest.mark.parametrize("n_levels", [2, 3, 4])
def test_no_score_grows_by_more_than_the_largest_growth(n_levels: int) -> None:
    rng = np.random.default_rng(9)
    scratch, before, after = np.zeros(700), np.zeros(700), np.zeros(700)
    for _ in range(40):
        posterior = posterior_of(rng, n_levels)
        worth = 10.0 ** rng.uniform(-3, 1, n_levels)
        worth[rng.random(n_levels) < 0.2] = 0.0
        moved = worth * rng.uniform(0.7, 1.4, n_levels)
        score_links(posterior, worth, before, scratch)
        score_links(posterior, moved, after, scratch)
        assert (after <= before * largest_growth(moved, worth) * SAFE).all()
        assert largest_growth(worth, worth) == 1.0
        alone = [score_link(posterior, worth, link) for link in range(700)]
        assert before.tolist() == alone


def test_a_worth_that_was_nothing_has_grown_without_limit() -> None:
    assert largest_growth(np.array([0.1, 1.0]), np.array([0.0, 1.0])) == np.inf
    assert largest_growth(np.array([0.0, 1.0]), np.array([0.1, 1.0])) == np.inf


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_links_with_other_feedback_leave_the_group(policy: Any) -> None:
    problem = Problem(LEAST_POOL, 10)
    state = policy.start(problem)
    switching(type(policy).choose)(state, NOBODY, None)
    assert state.group.size[0] == problem.n_links
    links = np.array([3, 700, problem.n_links - 1])
    for level in range(2):
        switching(type(policy).learn)(
            state, NOBODY, level, LinkFeedback(links, NO_SLOTS, np.ones(3), np.ones(3), np.zeros(3))
        )
    switching(type(policy).choose)(state, NOBODY, None)
    probabilities = dense_probabilities(state.mix)
    assert probabilities[links].tolist() == [0.0, 0.0, 0.0]
    assert np.delete(probabilities, links) == pytest.approx(10 / (problem.n_links - 3))


def test_a_selector_goes_on_when_its_pool_becomes_large_and_small_again(tmp_path: Path) -> None:
    links = [f"link {k}" for k in range(LEAST_POOL + 5)]
    selector = Selector(links[:50], 5, click_floor=0.5, seed=3)
    for pool in (links, links[:40]):
        for _ in range(8):
            page = selector.select()
            selector.update(page, clicks=page.shown[:1], revenue={page.shown[0]: 0.5})
        views = {row.link: row.views for row in selector.report().links}
        selector.add_links([link for link in pool if link not in views])
        selector.retire([link for link in views if link not in pool])
        selector.save(tmp_path / "selector")
        selector = Selector.load(tmp_path / "selector")
        kept = {row.link: row.views for row in selector.report().links}
        assert kept == {link: views.get(link, 0) for link in pool}
        assert selector.policy == PacedBayes()
