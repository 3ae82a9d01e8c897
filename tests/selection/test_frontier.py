from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings

from slotwise.errors import InvalidInput
from slotwise.selection import SlotRule, frontier, solve, solve_kinds
from tests.reference.floor_program import best_clicks, clicks_of_best_value
from tests.selection.instances import Instance, instances


@settings(max_examples=80)
@given(instances())
def test_the_frontier_equals_solve_at_every_floor(instance: Instance) -> None:
    value, clicks, n_slots, floor = instance
    curve = frontier(value, clicks, n_slots)
    assert curve.floors[0] == pytest.approx(clicks_of_best_value(value, clicks, n_slots))
    assert curve.floors[-1] == pytest.approx(best_clicks(clicks, n_slots))
    assert len(curve.floors) == len(curve.values) == len(curve.shadow_prices) + 1
    assert np.all(np.diff(curve.floors) > 0.0)
    assert np.all(np.diff(curve.shadow_prices) >= -1e-9 * (1.0 + curve.shadow_prices[:-1]))
    rng = np.random.default_rng(len(value))
    inside = rng.uniform(0.0, curve.floors[-1], 4)
    corners = rng.choice(curve.floors, 4)
    for one in [*inside, *corners, min(floor, curve.floors[-1])]:
        best = solve(value, clicks, n_slots, one)
        accuracy = 1e-9 * n_slots * (1.0 + min(best.shadow_price, 1e6))
        assert curve.value_at(one) == pytest.approx(best.value, abs=accuracy)
    for one in inside:
        apart = np.abs(curve.floors - one).min() > 1e-6
        if apart:
            price = solve(value, clicks, n_slots, one).shadow_price
            assert curve.shadow_price_at(one) == pytest.approx(price, rel=1e-6, abs=1e-6)


def test_the_price_of_a_piece_is_its_slope() -> None:
    rng = np.random.default_rng(4)
    curve = frontier(rng.random(60), rng.random(60), n_slots=6)
    slopes = -np.diff(curve.values) / np.diff(curve.floors)
    np.testing.assert_allclose(slopes, curve.shadow_prices, rtol=1e-6)
    assert len(curve.floors) > 5


def test_links_all_equal_make_one_point() -> None:
    curve = frontier([0.25] * 5, [0.5] * 5, n_slots=2)
    assert curve.floors.tolist() == [1.0]
    assert curve.values.tolist() == [0.5]
    assert curve.shadow_prices.tolist() == []
    assert curve.value_at(0.3) == 0.5
    assert curve.shadow_price_at(0.3) == 0.0


def test_out_of_reach_has_no_value_and_no_price() -> None:
    curve = frontier([0.9, 0.1], [0.1, 0.9], n_slots=1)
    assert math.isnan(curve.value_at(0.95))
    assert math.isinf(curve.shadow_price_at(0.95))
    assert curve.value_at(0.9) == pytest.approx(0.1)


def test_bad_input_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"^`n_slots` must be from 1 to the number of links"):
        frontier([0.9, 0.1], [0.1, 0.9], n_slots=3)


@settings(max_examples=60)
@given(instances())
def test_with_slots_no_ordered_page_lies_above_the_frontier(instance: Instance) -> None:
    value, clicks = instance.value[:6], instance.clicks[:6]
    n_slots = min(instance.n_slots, len(value))
    weights = np.linspace(0.4, 1.6, n_slots) if n_slots > 1 else np.ones(1)
    curve = frontier(value, clicks, n_slots, slot_weights=weights)
    pages = [list(page) for page in itertools.permutations(range(len(value)), n_slots)]
    of_pages = [(weights @ clicks[page], weights @ value[page]) for page in pages]
    for price in (0.0, 0.1, 1.0, 10.0):
        best = max(earned + price * clicked for clicked, earned in of_pages)
        assert (curve.values + price * curve.floors).max() == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("are_alike", [True, False])
def test_rules_hold_for_every_kind_and_in_every_slot(are_alike: bool) -> None:
    """The curve at a floor is what the linear program finds there."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        value, clicks = rng.random((2, 3, 7))
        shares, weights = rng.dirichlet(np.ones(3)), np.ones(3)
        if not are_alike:
            weights = rng.dirichlet(np.ones(3)) * 3
        rules = [
            SlotRule(np.array([0, 1, 2]), 0.0, 1.0),
            SlotRule(np.array([3, 4]), 0.5, 2.0),
        ]
        curve = frontier(value, clicks, 3, shares, rules, weights)
        for part in (0.2, 0.5, 0.9, 1.0):
            floor = float(curve.floors[0] + part * np.ptp(curve.floors))
            best = solve_kinds(
                value, clicks, shares, weights, [(np.ones(3, bool), floor - 1e-9)], rules
            )
            assert best.status != "infeasible"
            assert curve.value_at(floor) == pytest.approx(best.value, abs=1e-6)
