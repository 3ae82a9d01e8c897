"""The order of a page, and slot weights learned from pages in random order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from slotwise.errors import InvalidInput
from slotwise.problem import Problem
from slotwise.selection.page_order import (
    PageOrder,
    expose,
    learn_slot_weights,
    new_page_order,
    order_page,
    share_in_random_order,
)
from tests.reference.page_order import best_order, learned_weights

pytestmark = pytest.mark.compiled


def page_order(n_slots: int, weights: object) -> PageOrder:
    return new_page_order(Problem(n_links=50, n_slots=n_slots, slot_weights=weights))  # type: ignore[arg-type]


def test_a_page_stands_as_the_twin_orders_it() -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        n_slots = int(rng.integers(2, 9))
        order = page_order(n_slots, rng.uniform(0.2, 3.0, n_slots))
        shown = rng.permutation(50)[:n_slots]
        worth = rng.random(n_slots)
        probabilities = rng.random(n_slots)
        expected = best_order(worth.tolist(), order.weights.tolist())
        order.worth[:] = worth
        page, chances = shown.copy(), probabilities.copy()
        assert not order_page(order, rng, page, chances)
        assert page.tolist() == shown[expected].tolist()
        assert chances.tolist() == probabilities[expected].tolist()


def test_the_twin_finds_the_best_of_all_orders() -> None:
    rng = np.random.default_rng(2)
    worth, weights = rng.random(5), rng.random(5)
    best = max(sum(weights * worth[list(page)]) for page in itertools.permutations(range(5)))
    assert sum(weights * worth[best_order(worth.tolist(), weights.tolist())]) == pytest.approx(best)


def test_links_worth_the_same_stand_in_random_order() -> None:
    # 24 orders of equal chance in 24,000 pages: a count is off by 200 (6.4 sigma) with 1e-9
    rng = np.random.default_rng(1)
    order = page_order(4, (4, 3, 2, 1))
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(24_000):
        order.worth[:] = 1.0
        page = np.arange(4)
        order_page(order, rng, page, np.ones(4))
        seen[tuple(page.tolist())] = seen.get(tuple(page.tolist()), 0) + 1
    assert len(seen) == 24
    assert max(abs(count - 1000) for count in seen.values()) < 200


def test_pages_are_in_random_order_at_first_and_later_in_a_small_share() -> None:
    rng = np.random.default_rng(3)
    order = page_order(3, "learn")
    assert share_in_random_order(order) == 1.0
    learn_slot_weights(order, np.array([10.0, 10.0, 10.0]))
    assert 0.01 < share_in_random_order(order) < 0.1
    learn_slot_weights(order, np.full(3, 1e6))
    assert share_in_random_order(order) == 0.01
    # 300 of 30,000 pages expected, standard deviation 17: off by 100 with probability 1e-8
    flags = []
    for _ in range(30_000):
        order.worth[:] = 3.0, 2.0, 1.0
        flags.append(order_page(order, rng, np.arange(3), np.ones(3)))
    assert abs(sum(flags) - 300) < 100


def test_weights_are_those_of_the_twin_and_slots_stay_sorted() -> None:
    rng = np.random.default_rng(4)
    order = page_order(6, "learn")
    total = np.zeros(6)
    for _ in range(200):
        clicks = rng.poisson([2.0, 1.0, 0.7, 0.6, 0.3, 0.2]).astype(np.float64)
        total += clicks
        learn_slot_weights(order, clicks)
        np.testing.assert_allclose(order.weights, learned_weights(total.tolist()), rtol=1e-12)
        assert order.weights.mean() == pytest.approx(1.0)
        assert order.weights.min() > 0.0
        assert (np.diff(order.weights[order.best_first]) <= 0.0).all()
        assert sorted(order.best_first.tolist()) == list(range(6))


def test_learned_weights_approach_the_truth() -> None:
    # 40,000 clicks: a standard error is at most 0.02; 6 sigma a slot fails with 1e-8
    rng = np.random.default_rng(5)
    truth = np.array([1.65, 1.17, 0.95, 0.82, 0.74, 0.67])
    order = page_order(6, "learn")
    learn_slot_weights(order, rng.multinomial(40_000, truth / truth.sum()).astype(np.float64))
    assert np.abs(order.weights - truth).max() < 0.12


def test_slots_that_are_alike_stay_alike() -> None:
    rng = np.random.default_rng(6)
    order = page_order(20, "learn")
    learn_slot_weights(order, rng.multinomial(4_000, np.full(20, 0.05)).astype(np.float64))
    raw = 20 * (order.clicks + 1) / (order.clicks.sum() + 20)
    assert np.abs(order.weights - 1).max() < 0.6 * np.abs(raw - 1).max()


def test_a_view_counts_as_its_slot() -> None:
    order = page_order(3, (3.0, 2.0, 1.0))
    exposure = np.zeros(2)
    expose(order, np.array([2, 0]), np.array([1.0, 4.0]), exposure)
    assert exposure.tolist() == [0.5, 6.0]


@pytest.mark.parametrize("weights", [None, (), (1, 1, 1), [2.0, 2.0, 2.0]])
def test_equal_slots_are_alike(weights: object) -> None:
    assert Problem(n_links=9, n_slots=3, slot_weights=weights).slot_weights == ()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("learnt", "must be 'learn', 'equal', None or one number a slot, got 'learnt'"),
        ([1, 2], "must be one number for each of 3 slots, got"),
        ([1, 2, 0], "must be positive finite numbers, one a slot, got"),
        ([1, 2, -1], "must be positive finite numbers, one a slot, got"),
        ([1, 2, float("nan")], "must be positive finite numbers, one a slot, got"),
        ([1, 2, "3"], "must be positive finite numbers, one a slot, got"),
        ([True, True, False], "must be positive finite numbers, one a slot, got"),
        ([[1, 2], [3]], "must be positive finite numbers, one a slot, got"),
        ({"a": 1}, "must be positive finite numbers, one a slot, got"),
        (3, "must be positive finite numbers, one a slot, got"),
        ([], "must be positive finite numbers, one a slot, got"),
    ],
)
def test_other_weights_are_refused(weights: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=f"`slot_weights` {message}"):
        Problem(n_links=9, n_slots=3, slot_weights=weights)  # type: ignore[arg-type]
