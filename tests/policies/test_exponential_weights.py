"""The oracles of Exp3.M and LExp: capping, unbiased estimates, the multiplier."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from slotwise.compile import compiled_first, hot
from slotwise.compile.decorators import LANES
from slotwise.errors import InvalidInput
from slotwise.policies import Exp3M, LExp, LinkFeedback, Policy
from slotwise.policies.exponential_weights import new_weights
from slotwise.policies.policy import NO_SLOTS, NOBODY
from slotwise.problem import Problem
from slotwise.selection import dense_probabilities
from slotwise.selection.passes import sum_below
from tests.policies.playing import draw
from tests.reference.policies import capped_probabilities
from tests.selection.chance import is_plausible

Floats = NDArray[np.float64]


def state_with(policy: Policy, problem: Problem, weights: Floats) -> Any:
    """Return a state with these weights, mixed."""
    knowledge = policy.knowledge(policy.start(problem))
    state: Any = policy.restore(problem, {**knowledge, "log_weights": np.log(weights)})
    type(policy).choose(state, NOBODY, np.random.default_rng(1))
    return state


def mixed(policy: Policy, problem: Problem, weights: Floats) -> Floats:
    return dense_probabilities(state_with(policy, problem, weights).mix)


@compiled_first
@hot
def compiled_sum_below(relative: Floats, n_blocks: int, cap: float) -> tuple[float, int]:
    return sum_below(relative, n_blocks, cap)


@pytest.mark.parametrize("n_links", [1, 15, 16, 17, 225, 271, 290])
def test_sums_of_weights_are_those_of_the_twin(n_links: int) -> None:
    rng = np.random.default_rng(n_links)
    relative = new_weights(n_links).relative
    n_blocks = len(relative) // LANES
    assert (relative[:n_links] == 1.0).all()
    assert (relative[n_links:] == 0.0).all()
    relative[:n_links] = rng.gamma(0.3, size=n_links)
    for cap in (np.inf, float(relative[0]), 1e-3, 1.0, 50.0):
        found = compiled_sum_below(relative, n_blocks, cap)
        assert found == sum_below(relative, n_blocks, cap)
        is_below = relative[:n_links] < cap
        assert found[0] == pytest.approx(float(relative[:n_links][is_below].sum()), rel=1e-12)
        assert found[1] == np.sum(~is_below)


# gamma = T^(-1/3) = 0.2: numbers that can be followed by hand
BY_HAND = LExp(horizon=125, parameters="theta")


def test_one_capped_link_by_hand() -> None:
    # beta = (1/2 - 0.2/4) / 0.8 = 0.5625. Sum 15: 0.5625 * 15 = 8.4 <= 9, so cap.
    # k = 1: alpha = 0.5625 * 6 / (1 - 0.5625) = 54/7 > 4: stop. Tamed sum 54/7 + 6 = 96/7.
    # p = 2 (0.8 w / (96/7) + 0.05): 1, 17/30, 13/60, 13/60
    chances = mixed(BY_HAND, Problem(n_links=4, n_slots=2), np.array([9.0, 4.0, 1.0, 1.0]))
    assert chances[0] == 1.0
    assert chances.tolist() == pytest.approx([1.0, 17 / 30, 13 / 60, 13 / 60])


def test_two_capped_links_by_hand() -> None:
    # beta = (1/3 - 0.2/6) / 0.8 = 0.375. Sum 20.5: alpha = 7.69 is not above 10: go on.
    # k = 1: alpha = 0.375 * 10.5 / 0.625 = 6.3 is not above 6.5 (stopping here is the usual
    # slip: it leaves a probability above 1). k = 2: alpha = 0.375 * 4 / 0.25 = 6 > 1: stop.
    # p = 3 (0.8 * 1 / 16 + 0.2 / 6) = 1/4 for the rest
    weights = np.array([1.0, 10.0, 1.0, 6.5, 1.0, 1.0])
    chances = mixed(BY_HAND, Problem(n_links=6, n_slots=3), weights)
    assert chances[1] == chances[3] == 1.0
    assert chances.tolist() == pytest.approx([0.25, 1.0, 0.25, 1.0, 0.25, 0.25])


def test_nothing_is_capped_while_the_largest_weight_is_small_enough() -> None:
    # beta * sum = 0.5625 * 15.9 = 8.94 > 8.9: not capped, p = 2 (0.8 * 8.9 / 15.9 + 0.05) < 1
    chances = mixed(BY_HAND, Problem(n_links=4, n_slots=2), np.array([8.9, 5.0, 1.0, 1.0]))
    assert chances.tolist() == pytest.approx(
        [2 * (0.8 * w / 15.9 + 0.05) for w in (8.9, 5.0, 1.0, 1.0)]
    )
    assert chances.max() < 1.0


@settings(max_examples=200)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 40),
    st.floats(0.0, 12.0),
    st.sampled_from([30, 125, 1_000, 100_000]),
    st.data(),
)
def test_capping_equals_its_twin(
    seed: int, n_links: int, spread: float, horizon: int, data: st.DataObject
) -> None:
    n_slots = data.draw(st.integers(1, n_links))
    problem = Problem(n_links=n_links, n_slots=n_slots)
    rng = np.random.default_rng(seed)
    weights = np.exp(spread * rng.standard_normal(n_links))
    if data.draw(st.booleans()):
        weights = rng.choice(weights[:3], n_links)  # equal weights, also at the cap
    state = state_with(LExp(horizon=horizon, parameters="theta"), problem, weights)
    ours = dense_probabilities(state.mix)
    theirs, capped = capped_probabilities(weights, n_slots, horizon ** (-1 / 3))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)
    assert ours.sum() == pytest.approx(n_slots, abs=1e-9)
    assert ours.max() <= 1.0
    # equality exactly on the capped set, but for weights within rounding of the cap
    surely_open = theirs < 1.0 - 1e-9
    assert np.all(ours[capped] == 1.0)
    assert np.all(ours[surely_open] < 1.0)


WEIGHTS = np.array([30.0, 2.0, 1.0, 6.0, 1.0, 0.5])
REVENUE = np.array([0.9, 0.5, 0.3, 0.8, 0.2, 0.7])
CLICKS = np.array([1.0, 0.6, 0.4, 0.9, 0.5, 0.8])


@pytest.mark.parametrize("policy", [Exp3M(horizon=40), LExp(horizon=125, parameters="theta")])
def test_what_a_page_teaches_is_right_on_average(policy: Policy) -> None:
    # A log-weight grows by step * g / p on the pages that show its link, so its expected growth
    # is step * g if links are shown as often as their probabilities say. Counted exactly: the
    # growth of every page is checked, then how many pages grew each link.
    # By accident with probability below FALSE_ALARM = 1e-7.
    problem = Problem(n_links=6, n_slots=3)
    state = state_with(policy, problem, WEIGHTS)
    chances = dense_probabilities(state.mix)
    before = policy.knowledge(state)["log_weights"]
    rng = np.random.default_rng(2)
    n_pages = 4_000
    n_grown = np.zeros(6)
    for page in range(n_pages):
        shown, probabilities = draw(state, 3, rng)
        if page < 200:
            np.testing.assert_array_equal(probabilities, chances[shown])
            taught: Any = policy.restore(problem, policy.knowledge(state))
            type(policy).learn(
                taught,
                NOBODY,
                1,
                LinkFeedback(shown, NO_SLOTS, probabilities, np.ones(3), REVENUE[shown]),
            )
            growth = policy.knowledge(taught)["log_weights"] - before
            expected = np.zeros(6)
            expected[shown] = state.rule.step * REVENUE[shown] / probabilities
            expected[chances == 1.0] = 0.0
            np.testing.assert_allclose(growth, expected, rtol=0, atol=1e-12)
        n_grown[shown] += 1
    assert (chances == 1.0).any()
    for link in range(6):
        assert is_plausible(int(n_grown[link]), n_pages, chances[link], 6)


@pytest.mark.parametrize("policy", [Exp3M(horizon=40), LExp(horizon=125, parameters="theta")])
def test_capped_links_keep_their_weight(policy: Policy) -> None:
    state = state_with(policy, Problem(n_links=6, n_slots=3, click_floor=2.9), WEIGHTS)
    chances = dense_probabilities(state.mix)
    capped = np.flatnonzero(chances == 1.0)
    others = np.flatnonzero(chances < 1.0)[:2]
    assert 0 in capped
    before = policy.knowledge(state)["log_weights"]
    shown = np.concatenate([capped[:1], others])
    type(policy).learn(
        state, NOBODY, 0, LinkFeedback(shown, NO_SLOTS, chances[shown], np.ones(3), CLICKS[shown])
    )
    type(policy).learn(
        state, NOBODY, 0, LinkFeedback(shown, NO_SLOTS, chances[shown], np.ones(3), CLICKS[shown])
    )
    type(policy).learn(
        state, NOBODY, 1, LinkFeedback(shown, NO_SLOTS, chances[shown], np.ones(3), REVENUE[shown])
    )
    after = policy.knowledge(state)["log_weights"]
    assert after[capped].tolist() == before[capped].tolist()
    assert np.all(after[others] > before[others])


def test_the_multiplier_by_hand() -> None:
    # gamma = delta = 0.2, K = 4, L = 2: eta = 0.2 * 0.2 * 2 / (2.2 * 4) = 1/110
    problem = Problem(n_links=4, n_slots=2, click_floor=1.5)
    state: Any = BY_HAND.start(problem)
    assert state.rule.step == pytest.approx(1 / 110)
    shown, half, once = np.array([1, 3]), np.full(2, 0.5), np.ones(2)
    # no clicks: lambda = 0 - (0 - 1.5) / 110
    BY_HAND.learn(state, NOBODY, 0, LinkFeedback(shown, NO_SLOTS, half, once, np.zeros(2)))
    assert state.multiplier[0] == pytest.approx(1.5 / 110)
    assert BY_HAND.knowledge(state)["log_weights"].tolist() == [0.0] * 4
    # one click: the weight grows at the old lambda; then the page had 1 / 0.8 = 1.25 clicks
    BY_HAND.learn(state, NOBODY, 0, LinkFeedback(shown, NO_SLOTS, half, once, np.array([1.0, 0.0])))
    grown = (1.5 / 110) * (1.0 / 0.5) / 110
    assert BY_HAND.knowledge(state)["log_weights"].tolist() == pytest.approx([0, grown, 0, 0])
    after = (1 - 0.2 / 110) * (1.5 / 110) - (1.25 - 1.5) / 110
    assert state.multiplier[0] == pytest.approx(after)
    # more clicks than the floor for long enough: back to zero and never below
    for _ in range(10):
        BY_HAND.learn(state, NOBODY, 0, LinkFeedback(shown, NO_SLOTS, half, once, np.ones(2)))
    assert state.multiplier[0] == 0.0


def test_the_multiplier_stays_in_its_run() -> None:
    problem = Problem(n_links=4, n_slots=2, click_floor=1.5)
    first: Any = BY_HAND.start(problem)
    BY_HAND.learn(
        first,
        NOBODY,
        0,
        LinkFeedback(np.array([0, 1]), NO_SLOTS, np.full(2, 0.5), np.ones(2), np.zeros(2)),
    )
    second: Any = BY_HAND.start(problem)
    assert first.multiplier[0] > 0.0
    assert second.multiplier[0] == 0.0


@pytest.mark.parametrize("policy", [Exp3M(horizon=50), LExp(horizon=50)])
def test_a_page_for_every_link_shows_all(policy: Policy) -> None:
    problem = Problem(n_links=3, n_slots=3)
    assert mixed(policy, problem, np.array([5.0, 1.0, 0.1])).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("policy", [Exp3M(horizon=50), LExp(horizon=50, parameters="theta")])
@pytest.mark.parametrize("log_gap", [100.0, 700.0, 2_000.0, 1e5])
def test_weights_far_apart_still_make_a_page(policy: Policy, log_gap: float) -> None:
    """A pool that lost its best links can be left with gaps that no weight can hold."""
    problem = Problem(n_links=4, n_slots=2)
    logs = np.array([0.0, log_gap, 1.0, 0.0])
    knowledge = {**policy.knowledge(policy.start(problem)), "log_weights": logs}
    state: Any = policy.restore(problem, knowledge)
    type(policy).choose(state, NOBODY, np.random.default_rng(1))
    chances = dense_probabilities(state.mix)
    assert chances.sum() == pytest.approx(2.0, abs=1e-9)
    assert chances[1] == 1.0
    assert chances.min() >= 2 * state.rule.exploration / 4 - 1e-12
    shown, _ = draw(state, 2, np.random.default_rng(1))
    assert len(set(shown.tolist())) == 2


def test_closed_forms_by_hand() -> None:
    # K = 4, L = 2, T = 1000: T^(2/3) = 100
    state: Any = LExp(horizon=1000).start(Problem(n_links=4, n_slots=2))
    spread = (2 * (math.e - 2) * 4 + 8) / (2 * math.log(2) * 100)
    gamma = math.sqrt(spread)  # 2 / L = 1
    assert state.rule.exploration == pytest.approx(gamma)
    delta = 4 * (math.e - 2) * gamma * 2 / (1 - gamma)
    assert state.rule.regularisation == pytest.approx(delta)
    assert state.rule.step == pytest.approx(gamma * delta * 2 / ((delta + 2) * 4))
    other: Any = Exp3M(horizon=1000).start(Problem(n_links=4, n_slots=2))
    expected = math.sqrt(4 * math.log(2) / ((math.e - 1) * 2 * 1000))
    assert other.rule.exploration == pytest.approx(expected)
    assert other.rule.step == pytest.approx(expected / 2)


def test_a_newcomer_starts_at_the_mean_weight() -> None:
    policy = Exp3M(horizon=100)
    state = state_with(policy, Problem(n_links=3, n_slots=1), np.array([1.0, 2.0, 6.0]))
    moved: Any = policy.move(state, Problem(n_links=4, n_slots=1), np.array([2, -1, 0, 1]))
    weights = np.exp(policy.knowledge(moved)["log_weights"])
    np.testing.assert_allclose(weights, [6.0, 3.0, 1.0, 2.0])


def test_unknown_parameters_are_named() -> None:
    rule = '^`parameters` must be "closed-form" or "theta", got \'best\'$'
    with pytest.raises(InvalidInput, match=rule):
        LExp(horizon=10, parameters="best")
