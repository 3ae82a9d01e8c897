"""Each policy against its twin, round by round on the same feedback."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from slotwise.policies import CUCB, ConUCB, Exp3M, FixedMix, LExp, Policy, Uniform
from slotwise.problem import Problem
from tests.policies.playing import Visitors, play_both
from tests.reference.policies import (
    ConstantTwin,
    ConUCBTwin,
    CUCBTwin,
    Exp3MTwin,
    LExpTwin,
    Twin,
)

N_ROUNDS = 500
"""So that floors of every kind bind and links are capped."""
N_ROUNDS_OF_MANY = 200
"""Where the same policy plays in many sizes."""


def visitors_of(n_links: int) -> Visitors:
    """Return visitors who spend little on what they click most, so that the floor matters."""
    rng = np.random.default_rng(3)
    click_rate = 0.1 + 0.8 * rng.random(n_links)
    return Visitors(click_rate, 4.0 * np.exp(-4.0 * click_rate), seed=3)


def check_rounds(
    policy: Policy, twin: Twin, problem: Problem, n_rounds: int = N_ROUNDS_OF_MANY
) -> int:
    """Compare every round; return how many links had to be shown, over all rounds."""
    n_sure = 0
    for _, ours, theirs in play_both(policy, twin, problem, visitors_of(problem.n_links), n_rounds):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)
        assert ours.sum() == pytest.approx(problem.n_slots, abs=1e-9)
        n_sure += int(np.sum(ours == 1.0))
    return n_sure


SIZES = [(1, 1), (5, 2), (9, 9), (12, 1), (20, 4), (70, 8)]


@pytest.mark.parametrize(
    ("n_links", "n_slots", "floor", "gamma_scale", "statuses"),
    [
        (5, 2, 0.0, 1 / 72, {"slack": 500}),
        (12, 3, 1.8, 1 / 2000, {"binding": 200}),
        (12, 3, 2.9, 1 / 2000, {"infeasible": 200}),
        (30, 4, 2.9, 1 / 2000, {"slack": 20, "binding": 200}),
        (30, 1, 0.7, 1 / 5000, {"binding": 100}),
        (70, 8, 6.2, 1 / 5000, {"binding": 200}),
        (70, 8, 7.6, 1 / 500, {"slack": 50, "binding": 200}),
        (20, 4, 3.4, 1 / 2000, {"slack": 10, "binding": 100, "infeasible": 50}),
        (9, 9, 2.0, 1 / 2000, {"slack": 500}),
        (1, 1, 0.9, 1 / 2000, {"slack": 1, "infeasible": 200}),
        (20, 4, 1.5, 1.0, {"slack": 500}),
    ],
)
def test_con_ucb(
    n_links: int, n_slots: int, floor: float, gamma_scale: float, statuses: dict[str, int]
) -> None:
    problem = Problem(n_links, n_slots, floor)
    policy = ConUCB(horizon=N_ROUNDS, failure_probability=0.1, gamma_scale=gamma_scale)
    twin = ConUCBTwin(n_links, n_slots, floor, N_ROUNDS, 0.1, gamma_scale)
    seen: Counter[str] = Counter()
    for state, ours, theirs in play_both(policy, twin, problem, visitors_of(n_links), N_ROUNDS):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)
        believed = policy.estimates(state)
        np.testing.assert_allclose(believed.clicks, twin.bound(twin.sum_a), rtol=0, atol=1e-12)
        np.testing.assert_allclose(believed.value, twin.bound(twin.sum_g), rtol=0, atol=1e-12)
        seen[twin.status] += 1
    for status, n_rounds in statuses.items():
        assert seen[status] >= n_rounds, seen


@pytest.mark.parametrize(("n_links", "n_slots"), SIZES)
def test_cucb(n_links: int, n_slots: int) -> None:
    check_rounds(CUCB(), CUCBTwin(n_links, n_slots), Problem(n_links, n_slots))


@pytest.mark.parametrize(("n_links", "n_slots"), SIZES)
@pytest.mark.parametrize("horizon", [50, 500, 50_000])
def test_exp3m(n_links: int, n_slots: int, horizon: int) -> None:
    twin = Exp3MTwin(n_links, n_slots, horizon)
    check_rounds(Exp3M(horizon=horizon), twin, Problem(n_links, n_slots))


def test_exp3m_with_capped_links() -> None:
    # played for longer than its horizon, so that the weights part
    twin = Exp3MTwin(6, 4, 30)
    n_sure = check_rounds(Exp3M(horizon=30), twin, Problem(6, 4), N_ROUNDS)
    assert n_sure > 100


@pytest.mark.parametrize(("n_links", "n_slots"), [*SIZES, (6, 4)])
@pytest.mark.parametrize(
    ("horizon", "parameters"),
    [(500, "closed-form"), (50_000, "closed-form"), (27, "theta"), (1_000, "theta")],
)
def test_lexp(n_links: int, n_slots: int, horizon: int, parameters: str) -> None:
    floor = 0.7 * n_slots
    twin = LExpTwin(n_links, n_slots, floor, horizon, parameters)
    policy = LExp(horizon=horizon, parameters=parameters)
    multipliers, n_capped = [], 0
    n_rounds = N_ROUNDS if n_links == 6 else N_ROUNDS_OF_MANY
    for state, ours, theirs in play_both(
        policy, twin, Problem(n_links, n_slots, floor), visitors_of(n_links), n_rounds
    ):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)
        if n_slots < n_links:
            assert state.multiplier[0] == pytest.approx(twin.multiplier, abs=1e-9)
        multipliers.append(twin.multiplier)
        n_capped += int(twin.capped.sum())
    if n_slots < n_links and twin.gamma < 1:
        assert max(multipliers) > 0.01
    if (n_slots, parameters) == (4, "closed-form") and n_links == 6:
        assert n_capped > 50


@pytest.mark.parametrize(("n_links", "n_slots"), SIZES)
def test_uniform(n_links: int, n_slots: int) -> None:
    twin = ConstantTwin(np.full(n_links, n_slots / n_links))
    check_rounds(Uniform(), twin, Problem(n_links, n_slots))


def test_fixed_mix() -> None:
    chances = np.array([1.0, 0.25, 0.75, 0.0, 0.5, 0.5])
    policy = FixedMix(probabilities=chances.tolist())
    check_rounds(policy, ConstantTwin(chances), Problem(6, 3))
