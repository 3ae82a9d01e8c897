"""Pages ahead: near the best mix, without touching the state they are planned from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slotwise.errors import InvalidInput
from slotwise.policies import (
    PacedBayes,
    PacedKL,
    Policy,
    QueueKL,
    QueueTS,
    average_ahead,
    expect_views,
)
from slotwise.problem import Problem
from slotwise.selection import solve

PROBLEM = Problem(n_links=12, n_slots=3, click_floor=0.7, horizon=200_000)
RNG = np.random.default_rng(8)
CLICKS = RNG.uniform(0.05, 0.5, 12)
RATES = np.stack([CLICKS, CLICKS * RNG.beta(1, 2, 12) * np.exp(-3 * CLICKS)])
BEST = solve(RATES[1], RATES[0], 3, 0.7)
PACING = [PacedKL(), PacedBayes(), QueueKL(), QueueTS()]


def taught(policy: Policy) -> Any:
    """Return a state that knows all rates well and owes next to nothing."""
    state: Any = policy.start(PROBLEM)
    expect_views(policy, state, np.full((2, 12), 25_000.0), RATES)
    expect_views(policy, state, np.tile(BEST.probabilities, (2, 1)) * 1_000, RATES)
    if isinstance(policy, PacedBayes):  # which would spend the surplus of the first batch
        state.queues.lengths[:] = state.queues.owed[:] = 0.0
    return state


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
    state = PacedKL().start(PROBLEM)
    views = np.zeros((2, 12))
    views[0, :3], views[1, 0] = 10.0, 5.0
    expect_views(PacedKL(), state, views, RATES)
    knowledge = PacedKL().knowledge(state)
    np.testing.assert_allclose(state.evidence.views, views)
    np.testing.assert_allclose(state.evidence.sums, views * RATES)
    assert knowledge["rounds"][0] == pytest.approx(10.0)
    assert knowledge["owed"][0] == pytest.approx(7.0 - 10.0 * CLICKS[:3].sum())


def test_a_plan_has_rounds() -> None:
    state = PacedKL().start(PROBLEM)
    with pytest.raises(InvalidInput, match="`n_rounds` must be"):
        average_ahead(PacedKL(), PROBLEM, state, RATES, np.random.default_rng(1), n_rounds=0)
