"""Laws of what a selector was told: settings reach the policy, floors move, files go on."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise import PacedBayes, Rule, Selector
from slotwise.policies import POLICIES, make_policy
from slotwise.problem import Problem
from tests.combinations.shop_play import FEATURES, Shop, Shown
from tests.selector.selectors import registered_policy

SETTINGS: dict[str, tuple[Any, Any]] = {
    "exploration": (0.3, 3.0),
    "patience": (0.2, 5.0),
    "horizon": (400, 100_000),
}
"""Two values of each setting of the default that must give other pages."""


def pages_with(setting: str, value: Any, kind: str) -> Shown:
    shop = Shop.drawn(8, FEATURES[kind], seed=2)
    selector: Selector[int] = Selector(
        range(8),
        2,
        policy=PacedBayes(**{setting: value}),
        click_floor=shop.floor_halfway(2),
        features=FEATURES[kind],
        slot_weights="equal",
        seed=1,
    )
    return shop.play(selector, 40)


@pytest.mark.parametrize("kind", FEATURES)
@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_reach_the_policy_with_and_without_features(setting: str, kind: str) -> None:
    """But for a horizon with features, which is documented to change nothing."""
    one, other = (pages_with(setting, value, kind) for value in SETTINGS[setting])
    assert (one != other) == (setting != "horizon" or kind == "no features")


def check_goes_on(selector: Selector[Any], shop: Shop, folder: Path, n_pages: int = 8) -> None:
    """Compare the pages of a selector with those of the one that its file gives."""
    selector.save(folder / "one.sel")
    loaded = Selector.load(folder / "one.sel")
    first = selector.report().n_pages
    assert shop.play(selector, n_pages, first=first) == shop.play(loaded, n_pages, first=first)


RULES = (Rule("a", [1, 3, 5, 6], at_least=1), Rule("b", [0, 2, 4], at_most=0.5))
CROSSING = (
    Rule("a", [1, 3, 5, 6, 9, 10, 11], at_least=1),
    Rule("b", list(range(8)), at_most=1),
)
"""Two rules that cross: some links belong to both."""

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {"slot_weights": "equal"},
    "floor": {"click_floor": 0.7},
    "known weights": {"slot_weights": (1.0, 0.5), "click_floor": 0.7},
    "weights that are scaled again": {"slot_weights": (2.3, 0.7), "click_floor": 0.7},
    "rules": {"rules": RULES, "slot_weights": "equal"},
    "explore": {"explore": 0.2},
    "one feature": {"features": FEATURES["one feature"], "click_floor": 0.7},
    "an open list": {"features": FEATURES["an open list"]},
    "rules and a feature": {"rules": RULES, "features": FEATURES["one feature"]},
}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "fixed-mix"])
def test_a_loaded_selector_goes_on_page_for_page(policy: str, options: str, tmp_path: Path) -> None:
    asked = OPTIONS[options]
    shop = Shop.drawn(12, asked.get("features"), seed=5)
    selector: Selector[int] = Selector(
        range(12), 2, policy=registered_policy(policy, 12, 2), seed=0, **asked
    )
    for n_pages in (3, 15):
        shop.play(selector, n_pages, first=selector.report().n_pages)
        check_goes_on(selector, shop, tmp_path)


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "fixed-mix"])
def test_ties_within_crossing_rules_fall_the_same_way_after_loading(
    policy: str, tmp_path: Path
) -> None:
    """Nobody clicks, so that scores tie."""
    for n_pages in range(1, 7):
        selector: Selector[int] = Selector(
            range(12),
            2,
            policy=registered_policy(policy, 12, 2),
            seed=0,
            rules=CROSSING,
            slot_weights="equal",
        )
        for _ in range(n_pages):
            selector.update(selector.select(), clicks=[], revenue={})
        selector.save(tmp_path / "ties.sel")
        loaded = Selector.load(tmp_path / "ties.sel")
        assert [selector.select().shown for _ in range(6)] == [
            loaded.select().shown for _ in range(6)
        ]


def test_known_slot_weights_are_saved_as_they_are(tmp_path: Path) -> None:
    """Weights that are scaled to mean 1 a second time may differ in the last digit."""
    rng = np.random.default_rng(3)
    for _ in range(60):
        weights = rng.uniform(0.1, 3.0, 5).tolist()
        selector: Selector[int] = Selector(range(6), 5, slot_weights=weights, seed=1)
        selector.save(tmp_path / "weights.sel")
        loaded = Selector.load(tmp_path / "weights.sel")
        assert loaded.problem.slot_weights == selector.problem.slot_weights


LEVELS = ("click", "cart", "sale")


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "fixed-mix"])
@pytest.mark.parametrize("floors", [{"cart": 0.0}, {"click": 0.0}, {"click": 0.0, "cart": 0.0}])
def test_floors_move_to_zero_and_back(policy: str, floors: dict[str, float]) -> None:
    before = {"click": 0.5, "cart": 0.2}
    selector: Selector[int] = Selector(
        range(6),
        2,
        policy=registered_policy(policy, 6, 2),
        levels=LEVELS,
        floors=before,
        slot_weights="equal",
        seed=1,
    )
    for asked in (floors, before, floors):
        selector.set_floor(**asked)
        for _ in range(5):
            page = selector.select()
            first = list(page.shown[:1])
            selector.update(page, click=first, cart=[], sale={})
        assert {**before, **asked} == dict(selector.problem.floors)


def test_the_multiplier_of_a_floor_that_starts_is_not_that_of_another_level() -> None:
    """LExp: a click floor that ends leaves nothing to the floor of the carts that starts."""
    selector: Selector[int] = Selector(
        range(6),
        2,
        policy="lexp",
        horizon=1_000,
        levels=LEVELS,
        floors={"click": 1.5},
        slot_weights="equal",
        seed=1,
    )
    for _ in range(80):  # nobody clicks: the floor becomes expensive
        selector.update(selector.select(), click=[], cart=[], sale={})
    assert selector.knowledge().arrays["multiplier"].max() > 0.0
    selector.set_floor(click=0.0, cart=0.1)
    assert selector.knowledge().arrays["multiplier"].tolist() == [0.0]


@pytest.mark.parametrize("n_pages", [1, 5, 40])
def test_the_frontier_has_a_band_where_clicks_exceed_weighted_views(n_pages: int) -> None:
    """A click in a slot of weight 1/6 counts more than its weighted view."""
    selector: Selector[str] = Selector(["a", "b", "c"], 2, slot_weights=[1.0, 0.2], seed=1)
    for _ in range(n_pages):
        page = selector.select(pin=["a", "b"])
        selector.update(page, shown=["a", "b"], clicks=["b"], revenue={})
    frontier = selector.frontier()
    for curve in (frontier.low, frontier.estimate, frontier.high):
        assert all(math.isfinite(number) for number in (*curve.floors, *curve.values))
    assert max(frontier.low.floors) < max(frontier.estimate.floors)


OWN_SETTINGS: dict[str, dict[str, Any]] = {
    "con-ucb": {"horizon": 77, "failure_probability": 0.2, "gamma_scale": 0.01},
    "paced-bayes": {"horizon": 77, "exploration": 0.3, "patience": 2.5},
    "lexp": {"horizon": 77, "parameters": "theta"},
    "exp3-m": {"horizon": 77},
}
"""No setting has its default."""
PROBLEMS = {
    "small": Problem(8, 2, click_floor=0.5, horizon=900),
    "large": Problem(700, 5, click_floor=2.0, horizon=900),
    "features": Problem(8, 2, click_floor=0.5, horizon=900, features={"device": ("a", "b")}),
    "several floors": Problem(8, 2, levels=LEVELS, floors={"click": 0.5, "cart": 0.2}, horizon=900),
}


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", OWN_SETTINGS)
def test_the_form_for_a_problem_has_the_settings_of_the_policy(name: str, problem: str) -> None:
    policy = make_policy(name, OWN_SETTINGS[name])
    form = policy.for_problem(PROBLEMS[problem])
    assert form.name == name
    assert {one: getattr(form, one) for one in OWN_SETTINGS[name]} == OWN_SETTINGS[name]
    defaults = make_policy(name)
    assert all(getattr(policy, one) != getattr(defaults, one) for one in OWN_SETTINGS[name])
