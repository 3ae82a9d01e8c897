"""A problem of more levels: more floors, floors on conditional rates, weighed rewards."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import Any

import pytest

from slotwise.errors import InvalidInput
from slotwise.problem import Floor, Problem

LEVELS = ("click", "cart", "purchase")
SHOP: dict[str, Any] = {"n_links": 50, "n_slots": 10, "levels": LEVELS}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"floors": {"chart": 1}}, r"`floors` must be by level \(click, cart, purchase\), got 'ch"),
        ({"floors": 4.0}, "`floors` must be a mapping from level to number, got 4.0"),
        ({"floors": {"cart": -1}}, r"`floors\['cart'\]` must be at least 0 and below n_slots \(10"),
        ({"floors": {"cart": 10}}, r"`floors\['cart'\]` must be at least 0 .* got 10"),
        ({"floors": {"cart": float("nan")}}, r"`floors\['cart'\]` must be at least 0 .* got nan"),
        ({"floors": {"cart": True}}, r"`floors\['cart'\]` must be at least 0 .* got True"),
        ({"floors": {"click": 4}, "click_floor": 3}, "`click_floor` must be left out, or equal"),
        ({"rate_floors": {"cart": 1.5}}, r"`rate_floors\['cart'\]` must be from 0 to 1, got 1.5"),
        ({"rate_floors": {"cart": None}}, r"`rate_floors\['cart'\]` must be from 0 to 1, got None"),
        ({"rate_floors": {"buy": 0.1}}, "`rate_floors` must be by level .* got 'buy'"),
        (
            {"rate_floors": {"click": 0.5}},
            r"`rate_floors` must be of levels that have one before .* got .click.; a floor",
        ),
        ({"levels": ("click",), "rate_floors": {"click": 0.5}}, "must be of levels that have one"),
        ({"rewards": {"click": -0.1}}, r"`rewards\['click'\]` must be a finite number .* got -0.1"),
        ({"rewards": {"click": 0}}, "`rewards` must be above 0 for one level or more"),
        ({"rewards": {"like": 1}}, "`rewards` must be by level .* got 'like'"),
        ({"levels": ("click", "cart/click")}, "`levels` must be names without colon or slash"),
        ({"levels": ("click", "a:b")}, "`levels` must be names without colon or slash, got 'a:b'"),
        ({"levels": ("click", 2)}, "`levels` must be names without colon or slash, got 2"),
        ({"levels": ("click", "")}, "`levels` must be names without colon or slash, got ''"),
    ],
)
def test_a_broken_rule_is_named_with_its_value(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Problem(**{**SHOP, **settings})


def test_floors_become_rows_in_the_order_of_the_levels() -> None:
    problem = Problem(**SHOP, floors={"cart": 1, "click": 4}, rate_floors={"purchase": 0.2})
    assert list(problem.floors.items()) == [("click", 4.0), ("cart", 1.0)]
    assert problem.active_floors == (
        Floor("click", level=0, least=4.0, rate=0.0),
        Floor("cart", level=1, least=1.0, rate=0.0),
        Floor("purchase/cart", level=2, least=0.0, rate=0.2),
    )
    assert not problem.has_click_floor_only
    assert problem.rewards == {"purchase": 1.0}


def test_click_floor_is_the_floor_of_the_first_level() -> None:
    assert Problem(**SHOP, click_floor=4.0) == Problem(**SHOP, floors={"click": 4.0})
    assert Problem(**SHOP, floors={"click": 4.0}).click_floor == 4.0
    assert Problem(**SHOP, floors={"click": 4}, click_floor=4.0).click_floor == 4.0
    assert Problem(**SHOP, floors={"cart": 1.0}).click_floor == 0.0


def test_floors_of_zero_ask_for_nothing() -> None:
    problem = Problem(**SHOP, floors={"cart": 0.0}, rate_floors={"cart": 0.0})
    assert problem.active_floors == ()
    assert problem.has_click_floor_only


def test_weights_of_zero_are_left_out_of_the_rewards() -> None:
    problem = Problem(**SHOP, rewards={"purchase": 2, "click": 0, "cart": 0.5})
    assert list(problem.rewards.items()) == [("cart", 0.5), ("purchase", 2.0)]
    assert not problem.rewards_last_level_only
    assert Problem(**SHOP, rewards={"purchase": 1}).rewards_last_level_only


def test_a_problem_says_what_was_asked_for() -> None:
    assert repr(Problem(5, 2, 0.3)) == "Problem(n_links=5, n_slots=2, click_floor=0.3)"
    problem = Problem(
        **SHOP, floors={"cart": 1.0}, rate_floors={"cart": 0.2}, rewards={"cart": 0.5}
    )
    assert repr(problem) == (
        "Problem(n_links=50, n_slots=10, click_floor=0.0, levels=('click', 'cart', 'purchase'), "
        "floors={'cart': 1.0}, rate_floors={'cart': 0.2}, rewards={'cart': 0.5})"
    )
    assert eval(repr(problem)) == problem


def test_a_problem_can_be_copied_kept_and_changed() -> None:
    problem = Problem(**SHOP, floors={"click": 4, "cart": 1}, rate_floors={"cart": 0.2}, horizon=9)
    assert copy.deepcopy(problem) == problem
    assert pickle.loads(pickle.dumps(problem)) == problem
    assert len({problem, copy.copy(problem)}) == 1
    assert replace(problem, n_slots=12).floors == problem.floors


def test_the_floors_of_a_problem_cannot_be_changed() -> None:
    given = {"cart": 1.0}
    problem = Problem(**SHOP, floors=given)
    given["cart"] = 3.0
    assert problem.floors["cart"] == 1.0
    with pytest.raises(TypeError):
        problem.floors["cart"] = 2.0  # type: ignore[index]
