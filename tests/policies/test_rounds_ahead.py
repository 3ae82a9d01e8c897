"""Pages ahead: near the best mix, without touching the state they are planned from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slotwise.errors import InvalidInput
from slotwise.policies import (
    NO_SLOTS,
    PacedBayes,
    Policy,
    QueueTS,
    average_ahead,
    average_probabilities,
    expect_views,
)
from slotwise.policies.paced_bayes_visitors import PacedBayesVisitors
from slotwise.problem import Problem
from slotwise.selection import solve
from tests.unnamed_features import features_of

PROBLEM = Problem(n_links=12, n_slots=3, click_floor=0.7, horizon=200_000)
RNG = np.random.default_rng(8)
CLICKS = RNG.uniform(0.05, 0.5, 12)
RATES = np.stack([CLICKS, CLICKS * RNG.beta(1, 2, 12) * np.exp(-3 * CLICKS)])
BEST = solve(RATES[1], RATES[0], 3, 0.7)
PACING = [PacedBayes(), QueueTS()]


def taught(policy: Policy) -> Any:
    """Return a state that knows all rates well and owes next to nothing."""
    state: Any = policy.start(PROBLEM)
    expect_views(policy, state, np.full((2, 12), 25_000.0), RATES)
    expect_views(policy, state, np.tile(BEST.probabilities, (2, 1)) * 1_000, RATES)
    if isinstance(policy, PacedBayes):  # which would spend the surplus of the first batch
        state.queues.lengths[:] = state.queues.owed[:] = 0.0
    return state


@pytest.mark.compiled
@pytest.mark.parametrize("policy", PACING, ids=lambda policy: policy.name)
def test_the_average_page_is_near_the_best_mix(policy: Policy) -> None:
    rng = np.random.default_rng(1)
    average = average_ahead(policy, PROBLEM, taught(policy), RATES, rng, n_rounds=20_000)
    assert average.sum() == pytest.approx(3.0)
    assert BEST.status == "binding"
    assert average @ RATES[0] == pytest.approx(0.7, abs=0.02)
    assert average @ RATES[1] == pytest.approx(BEST.value, rel=0.05)


@pytest.mark.parametrize("policy", PACING, ids=lambda policy: policy.name)
def test_planning_leaves_the_state_alone(policy: Policy) -> None:
    state = taught(policy)
    before = policy.knowledge(state)
    average_ahead(policy, PROBLEM, state, RATES, np.random.default_rng(1), n_rounds=50)
    for name, array in policy.knowledge(state).items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


def test_open_views_teach_what_they_are_expected_to_bring() -> None:
    state = PacedBayes().start(PROBLEM)
    views = np.zeros((2, 12))
    views[0, :3], views[1, 0] = 10.0, 5.0
    expect_views(PacedBayes(), state, views, RATES)
    knowledge = PacedBayes().knowledge(state)
    np.testing.assert_allclose(state.evidence.views, views)
    np.testing.assert_allclose(state.evidence.sums, views * RATES)
    assert knowledge["rounds"][0] == pytest.approx(10.0)
    assert knowledge["owed"][0] == pytest.approx(7.0 - 10.0 * CLICKS[:3].sum())


def test_a_plan_has_rounds() -> None:
    state = PacedBayes().start(PROBLEM)
    with pytest.raises(InvalidInput, match="`n_rounds` must be"):
        average_ahead(PacedBayes(), PROBLEM, state, RATES, np.random.default_rng(1), n_rounds=0)


FOR_WHOM = Problem(n_links=6, n_slots=1, click_floor=0.2, features=features_of((2, 3)))
LIKED = np.array([[0.6, 0.1, 0.1, 0.1, 0.1, 0.1], [0.1, 0.6, 0.1, 0.1, 0.1, 0.1]])


def taught_for_whom(n_rounds: int = 1_200) -> Any:
    """Return a state that saw three visitors of the first kind for one of the second.

    The first kind likes link 0, the second link 1.
    """
    policy, rng = PacedBayesVisitors(), np.random.default_rng(2)
    state: Any = policy.start(FOR_WHOM)
    shown, certain = np.arange(6), np.ones(6)
    for k in range(n_rounds):
        kind = int(k % 4 == 3)
        visitor = np.array([kind, 2 + rng.integers(3)])
        clicks = (rng.random(6) < LIKED[kind]).astype(float)
        for level in range(2):
            policy.learn(
                state, visitor, level, shown, NO_SLOTS, certain, certain, 0.5**level * clicks
            )
    return state


def test_visitors_seen_have_the_shares_in_which_they_came() -> None:
    state = taught_for_whom()
    visitors = PacedBayesVisitors().visitors_seen(state)
    assert visitors.shape == (64, 2)
    shares = np.bincount(visitors.ravel(), minlength=5) / 64
    seen = state.regression.seen
    np.testing.assert_allclose(shares, seen / seen[:2].sum(), atol=1 / 64)
    assert shares[:2].tolist() == [0.75, 0.25]
    assert np.array_equal(visitors, PacedBayesVisitors().visitors_seen(state))
    assert PacedBayes().visitors_seen(PacedBayes().start(PROBLEM)).shape == (1, 0)
    nobody_yet = PacedBayesVisitors().visitors_seen(PacedBayesVisitors().start(FOR_WHOM))
    assert set(nobody_yet.ravel().tolist()) == {0, 1, 2, 3, 4}


def test_rounds_ahead_are_those_of_the_visitors_that_come() -> None:
    """For a visitor of whom nothing is known link 0 would be on every page."""
    policy, state = PacedBayesVisitors(), taught_for_whom()
    rates = state.evidence.sums / state.evidence.views
    rng = np.random.default_rng(1)
    average = average_ahead(policy, FOR_WHOM, state, rates, rng, n_rounds=256)
    np.testing.assert_allclose(average, [0.75, 0.25, 0, 0, 0, 0], atol=0.05)
    same = average_probabilities(policy, state, rng)
    np.testing.assert_allclose(same, [0.75, 0.25, 0, 0, 0, 0], atol=0.05)
    second = np.array([[1, 2], [1, 3], [1, 4]])
    for told in (
        average_ahead(policy, FOR_WHOM, state, rates, rng, n_rounds=99, visitors=second),
        average_probabilities(policy, state, rng, visitors=second),
    ):
        assert told[1] > 0.95


def test_open_views_are_those_of_the_visitors_that_come() -> None:
    policy, state = PacedBayesVisitors(), taught_for_whom()
    before = policy.knowledge(state)
    rates = state.evidence.sums / state.evidence.views
    views = np.zeros((2, 6))
    views[0, :2] = 40.0
    expect_views(policy, state, views, rates)
    more = {name: array - before[name] for name, array in policy.knowledge(state).items()}
    np.testing.assert_allclose(more["views"][0], views[0])
    np.testing.assert_allclose(more["seen"][:2], [60.0, 20.0])
    np.testing.assert_allclose(more["value_views"][:2, 0], [30.0, 10.0])
    second = np.array([[1, 2]])
    expect_views(policy, state, views, rates, visitors=second)
    np.testing.assert_allclose(state.regression.seen[:2] - before["seen"][:2], [60.0, 100.0])
