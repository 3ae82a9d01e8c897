"""Con-UCB with several floors: the same numbers for clicks alone, and optimistic beyond."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.compile import switching
from slotwise.errors import InvalidInput
from slotwise.policies import ConUCB, LinkFeedback, Policy
from slotwise.policies.con_ucb_floors import ConUCBFloors
from slotwise.policies.policy import NO_SLOTS, NOBODY
from slotwise.problem import Problem
from slotwise.selection import dense_probabilities, solve_floors
from slotwise.selection.confidence import paper_gamma, paper_lower, paper_upper
from slotwise.testing import PolicyContract
from tests.policies.playing import Visitors, draw, learn_page

Floats = NDArray[np.float64]

LEVELS = ("click", "cart", "purchase")


class TestGeneralCode(PolicyContract):
    def make_policy(self, problem: Problem) -> Policy:
        return ConUCBFloors(gamma_scale=1 / 2000)


def links_of(n_links: int, seed: int) -> Visitors:
    rng = np.random.default_rng(seed)
    return Visitors(rng.random(n_links), 0.2 + rng.random(n_links), seed)


@pytest.mark.parametrize(
    ("n_links", "n_slots", "floor", "gamma_scale"),
    [
        (12, 3, 1.9, 1e-3),
        (30, 4, 2.9, 5e-4),
        (30, 1, 0.7, 2e-4),
        (70, 8, 6.2, 2e-4),
        (70, 8, 7.9, 2e-4),
        (20, 4, 0.0, 5e-4),
        (20, 4, 1.5, 1.0),
        (9, 9, 2.0, 5e-4),
    ],
)
def test_two_levels_through_the_general_code_give_the_same_numbers(
    n_links: int, n_slots: int, floor: float, gamma_scale: float
) -> None:
    problem = Problem(n_links, n_slots, floor, horizon=300)
    two_level, general = ConUCB(gamma_scale=gamma_scale), ConUCBFloors(gamma_scale=gamma_scale)
    one: Any = two_level.start(problem)
    other: Any = general.start(problem)
    visitors, rng = links_of(n_links, seed=5), np.random.default_rng(17)
    n_equal = 0
    for _ in range(300):
        two_level.choose(one, NOBODY, rng)
        general.choose(other, NOBODY, rng)
        mine, theirs = dense_probabilities(one.mix), dense_probabilities(other.mix)
        value, clicks = one.program.value, one.program.clicks
        np.testing.assert_array_equal(other.program.simplex.value, value)
        np.testing.assert_array_equal(other.upper[0], clicks)
        assert theirs @ value == pytest.approx(mine @ value, abs=1e-9)
        assert theirs @ clicks == pytest.approx(mine @ clicks, abs=1e-9)
        n_equal += np.allclose(mine, theirs, rtol=0, atol=1e-9)
        page = visitors.answer(*draw(one, n_slots, rng))
        learn_page(two_level, one, page)
        learn_page(general, other, page)
    # links of different bounds tie exactly now and then, and either mix is as good
    assert n_equal >= 0.9 * 300


def played(problem: Problem, n_rounds: int, gamma_scale: float) -> tuple[Any, Floats]:
    """Return a state after so many rounds, and the true compounds it learned from."""
    rng = np.random.default_rng(3)
    rates: Floats = rng.random((problem.n_levels, problem.n_links)).cumprod(axis=0)
    conditional = rates / np.vstack([np.ones(problem.n_links), rates[:-1]])
    policy = ConUCBFloors(gamma_scale=gamma_scale)
    state: Any = policy.start(problem)
    for _ in range(n_rounds):
        switching(type(policy).choose)(state, NOBODY, rng)
        shown, chances = draw(state, problem.n_slots, rng)
        alive = np.ones(problem.n_slots)
        for level in range(problem.n_levels):
            alive = alive * (rng.random(problem.n_slots) < conditional[level, shown])
            switching(type(policy).learn)(
                state,
                NOBODY,
                level,
                LinkFeedback(shown, NO_SLOTS, chances, np.ones(problem.n_slots), alive),
            )
    return state, rates


SHOP = Problem(
    n_links=25,
    n_slots=4,
    levels=LEVELS,
    floors={"click": 3.4, "cart": 2.0},
    rate_floors={"purchase": 0.7},
    horizon=3000,
)


def test_each_round_solves_the_program_on_the_bounds() -> None:
    state, _ = played(SHOP, n_rounds=2000, gamma_scale=1e-3)
    ConUCBFloors.choose(state, NOBODY, np.random.default_rng(1))
    gamma = 1e-3 * paper_gamma(25, 3000, 0.01, n_levels=3)
    assert state.gamma == pytest.approx(gamma)
    upper, lower = np.empty((3, 25)), np.empty((3, 25))
    for level in range(3):
        for link in range(25):
            seen = state.counts.sums[level, link], state.counts.views[level, link]
            upper[level, link] = paper_upper(*seen, gamma)
            lower[level, link] = paper_lower(*seen, gamma)
    demands = [upper[0], upper[1], upper[2] - 0.7 * lower[1]]
    best = solve_floors(upper[2], demands, n_slots=4, floors=[3.4, 2.0, 0.0])
    chances = dense_probabilities(state.mix)
    assert best.status == "binding"
    assert chances @ upper[2] == pytest.approx(best.value, abs=1e-9)
    np.testing.assert_allclose(np.array(demands) @ chances, best.amounts, atol=1e-9)


def test_every_row_is_optimistic() -> None:
    # Each bound fails with probability below 0.01 / (4 * 3 * 25 * 3000); all hold after 1,000.
    state, rates = played(SHOP, n_rounds=1000, gamma_scale=1 / 72)
    rows = state.program.simplex.demands
    assert np.all(state.program.simplex.value >= rates[2])
    assert np.all(rows[0] >= rates[0])
    assert np.all(rows[1] >= rates[1])
    assert np.all(rows[2] >= rates[2] - 0.7 * rates[1])


def test_floors_are_kept_once_rates_are_known() -> None:
    state, rates = played(SHOP, n_rounds=100, gamma_scale=1e-3)
    links, many = np.arange(25), np.full(25, 1e6)
    for level in range(3):
        counts = LinkFeedback(links, NO_SLOTS, np.ones(25), many, many * rates[level])
        ConUCBFloors.learn(state, NOBODY, level, counts)
    ConUCBFloors.choose(state, NOBODY, np.random.default_rng(1))
    chances = dense_probabilities(state.mix)
    assert chances @ rates[0] >= 0.99 * 3.4
    assert chances @ rates[1] >= 0.99 * 2.0
    assert chances @ rates[2] >= 0.99 * 0.7 * (chances @ rates[1])


def test_floors_out_of_reach_are_missed_by_the_same_part() -> None:
    problem = Problem(2, 1, levels=LEVELS[:2], floors={"click": 0.9, "cart": 0.9}, horizon=100)
    state: Any = ConUCBFloors(gamma_scale=1e-4).start(problem)
    links, many = np.array([0, 1]), np.full(2, 1e6)
    ConUCBFloors.learn(
        state, NOBODY, 0, LinkFeedback(links, NO_SLOTS, np.ones(2), many, many * [0.9, 0.3])
    )
    ConUCBFloors.learn(
        state, NOBODY, 1, LinkFeedback(links, NO_SLOTS, np.ones(2), many, many * [0.0, 0.3])
    )
    ConUCBFloors.choose(state, NOBODY, np.random.default_rng(1))
    # all of link 1: each floor reaches 0.3; any of link 0 lowers the carts
    assert dense_probabilities(state.mix) == pytest.approx([0.0, 1.0], abs=1e-3)


def test_rewards_weigh_the_levels() -> None:
    problem = Problem(3, 1, levels=LEVELS, rewards={"click": 0.5, "purchase": 1.0}, horizon=100)
    state: Any = ConUCBFloors(gamma_scale=1e-6).start(problem)
    links, many = np.arange(3), np.full(3, 1e6)
    for level, rates in enumerate(([0.9, 0.5, 0.6], [0.5, 0.5, 0.5], [0.0, 0.1, 0.3])):
        ConUCBFloors.learn(
            state, NOBODY, level, LinkFeedback(links, NO_SLOTS, np.ones(3), many, many * rates)
        )
    ConUCBFloors.choose(state, NOBODY, np.random.default_rng(1))
    assert dense_probabilities(state.mix).tolist() == [0.0, 0.0, 1.0]  # 0.45, 0.35, 0.6


def test_one_level_maximises_its_clicks() -> None:
    state: Any = ConUCBFloors().start(Problem(3, 1, 0.2, levels=("click",), horizon=100))
    ConUCBFloors.learn(
        state,
        NOBODY,
        0,
        LinkFeedback(
            np.arange(3), NO_SLOTS, np.ones(3), np.full(3, 1e7), np.array([1e6, 3e6, 2e6])
        ),
    )
    ConUCBFloors.choose(state, NOBODY, np.random.default_rng(1))
    assert dense_probabilities(state.mix).tolist() == [0.0, 1.0, 0.0]


def test_saving_keeps_what_is_known() -> None:
    state, _ = played(SHOP, n_rounds=300, gamma_scale=1e-3)
    policy = ConUCBFloors(gamma_scale=1e-3)
    again: Any = policy.restore(SHOP, policy.knowledge(state))
    np.testing.assert_array_equal(again.program.simplex.demands, state.program.simplex.demands)
    assert policy.estimates(again).clicks.tolist() == state.upper[0].tolist()


def test_deficits_of_several_floors_are_not_fed_back() -> None:
    with pytest.raises(InvalidInput, match="`deficit_feedback` must be False beyond clicks alone"):
        ConUCB(deficit_feedback=True).for_problem(SHOP)


def test_con_ucb_hands_several_floors_over() -> None:
    policy = ConUCB(horizon=70, gamma_scale=0.5, failure_probability=0.1)
    two_levels = Problem(4, 2, 0.5, levels=LEVELS)
    assert policy.for_problem(two_levels) is policy
    assert policy.for_problem(SHOP) == ConUCBFloors(70, 0.1, 0.5)
    assert policy.for_problem(SHOP).name == "con-ucb"
    with pytest.raises(InvalidInput, match=r"^`problem` must be one of a click floor alone, got "):
        policy.start(SHOP)
