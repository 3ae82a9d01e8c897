"""Laws of feedback through the Selector: click by click, late, of segments, and old debts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from slotwise import Selector
from slotwise.player.known_counts import KnownCounts
from slotwise.policies import POLICIES
from slotwise.selector import start_from_counts
from tests.combinations.shop_play import (
    FEATURES,
    SLOTS,
    Shop,
    Shown,
    a_visitor,
    click_by_click,
    in_one_call,
    mean_of,
)
from tests.policies.order_of_feedback import ordered
from tests.selector.selectors import registered_policy

pytestmark = pytest.mark.compiled  # with and without features, as `test_slots` compiles it

N_LINKS, N_SLOTS = 10, 3
DEVICE = {"device": ("phone",)}
"""A feature of which every visitor of these tests has the value "phone"."""


def asked_of(kind: str, floor: float) -> dict[str, Any]:
    """Return the same floor for everybody: for all without features, with them, of a segment."""
    if kind == "floor of a segment":
        return {"segment_floors": {"device": {"phone": floor}}, "features": DEVICE}
    return {"click_floor": floor, "features": {} if kind == "floor for all" else DEVICE}


def dear_clicks(seed: int) -> Shop:
    """Return 20 links of which those that are clicked on most earn least."""
    rng = np.random.default_rng(seed)
    click_rate = rng.beta(1.0, 4.0, 20)
    sale_rate = rng.beta(1.0, 6.0, 20) * np.exp(-3.0 * click_rate)
    return Shop(click_rate, sale_rate, np.ones(20), seed=seed)


def pages_with_floor(
    shop: Shop, kind: str, n_pages: int, delay: int = 0, report: Any = in_one_call
) -> Shown:
    """Return the pages of a selector with a floor between the best page and the most clicks."""
    asked, links = asked_of(kind, shop.floor_halfway(N_SLOTS)), range(len(shop.click_rate))
    shop = replace(shop, features=asked["features"])
    selector: Selector[int] = Selector(links, N_SLOTS, seed=1, slot_weights="equal", **asked)
    return shop.play(selector, n_pages, delay=delay, report=report)


def play_pinned_pages(
    selector: Selector[int], report: Any, n_pages: int, features: Any = MappingProxyType({})
) -> None:
    """Show pages that do not depend on the policy: pins fill them, and `shown` fixes the order."""
    rng = np.random.default_rng(2)
    for _ in range(n_pages):
        shown = rng.permutation(6)[:3].tolist()
        page = selector.select(visitor=a_visitor(features, rng), pin=shown)
        selector.update(page, shown=shown)
        clicks = [link for link in shown if rng.random() < 0.5]
        report(selector, page, clicks, dict.fromkeys(clicks, 0.5))


@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("kind", FEATURES)
def test_counts_of_a_page_settled_click_by_click_are_those_of_one_call(
    kind: str, slots: str
) -> None:
    counts = []
    for report in (in_one_call, click_by_click):
        selector: Selector[int] = Selector(
            range(6), 3, seed=1, features=FEATURES[kind], slot_weights=SLOTS[slots]
        )
        play_pinned_pages(selector, report, n_pages=15)
        known = selector.knowledge().counts
        counts.append([known.views.tolist(), known.sums.tolist()])
    assert counts[0] == counts[1]


@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "fixed-mix"])
def test_a_page_settled_click_by_click_leaves_the_knowledge_of_one_call(
    policy: str, slots: str
) -> None:
    """All of it but what a policy says depends on the order in which feedback comes."""
    known = []
    for report in (in_one_call, click_by_click):
        selector: Selector[int] = Selector(
            range(6),
            3,
            seed=1,
            click_floor=0.9,
            policy=registered_policy(policy, 6, 3),
            slot_weights=SLOTS[slots],
        )
        play_pinned_pages(selector, report, n_pages=40)
        known.append(selector.knowledge().arrays)
    for name in known[0].keys() - ordered(policy):
        np.testing.assert_allclose(known[0][name], known[1][name], rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("kind", [kind for kind in FEATURES if FEATURES[kind]])
def test_a_page_settled_click_by_click_leaves_the_regression_of_one_call(
    kind: str, slots: str
) -> None:
    known = knowledge_of_both(FEATURES[kind], slots)
    assert known[0]["has_pairs"] == 1.0
    for name, array in known[0].items():
        np.testing.assert_allclose(array, known[1][name], rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("slots", SLOTS)
def test_clicks_one_at_a_time_teach_many_values_nearly_the_same(slots: str) -> None:
    """Effects that are learned independently weaken an outcome by what is known when it comes."""
    known = knowledge_of_both({"country": str, "town": str}, slots)
    assert known[0]["has_pairs"] == 0.0
    for name in ("information", "tilt"):
        largest = float(np.abs(known[0][name]).max())
        np.testing.assert_allclose(known[0][name], known[1][name], atol=0.05 * largest)


def knowledge_of_both(features: Any, slots: str) -> list[Any]:
    """Return what is known after the same pages in one call each and click by click."""
    known = []
    for report in (in_one_call, click_by_click):
        selector: Selector[int] = Selector(
            *(range(6), 3), seed=1, click_floor=0.9, features=features, slot_weights=SLOTS[slots]
        )
        play_pinned_pages(selector, report, 25, features)
        known.append(selector.knowledge().arrays)
    return known


@pytest.mark.parametrize(
    "kind", ["floor for all", "floor for all, a feature", "floor of a segment"]
)
def test_clicks_that_come_one_at_a_time_are_credited_to_the_floor(kind: str) -> None:
    """Otherwise more clicks are bought than the floor asks for, with revenue."""
    shop = Shop.drawn(N_LINKS, seed=5)
    at_once, one_by_one = (
        pages_with_floor(shop, kind, 250, report=report) for report in (in_one_call, click_by_click)
    )
    assert one_by_one == at_once


def check_like_the_floor_for_all(seed: int, n_pages: int, delay: int) -> None:
    shop = dear_clicks(seed)
    for_all = pages_with_floor(shop, "floor for all, a feature", n_pages, delay)
    assert pages_with_floor(shop, "floor of a segment", n_pages, delay) == for_all


@pytest.mark.parametrize("delay", [0, 60])
def test_a_segment_of_all_visitors_plays_like_the_floor_for_all(delay: int) -> None:
    check_like_the_floor_for_all(1, 400 if delay else 250, delay)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_segment_of_all_visitors_plays_like_the_floor_for_all_for_long(seed: int) -> None:
    check_like_the_floor_for_all(seed, 24_000, 1_000)


@pytest.mark.parametrize("features", [{}, DEVICE], ids=["no features", "a feature"])
def test_the_debt_of_a_floor_out_of_reach_is_not_paid_back_for_as_long_again(
    features: Any,
) -> None:
    """A mistyped floor that is corrected costs no more than the pages that it was asked for."""
    shop = Shop.drawn(N_LINKS, features, seed=6)
    best = float(np.sort(shop.worth)[-N_SLOTS:].sum())
    slack = 0.5 * float(shop.click_rate[np.argsort(-shop.worth)[:N_SLOTS]].sum())
    selector: Selector[int] = Selector(
        range(N_LINKS), N_SLOTS, click_floor=slack, seed=1, features=features, slot_weights="equal"
    )
    shop.play(selector, 500)
    selector.set_floor(0.99 * N_SLOTS)
    shop.play(selector, 600, first=500)
    selector.set_floor(slack)
    pages = shop.play(selector, 400, first=1_100)
    assert mean_of(shop.worth, pages[100:]) > 0.9 * best


@pytest.mark.parametrize("features", [{}, DEVICE], ids=["no features", "a feature"])
def test_rates_that_are_imported_keep_the_floor_from_the_first_pages(features: Any) -> None:
    """Seeded; rates are known to a hundredth, so nothing has to be learned."""
    shop, n_views = replace(dear_clicks(1), features=features), 20_000
    floor = shop.floor_halfway(N_SLOTS)
    selector: Selector[Any] = Selector(
        range(20), N_SLOTS, click_floor=floor, features=features, slot_weights="equal", seed=1
    )
    visitor = dict.fromkeys(features, "phone")
    clicks = [round(n_views * float(rate)) for rate in shop.click_rate]
    earned = (np.array(clicks) * shop.sale_rate).tolist()
    known: list[Any] = [
        KnownCounts(link, visitor, n_views, clicks[link], earned[link])  # type: ignore[arg-type]
        for link in range(20)
    ]
    start_from_counts(selector, known)
    pages = shop.play(selector, 400)
    assert mean_of(shop.click_rate, pages) > 0.93 * floor


@pytest.mark.parametrize("kind", ["no features", "one feature", "an open list"])
@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "fixed-mix"])
def test_open_views_return_to_zero(policy: str, kind: str, tmp_path: Path) -> None:
    """With every page settled or forgotten, a loaded selector, which has no open page, goes on
    with the same pages."""
    features = FEATURES[kind]
    shop = Shop.drawn(N_LINKS, features, seed=7)
    selector: Selector[int] = Selector(
        range(N_LINKS),
        N_SLOTS,
        click_floor=shop.floor_halfway(N_SLOTS),
        policy=registered_policy(policy, N_LINKS, N_SLOTS),
        features=features,
        max_open_pages=12,
        seed=1,
    )
    shop.play(selector, 60, delay=20)  # eight of the pages waiting are forgotten at any time
    selector.save(tmp_path / "all settled.sel")
    loaded = Selector.load(tmp_path / "all settled.sel")
    assert selector.report().n_open_pages == 0
    assert shop.play(selector, 30, first=60) == shop.play(loaded, 30, first=60)
