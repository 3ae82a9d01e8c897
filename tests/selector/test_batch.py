"""Batches of page views: the same knowledge as page by page, and counts that can be."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from slotwise import Selector
from slotwise.errors import InvalidFeedback, InvalidInput
from slotwise.rounds import Link
from slotwise.selector import KnownCounts, RevenueClipped, start_from_counts
from tests.policies.order_of_feedback import ordered, refitted
from tests.selector.selectors import (
    COUNTING,
    NEEDING_PAGES,
    STEADY,
    everything,
    knowledge,
    new_selector,
    play,
)

NAN, INFINITE = float("nan"), float("inf")


def assert_same_knowledge(
    one: dict[str, Any], other: dict[str, Any], but_for: frozenset[str] = frozenset()
) -> None:
    assert one.keys() == other.keys()
    for name in one.keys() - but_for:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("policy", [name for name in COUNTING if name in STEADY])
def test_a_batch_teaches_what_its_pages_do(policy: str) -> None:
    by_page, by_batch, by_level = (
        new_selector(policy, max_revenue=8.0, slot_weights="equal") for _ in range(3)
    )
    visitors = np.random.default_rng(3)
    views: Counter[Link] = Counter()
    clicks: Counter[Link] = Counter()
    revenue: Counter[Link] = Counter()
    for _ in range(60):
        page = by_page.select()
        clicked = [link for link in page.shown if visitors.random() < 0.4]
        earned = {link: float(visitors.integers(0, 9)) for link in clicked}
        by_page.update(page, clicked, earned)
        views.update(page.shown)
        clicks.update(clicked)
        for link, amount in earned.items():
            revenue[link] += amount  # type: ignore[assignment]
    by_batch.update_batch(views, clicks, revenue)
    by_level.update_batch(views, revenue=revenue)
    by_level.update_batch(views, clicks=clicks)
    # what is fitted to the pool as it grows is fitted once for a batch
    fitted = ordered(policy)
    assert_same_knowledge(knowledge(by_batch), knowledge(by_page), fitted)
    assert_same_knowledge(knowledge(by_level), knowledge(by_page), fitted)
    batch, pages = by_batch.report().links, by_page.report().links
    assert [(link.link, link.levels) for link in batch] == [
        (link.link, link.levels) for link in pages
    ]
    assert fitted or batch == pages
    if not refitted(policy):  # a fit by steps depends on what had settled
        # equal links show in an order that a report on only one of the two must not have moved
        assert play(by_batch, 20) == play(by_level, 20)


@pytest.mark.parametrize("policy", NEEDING_PAGES)
def test_policies_that_need_every_page_refuse_counts(policy: str) -> None:
    selector = new_selector(policy)
    before = everything(selector)
    message = (
        f"`policy` must be a policy that learns from counts, got '{policy}'; "
        "give it every page with `update`"
    )
    with pytest.raises(InvalidInput, match=message):
        selector.update_batch({"blog": 10}, {"blog": 1}, {"blog": 0.5})
    assert everything(selector) == before


def test_a_level_that_is_not_given_stays_open() -> None:
    selector = new_selector()
    selector.update_batch({"blog": 10, "outlet": 4}, clicks={"blog": 3})
    rows = {row.link: row for row in selector.report().links}
    assert (rows["blog"].views, rows["blog"].clicks, rows["blog"].revenue_views) == (10, 3, 0)
    assert (rows["outlet"].views, rows["outlet"].clicks) == (4, 0)
    assert rows["new-in"].views == 0
    selector.update_batch({"blog": 10, "outlet": 4}, revenue={"blog": 1.5})
    rows = {row.link: row for row in selector.report().links}
    assert (rows["blog"].views, rows["blog"].revenue_views, rows["blog"].revenue) == (10, 10, 1.5)


def test_money_of_a_batch_is_clipped_at_what_its_clicks_can_bring() -> None:
    selector = new_selector(max_revenue=10.0)
    views = {"blog": 100, "outlet": 100}
    with pytest.warns(RevenueClipped, match="revenue of 10.3333 for a click"):
        selector.update_batch(views, {"blog": 3, "outlet": 3}, {"blog": 30.0, "outlet": 31.0})
    report = selector.report()
    assert {row.link: row.revenue for row in report.links if row.views} == {
        "blog": 30.0,
        "outlet": 30.0,
    }
    assert report.n_clipped == 1


def test_a_batch_may_be_empty_or_of_nothing() -> None:
    selector = new_selector()
    before = knowledge(selector)
    selector.update_batch({}, {}, {})
    selector.update_batch({"blog": 0}, {"blog": 0}, {"blog": 0.0})
    assert knowledge(selector) == before


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (({"blog": 2}, {"blog": 3}), r"`clicks` of 'blog' must be at most its views \(2\), got 3"),
        (({"stranger": 2},), "`views` must be links of the pool, got 'stranger'"),
        (({"blog": 2}, {"outlet": 1}), "`clicks` must be of links with `views`, got 'outlet'"),
        (({"blog": 2}, None, {"new-in": 1.0}), "`revenue` must be of links with `views`, got"),
        (({"blog": -2},), "`views` of 'blog' must be a whole number that is at least 0, got -2"),
        (({"blog": 2.5},), "`views` of 'blog' must be a whole number that is at least 0, got 2.5"),
        (({"blog": NAN},), "`views` of 'blog' must be a whole number .* got nan"),
        (({"blog": INFINITE},), "`views` of 'blog' must be a whole number .* got inf"),
        (({"blog": "2"},), "`views` of 'blog' must be a whole number .* got '2'"),
        (({"blog": 2}, {"blog": -1}), "`clicks` of 'blog' must be a whole number .* got -1"),
        (({"blog": 2}, {"blog": 0.5}), "`clicks` of 'blog' must be a whole number .* got 0.5"),
        (({"blog": 2}, {"blog": NAN}), "`clicks` of 'blog' must be a whole number .* got nan"),
        (({"blog": 2}, {"blog": 1}, {"blog": NAN}), "`revenue` of 'blog' must be a finite"),
        (({"blog": 2}, {"blog": 1}, {"blog": -0.1}), "`revenue` of 'blog' must be .* got -0.1"),
        (({"blog": 2}, {"blog": 1}, {"blog": INFINITE}), "`revenue` of 'blog' must be .* got inf"),
        (({"blog": 2}, {"blog": 0}, {"blog": 0.5}), "`revenue` must be of links that were clicked"),
        (({"blog": 2}, {}, {"blog": 0.5}), "`revenue` must be of links that were clicked, got 'b"),
        (({"blog": 0}, None, {"blog": 0.5}), "`revenue` must be of links that were clicked"),
        ((["blog"],), r"`views` must be a mapping of links to totals, got \['blog'\]"),
        ((5,), "`views` must be a mapping of links to totals, got 5"),
        (({"blog": 2}, ["blog"]), r"`clicks` must be a mapping of links to totals, got \['blog'\]"),
    ],
)
def test_counts_that_cannot_be_are_refused_and_change_nothing(
    batch: tuple[Any, ...], message: str
) -> None:
    selector = new_selector()
    play(selector, 5)
    before = everything(selector)
    with pytest.raises((InvalidFeedback, InvalidInput), match=message):
        selector.update_batch(*batch)
    assert everything(selector) == before


@pytest.mark.parametrize("features", [{}, {"device": ("phone", "desktop")}])
def test_a_first_sale_of_a_cent_makes_no_million_sales_of_a_batch(features: Any) -> None:
    """Until the next fit the mean sale is that of the first one."""
    selector = Selector(["a", "b", "c"], 1, seed=1, max_revenue=100.0, features=features)
    page = selector.select()
    selector.update(page, clicks=page.shown, revenue={page.shown[0]: 1e-4})
    start_from_counts(selector, [KnownCounts("b", {}, 100, 50, 5_000.0)])
    known = selector.knowledge().arrays
    assert known["sales"].max() <= 100.0
    if features:
        assert np.abs(known["tilt"]).max() <= 200.0
