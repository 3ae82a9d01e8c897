"""Selectors with levels of their own: feedback by name, several floors, saving, batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise import ConUCB, Decision, Problem, Selector
from slotwise.errors import InvalidFeedback, InvalidInput
from slotwise.selector import RevenueClipped
from tests.selector.selectors import everything, knowledge

LEVELS = ("click", "cart", "sale")
LINKS = tuple("abcdefgh")
FLOORS = {"click": 0.9, "cart": 0.3}


def shop(policy: Any = None, **settings: Any) -> Selector:
    chosen = {"levels": LEVELS, "floors": FLOORS, "seed": 4, **settings}
    return Selector(LINKS, 3, policy=policy, **chosen)


def visit(page: Decision, rng: np.random.Generator) -> dict[str, Any]:
    clicked = [link for link in page.shown if rng.random() < 0.4]
    carted = [link for link in clicked if rng.random() < 0.5]
    return {"click": clicked, "cart": carted, "sale": {link: rng.random() for link in carted}}


def play(selector: Selector, n_pages: int, seed: int = 1) -> list[tuple[Any, ...]]:
    rng = np.random.default_rng(seed)
    pages = []
    for _ in range(n_pages):
        page = selector.select()
        selector.update(page, **visit(page, rng))
        pages.append(page.shown)
    return pages


POLICIES = ["paced-bayes", "queue-ts", "lexp", ConUCB(gamma_scale=1e-3)]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_levels_by_name_teach_each_level(policy: Any) -> None:
    selector = shop(policy, horizon=1000, slot_weights=())
    play(selector, 40)
    report = selector.report()
    assert sum(row.levels[1].views for row in report.links) == 120
    assert [level.level for level in report.links[0].levels] == list(LEVELS)
    clicks, carts, sales = (sum(row.levels[j].total for row in report.links) for j in range(3))
    assert clicks > carts > sales > 0
    assert [floor.name for floor in report.page.floors] == ["click", "cart"]
    assert "cart: " in str(report)
    assert selector.problem == Problem(8, 3, levels=LEVELS, floors=FLOORS, horizon=1000)


@pytest.mark.parametrize("policy", ["paced-bayes", ConUCB(gamma_scale=1e-3)], ids=str)
def test_levels_in_any_order_teach_the_same(policy: Any) -> None:
    together, apart = (shop(policy, horizon=1000) for _ in range(2))
    page = together.select()
    said: dict[str, Any] = {"click": page.shown[:2], "cart": page.shown[:1], "sale": {}}
    said["sale"] = {page.shown[0]: 0.5}
    together.update(page, **said)
    other = apart.select()
    for level in ("sale", "click", "cart"):
        apart.update(other, **{level: said[level]})
        apart.update(other, **{level: said[level]})
    assert knowledge(apart)["views"] == knowledge(together)["views"]
    assert knowledge(apart)["sums"] == knowledge(together)["sums"]
    assert apart.report().n_open_pages == 0


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"clicks": []}, "^unknown feedback `clicks`; levels are click, cart, sale$"),
        ({"buy": {}}, "^unknown feedback `buy`; levels are click, cart, sale$"),
        ({"click": {"a": 1}}, "^`click` must be a collection of links, got a mapping"),
        ({"sale": ["a"]}, "^`sale` must be a mapping of links to money, got "),
        ({"click": [], "cart": ["a"]}, "^`cart` must be of links that reached `click`, got 'a'; r"),
        ({"click": [], "sale": {"a": 1}}, "^`sale` must be of links that reached `click`, got"),
        ({"cart": [], "sale": {"a": 1}}, "^`sale` must be of .* got 'a'; report its `cart` as w"),
        ({"cart": ["z"]}, "^`cart` must be links shown on the page, got 'z'$"),
    ],
)
def test_feedback_that_cannot_be_changes_nothing(said: dict[str, Any], message: str) -> None:
    selector = shop()
    page = selector.select(pin=["a"])
    before = everything(selector)
    with pytest.raises(InvalidFeedback, match=message):
        selector.update(page, **said)
    assert everything(selector) == before


def test_without_levels_only_clicks_and_revenue_are_feedback() -> None:
    selector = Selector(LINKS, 3, seed=1)
    page = selector.select()
    with pytest.raises(
        InvalidFeedback, match=r"^unknown feedback `cart`; levels are clicks, revenue$"
    ):
        selector.update(page, clicks=[], cart=[])
    with pytest.raises(
        InvalidFeedback, match=r"^`clicks` must be a collection of links, got a map"
    ):
        selector.update(page, clicks={page.shown[0]: 1})


@pytest.mark.parametrize("policy", ["paced-bayes", ConUCB(gamma_scale=1e-3)], ids=str)
def test_a_saved_selector_goes_on_with_its_levels(policy: Any, tmp_path: Path) -> None:
    selector = shop(policy, horizon=1000, max_revenue=5.0, rewards={"click": 0.1, "sale": 1.0})
    play(selector, 30)
    page = selector.select()
    selector.update(page, cart=[page.shown[1]])
    selector.retire(["h"])
    selector.save(tmp_path / "shop.sel")
    loaded = Selector.load(tmp_path / "shop.sel")
    assert loaded.problem == selector.problem
    assert loaded.report() == selector.report()
    for which in (selector, loaded):
        which.update(page, click=page.shown[:2], sale={})
        which.update_batch({"h": 10, "a": 5}, click={"a": 2, "h": 3}, cart={}, sale={})
    assert play(loaded, 20, seed=2) == play(selector, 20, seed=2)
    assert knowledge(loaded) == knowledge(selector)


def test_a_batch_has_levels_too() -> None:
    selector = shop(max_revenue=10.0)
    views = {"a": 10, "b": 4}
    with pytest.warns(RevenueClipped):
        selector.update_batch(views, click={"a": 6, "b": 1}, cart={"a": 3}, sale={"a": 40.0})
    row = selector.report().links[0]
    assert [(level.views, level.total) for level in row.levels] == [(10, 6), (10, 3), (10, 30.0)]
    assert selector.report().n_clipped == 1
    for wrong, message in (
        ({"click": {"a": 2}, "cart": {"a": 3}}, r"`cart` of 'a' must be at most its click \(2\)"),
        ({"cart": {"a": 11}}, r"`cart` of 'a' must be at most its views \(10\), got 11"),
        ({"cart": {"a": 0}, "sale": {"a": 1.0}}, "`sale` must be of links with `cart`, got 'a'"),
    ):
        with pytest.raises(InvalidFeedback, match=message):
            selector.update_batch({"a": 10}, **wrong)


@pytest.mark.parametrize("policy", ["paced-bayes", "queue-ts", ConUCB(gamma_scale=1e-3)], ids=str)
def test_pins_and_exclusions(policy: Any) -> None:
    selector = shop(policy, horizon=1000)
    play(selector, 60)
    for _ in range(20):
        page = selector.select(pin=["a", "b"], exclude=["c", "d"])
        assert {"a", "b"} <= set(page.shown)
        assert not {"c", "d"} & set(page.shown)
        assert sum(page.probabilities.values()) == pytest.approx(3.0)


def test_pinned_links_count_towards_every_floor() -> None:
    selector = Selector(
        LINKS, 3, policy=ConUCB(gamma_scale=1e-9), horizon=10, levels=LEVELS, seed=1,
        floors={"click": 0.5, "cart": 0.45},
    )  # fmt: skip
    views = dict.fromkeys(LINKS, 10**6)
    rates = {
        "a": (0.2, 0.2, 0.0),
        "b": (0.5, 0.1, 0.0),
        "c": (0.1, 0.05, 0.05),
        "d": (0.3, 0.3, 0.0),
    }
    totals = [{link: int(10**6 * rates.get(link, (0, 0, 0))[j]) for link in LINKS} for j in (0, 1)]
    sale = {link: 10**6 * rates.get(link, (0, 0, 0))[2] for link in LINKS}
    selector.update_batch(views, click=totals[0], cart=totals[1], sale=sale)
    page = selector.select(pin=["a"])
    # `a` leaves 0.25 carts to two slots: c, which earns, brings 0.05 and d the rest
    assert page.probabilities["c"] == pytest.approx(1.0)
    assert page.probabilities["d"] >= 0.2 / 0.3 - 1e-3


def test_a_frontier_is_of_one_floor() -> None:
    with pytest.raises(InvalidInput, match=r"^`floors` must be a click floor alone for a frontier"):
        shop().frontier()
    assert shop(floors={"click": 0.4}).frontier().click_floor == 0.4


@pytest.mark.parametrize("policy", ["paced-bayes", "queue-ts", ConUCB(gamma_scale=1e-3)], ids=str)
def test_floors_may_change(policy: Any) -> None:
    selector = shop(policy, floors={"click": 0.5}, horizon=1000)
    play(selector, 30)
    known = knowledge(selector)
    selector.set_floor(cart=0.4)
    assert dict(selector.problem.floors) == {"click": 0.5, "cart": 0.4}
    assert knowledge(selector)["views"] == known["views"]
    if "queue" in known:
        assert knowledge(selector)["queue"] == [*known["queue"], 0.0]
    play(selector, 10)
    selector.set_floor(0.0, cart=0.0)
    assert selector.problem.active_floors == ()
    play(selector, 10)
    before = everything_but_policy(selector)
    with pytest.raises(InvalidInput, match=r"^`click_floor` must be at least 0 and below n_slots"):
        selector.set_floor(3.0)
    with pytest.raises(InvalidInput, match=r"^`floors` must be by level"):
        selector.set_floor(basket=0.2)
    assert everything_but_policy(selector) == before


def everything_but_policy(selector: Selector) -> tuple[Any, ...]:
    return selector.problem, knowledge(selector), selector.report()


def test_another_floor_is_kept_from_the_next_page_on() -> None:
    selector = Selector(
        ["earns", "clicked"], 1, policy=ConUCB(gamma_scale=1e-9), horizon=10, seed=1
    )
    views = {"earns": 10**6, "clicked": 10**6}
    clicks, revenue = {"earns": 10**5, "clicked": 5 * 10**5}, {"earns": 1e5}
    selector.update_batch(views, clicks, revenue)
    assert selector.select().probabilities["earns"] == pytest.approx(1.0)
    selector.set_floor(0.3)
    assert selector.select().probabilities["earns"] == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize(
    "features", [{}, {"device": ("phone", "desktop")}], ids=["all", "visitors"]
)
def test_a_floor_is_kept_where_only_an_earlier_level_earns(features: Any, tmp_path: Path) -> None:
    """The seed is fixed; a policy that ignores the floor brings a quarter of it."""
    click = {"a": 0.6, "b": 0.5, "c": 0.2, "d": 0.15}
    cart = {"a": 0.02, "b": 0.05, "c": 0.8, "d": 0.9}
    asked: dict[str, Any] = {"rewards": {"click": 1.0}, "floors": {"cart": 0.15}}
    settings: dict[str, Any] = {"features": features, "slot_weights": "equal", **asked}
    selector = Selector(click, 2, levels=LEVELS, seed=1, **settings)
    rng, n_carts, n_pages = np.random.default_rng(1), 0, 1_000
    for _ in range(n_pages):
        page = selector.select()
        clicked = [link for link in page.shown if rng.random() < click[link]]
        carted = [link for link in clicked if rng.random() < cart[link]]
        selector.update(page, click=clicked, cart=carted, sale={})
        n_carts += len(carted)
    assert n_carts / n_pages > 0.13
    selector.save(tmp_path / "shop")
    assert Selector.load(tmp_path / "shop").select().shown == selector.select().shown
