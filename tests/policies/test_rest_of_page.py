"""The rest of a page beside pinned and without excluded links, for every policy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from slotwise.errors import InvalidInput
from slotwise.policies import (
    NO_SLOTS,
    NOBODY,
    POLICIES,
    FixedMix,
    LinkFeedback,
    PacedBayes,
    Policy,
    Uniform,
    make_policy,
)
from slotwise.policies.rest_of_page import Rest, rest_of_page
from slotwise.problem import Problem
from slotwise.selection import dense_probabilities

PROBLEM = Problem(n_links=9, n_slots=4, click_floor=1.2, horizon=1000)
PINNED, FREE = np.array([2]), np.array([0, 1, 4, 5, 7, 8])
CLICKS = np.linspace(0.1, 0.7, 9)
REVENUE = CLICKS * np.linspace(0.9, 0.1, 9)
RATES = np.stack([CLICKS, REVENUE])


def policy_called(name: str) -> Policy:
    if name == "fixed-mix":
        return FixedMix((1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.2, 0.2, 0.1))
    return make_policy(name)


def informed(policy: Policy, problem: Problem, rates: Any = RATES, n_views: float = 1e5) -> Any:
    """Return a state that was shown every link often enough to know its rates."""
    state = policy.start(problem)
    links = np.arange(problem.n_links)
    for level in range(2):
        certain, views = np.ones(len(links)), np.full(len(links), n_views)
        outcomes = views * rates[level]
        type(policy).learn(
            state, NOBODY, level, LinkFeedback(links, NO_SLOTS, certain, views, outcomes)
        )
    return state


def page_of(policy: Policy) -> Any:
    def page(state: Any, problem: Problem) -> Any:
        type(policy).choose(state, NOBODY, np.random.default_rng(5))
        page = dense_probabilities(state.mix)
        assert len(page) == problem.n_links
        return page

    return page


def rest(policy: Policy, state: Any, n_slots: int = 3) -> Any:
    type(policy).choose(state, NOBODY, np.random.default_rng(4))
    return rest_of_page(
        policy,
        state,
        PROBLEM,
        Rest(FREE, n_slots, PINNED),
        RATES,
        page_of(policy),
    )


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("n_slots", [1, 3, len(FREE)])
def test_every_policy_fills_the_slots_that_are_left(name: str, n_slots: int) -> None:
    policy = policy_called(name)
    probabilities = rest(policy, informed(policy, PROBLEM), n_slots)
    assert probabilities.shape == FREE.shape
    assert probabilities.sum() == pytest.approx(n_slots)
    assert probabilities.min() >= 0.0
    assert probabilities.max() <= 1.0 + 1e-12


def test_the_freed_slot_goes_to_the_next_best_link() -> None:
    """A page is certain for this policy; scaling it would fill the freed slot at random."""
    policy, problem = PacedBayes(), replace(PROBLEM, click_floor=0.0)
    state = informed(policy, problem)
    best = np.argsort(-REVENUE)[: problem.n_slots]
    free = np.setdiff1d(np.arange(9), best[:1])
    probabilities = rest_of_page(
        policy,
        state,
        problem,
        Rest(free, 4, np.array([], dtype=np.int64)),
        RATES,
        page_of(policy),
    )
    assert set(free[probabilities > 0.5].tolist()) == set(np.argsort(-REVENUE)[1:5].tolist())


def test_pinned_links_are_taken_off_the_floor() -> None:
    """Pinned links that keep the floor leave the rest to revenue alone."""
    policy = policy_called("con-ucb")
    state = informed(policy, PROBLEM)
    type(policy).choose(state, NOBODY, np.random.default_rng(4))
    probabilities = rest_of_page(
        policy,
        state,
        PROBLEM,
        Rest(np.arange(6), 1, np.array([6, 7, 8])),
        RATES,
        page_of(policy),
    )
    assert probabilities.argmax() == REVENUE[:6].argmax()
    assert probabilities.max() == 1.0


def test_several_floors_may_be_kept_by_the_pinned_links() -> None:
    problem = Problem(
        n_links=4, n_slots=2, levels=("click", "cart", "sale"), floors={"click": 0.5, "cart": 0.1}
    )
    policy = PacedBayes().for_problem(problem)
    state = policy.start(problem)
    rates = np.array([[0.9, 0.2, 0.2, 0.1], [0.5, 0.1, 0.1, 0.0], [0.1, 0.1, 0.0, 0.0]])
    probabilities = rest_of_page(
        policy,
        state,
        problem,
        Rest(np.array([1, 2, 3]), 1, np.array([0])),
        rates,
        page_of(policy),
    )
    assert probabilities.sum() == pytest.approx(1.0)


def test_a_mix_that_is_given_link_by_link_is_scaled_and_another_error_is_raised() -> None:
    given = policy_called("fixed-mix")
    left = rest(given, given.start(PROBLEM))
    assert left.sum() == pytest.approx(3)
    assert left[0] == 1.0  # as certain as it was

    class Picky(Uniform):
        def move(self, state: Any, problem: Problem, kept: Any) -> Any:
            raise InvalidInput.of("problem", "mine", problem.n_links)

    picky = Picky()
    with pytest.raises(InvalidInput, match="`problem` must be mine, got 6"):
        rest(picky, picky.start(PROBLEM))
