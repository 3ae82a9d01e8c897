"""Feedback: one level at a time, in either order, never twice, and nothing after an error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

from slotwise import Decision, Selector, Uniform
from slotwise.errors import InvalidFeedback, InvalidInput, UnknownDecision
from slotwise.policies import LinkFeedback
from slotwise.policies.policy import CountingPolicy, Counts, new_counts
from slotwise.problem import Problem
from slotwise.selection.mix import N_SURE, Mix, new_mix
from slotwise.selector import KnownCounts, LinkReport, RevenueClipped, start_from_counts
from slotwise.selector.accounting import Money
from tests.policies.order_of_feedback import refitted
from tests.selector.selectors import (
    COUNTING,
    KINDS,
    LINKS,
    everything,
    knowledge,
    new_selector,
    play,
)

NAN, INFINITE = float("nan"), float("inf")


def link_report(selector: Selector, link: object) -> LinkReport:
    return next(row for row in selector.report().links if row.link == link)


def settle(selector: Selector, order: str, pin: Sequence[str] = ()) -> Decision:
    """Settle one page, whose first link was clicked and earned 0.4, in one of several orders."""
    page = selector.select(pin=pin)
    clicks, revenue = [page.shown[0]], {page.shown[0]: 0.4}
    if order == "together":
        selector.update(page, clicks=clicks, revenue=revenue)
    elif order == "clicks first":
        selector.update(page, clicks=clicks)
        selector.update(page, revenue=revenue)
    elif order == "revenue first":
        selector.update(page.id, revenue=revenue)
        selector.update(page.id, clicks=clicks)
    return page


@pytest.mark.parametrize("order", ["clicks first", "revenue first"])
@pytest.mark.parametrize("policy", COUNTING)
def test_levels_one_at_a_time_teach_what_both_together_do(policy: str, order: str) -> None:
    together, apart = (new_selector(policy, slot_weights="equal") for _ in range(2))
    # a fit to clicks that comes after the revenue of the same page has that revenue, too
    fitted = refitted(policy) if order == "revenue first" else frozenset()
    for k in range(25):  # pages that depend on such a fit may differ, so they are given there
        pin = [LINKS[k % 5], LINKS[(k + 1 + k % 3) % 5]] if fitted else []
        assert settle(together, "together", pin).shown == settle(apart, order, pin).shown
    one, other = knowledge(apart), knowledge(together)
    assert one.keys() == other.keys()
    assert {name: one[name] for name in one.keys() - fitted} == {
        name: other[name] for name in one.keys() - fitted
    }
    assert apart.report() == together.report()


@pytest.mark.parametrize("policy", KINDS)
def test_both_levels_arrive_whatever_the_order(policy: str) -> None:
    selector = new_selector(policy)
    pages = [settle(selector, order) for order in ("together", "clicks first", "revenue first")]
    report = selector.report()
    assert sum(link.views for link in report.links) == 6
    assert sum(link.revenue_views for link in report.links) == 6
    assert sum(link.clicks for link in report.links) == 3
    assert sum(link.revenue for link in report.links) == pytest.approx(1.2)
    assert report.n_pages == len(pages)
    assert report.n_open_pages == 0


def test_empty_feedback_says_none_came_and_none_says_not_yet() -> None:
    selector = new_selector(Uniform())
    page = selector.select()
    selector.update(page)
    selector.update(page, clicks=None, revenue=None)
    assert link_report(selector, page.shown[0]).views == 0
    selector.update(page, clicks=[])
    row = link_report(selector, page.shown[0])
    assert (row.views, row.revenue_views, row.clicks) == (1, 0, 0)
    assert selector.report().n_open_pages == 1
    selector.update(page, revenue={})
    row = link_report(selector, page.shown[0])
    assert (row.views, row.revenue_views, row.revenue) == (1, 1, 0.0)
    assert selector.report().n_open_pages == 0


@pytest.mark.parametrize("policy", KINDS)
def test_each_level_counts_its_own_views(policy: str) -> None:
    selector = new_selector(policy, links=["a", "b"], n_slots=2)
    pages = [selector.select() for _ in range(10)]
    for page in pages:
        selector.update(page, clicks=["a"])
    for page in pages[3:7]:
        selector.update(page, revenue={"a": 0.5})
    row = link_report(selector, "a")
    assert (row.views, row.revenue_views) == (10, 4)
    assert row.click_rate.estimate == 1.0
    assert row.revenue_rate.estimate == 0.5
    assert selector.report().n_open_pages == 6


@pytest.mark.parametrize("policy", KINDS)
def test_saying_the_same_again_changes_nothing(policy: str) -> None:
    selector = new_selector(policy)
    play(selector, 10)
    page = selector.select()
    clicked = page.shown[1]
    selector.update(page, clicks=[clicked])
    after_clicks = everything(selector)
    selector.update(page, clicks=(clicked, clicked))
    selector.update(page.id, clicks={clicked})
    assert everything(selector) == after_clicks
    selector.update(page, clicks=[clicked], revenue={clicked: 0.5, page.shown[0]: 0.0})
    after_revenue = everything(selector)
    selector.update(page, revenue={clicked: 0.5})
    selector.update(page, clicks=[], revenue={page.shown[0]: 0.9})
    assert everything(selector) == after_revenue, "a settled page was opened again"


def test_revenue_settled_first_is_not_counted_again_with_the_clicks() -> None:
    selector = new_selector()
    page = selector.select()
    revenue = {page.shown[0]: 0.5}
    selector.update(page, revenue=revenue)
    settled = everything(selector)
    selector.update(page, revenue=revenue)
    assert everything(selector) == settled
    selector.update(page, clicks=[page.shown[0]], revenue=revenue)
    row = link_report(selector, page.shown[0])
    assert (row.views, row.revenue_views, row.revenue) == (1, 1, 0.5)


@pytest.mark.parametrize("later", [{}, {"first": 0.9}, {"first": 0.4, "second": 0.1}])
def test_another_revenue_is_ignored_once_the_page_is_settled(later: dict[str, float]) -> None:
    selector = new_selector()
    page = selector.select()
    first, second = page.shown[:2]
    selector.update(page, clicks=[first, second], revenue={first: 0.4})
    before = everything(selector)
    names = {"first": first, "second": second}
    selector.update(page, revenue={names[name]: amount for name, amount in later.items()})
    assert everything(selector) == before


def hidden_link(page: Decision) -> object:
    return next(link for link in LINKS if link not in page.shown)


FIRST, SECOND, HIDDEN = "first shown", "second shown", "not shown"


@pytest.mark.parametrize("policy", ["con-ucb", "lexp", "cucb"])
@pytest.mark.parametrize(
    ("said", "wrong", "message"),
    [
        ({}, {"clicks": [HIDDEN]}, "`clicks` must be links shown on the page, got '"),
        ({}, {"clicks": [FIRST, "stranger"]}, "`clicks` must be .* page, got 'stranger'"),
        ({}, {"clicks": "blog"}, "`clicks` must be a collection of links, got 'blog'; write"),
        ({}, {"clicks": 3}, "`clicks` must be a collection of hashable links, got 3"),
        ({}, {"clicks": [[FIRST]]}, "`clicks` must be a collection of hashable links"),
        ({}, {"revenue": {HIDDEN: 0.1}}, "`revenue` must be of links shown on the page, got '"),
        ({}, {"revenue": {FIRST: -0.1}}, "`revenue` of '.*' must be a finite .* got -0.1"),
        ({}, {"revenue": {FIRST: NAN}}, "`revenue` of '.*' must be a finite number .* got nan"),
        ({}, {"revenue": {FIRST: INFINITE}}, "`revenue` of '.*' must be a finite .* got inf"),
        ({}, {"revenue": {FIRST: Decimal("NaN")}}, "must be a finite .* got Decimal"),
        ({}, {"revenue": {FIRST: "0.4"}}, "`revenue` of '.*' must be a finite .* got '0.4'"),
        ({}, {"revenue": {FIRST: None}}, "`revenue` of '.*' must be a finite .* got None"),
        ({}, {"revenue": [FIRST]}, "`revenue` must be a mapping of links to money, got"),
        (
            {},
            {"clicks": [FIRST], "revenue": {SECOND: 0.4}},
            "`revenue` must be of links that were clicked, got .*; report its click as well",
        ),
        (
            {"clicks": [FIRST]},
            {"revenue": {FIRST: 0.1, SECOND: 0.4}},
            "`revenue` must be of links that were clicked, got '",
        ),
        (
            {"revenue": {FIRST: 0.4}},
            {"clicks": [SECOND]},
            "`revenue` must be of links that were clicked, got '",
        ),
        (
            {"revenue": {FIRST: 0.4}},
            {"revenue": {FIRST: 0.5}},
            r"`revenue` of this page was already recorded as \{'.*': 0.4\}, got \{'.*0.5",
        ),
        (
            {"revenue": {FIRST: 0.4}},
            {"revenue": {}},
            r"`revenue` of this page was already recorded as .* got \{\}",
        ),
        ({}, {"clicks": [FIRST], "revenue": {FIRST: NAN}}, "`revenue` of '.*' must be a finite"),
    ],
)
def test_feedback_that_cannot_be_is_refused_and_changes_nothing(
    policy: str, said: dict[str, Any], wrong: dict[str, Any], message: str
) -> None:
    selector = new_selector(policy)
    play(selector, 10)
    page = selector.select()
    names = {FIRST: page.shown[0], SECOND: page.shown[1], HIDDEN: hidden_link(page)}

    def with_names(feedback: Any) -> Any:
        if isinstance(feedback, dict):
            return {names.get(key, key): with_names(value) for key, value in feedback.items()}
        if isinstance(feedback, list):
            return [with_names(part) for part in feedback]
        return names.get(feedback, feedback) if isinstance(feedback, str) else feedback

    selector.update(page, **with_names(said))
    before = everything(selector)
    with pytest.raises((InvalidFeedback, InvalidInput), match=message):
        selector.update(page, **with_names(wrong))
    assert everything(selector) == before


def test_a_page_can_still_be_settled_after_an_error() -> None:
    selector = new_selector()
    page = selector.select()
    with pytest.raises(InvalidFeedback):
        selector.update(page, clicks=[page.shown[0]], revenue={page.shown[0]: -1.0})
    selector.update(page, clicks=[page.shown[0]], revenue={page.shown[0]: 1.0})
    row = link_report(selector, page.shown[0])
    assert (row.views, row.clicks, row.revenue) == (1, 1, 1.0)


@pytest.mark.parametrize(
    "made_up",
    [
        "",
        "page",
        "-1",
        "{token}",
        "{token}-",
        "{token}-0",
        "{token}-4",
        "{token}--1",
        "{token}-01",
        "{token}-1.0",
        "{token}-²",
        "{token}-1" + "0" * 5000,
        "x{token}-1",
        None,
        1,
        ["page"],
    ],
    ids=lambda made_up: repr(made_up)[:20],
)
def test_an_unknown_page_is_refused(made_up: Any) -> None:
    selector = new_selector()
    page = [selector.select() for _ in range(3)][-1]
    token = page.id.rpartition("-")[0]
    if isinstance(made_up, str):
        made_up = made_up.replace("{token}", token)
    before = everything(selector)
    with pytest.raises(UnknownDecision, match="`page` must be a page of this selector, got "):
        selector.update(made_up, clicks=[])
    assert everything(selector) == before


def test_the_page_of_another_selector_is_refused() -> None:
    selector, other = new_selector(), new_selector()
    selector.select()
    with pytest.raises(UnknownDecision, match="use the page that `select` returned, or its id"):
        selector.update(other.select(), clicks=[])


def test_the_oldest_open_pages_are_forgotten_and_counted() -> None:
    selector = new_selector(max_open_pages=3)
    pages = [selector.select() for _ in range(5)]
    assert selector.report().n_open_pages == 3
    assert selector.report().n_forgotten_pages == 2
    before = everything(selector)
    for page in pages[:2]:
        selector.update(page, clicks=[], revenue={})
    assert everything(selector) == before
    for page in pages[2:]:
        selector.update(page, clicks=[], revenue={})
    report = selector.report()
    assert sum(link.views for link in report.links) == 6
    assert report.n_open_pages == 0


def test_numbers_of_any_kind_are_money() -> None:
    selector = new_selector(Uniform(), links=["a"], n_slots=1)
    for amount in (1, 0.25, Decimal("0.25"), np.float32(0.25), np.int64(1)):
        selector.update(selector.select(), clicks=["a"], revenue={"a": amount})  # type: ignore[dict-item]
    assert selector.report().links[0].revenue == 2.75


def test_a_decision_can_be_kept_in_a_set_and_found_again() -> None:
    selector = new_selector()
    pages = {selector.select() for _ in range(4)}
    assert len(pages) == 4
    for page in pages:
        selector.update(page, clicks=[], revenue={})
    assert selector.report().n_open_pages == 0


def test_money_is_scaled_and_what_is_above_is_clipped_and_counted() -> None:
    selector = new_selector(links=["a", "b"], max_revenue=50.0)
    selector.update(selector.select(), clicks=["a", "b"], revenue={"a": 25.0, "b": 50.0})
    page = selector.select()
    with pytest.warns(
        RevenueClipped, match=r"revenue of 80 for a click is above max_revenue \(50"
    ) as w:
        selector.update(page, clicks=["a", "b"], revenue={"a": 80.0, "b": 50.5})
    assert w[0].filename == __file__
    selector.update(selector.select(), clicks=["a"], revenue={})
    report = selector.report()
    assert report.n_clipped == 2
    assert [link.revenue for link in report.links] == [75.0, 100.0]
    assert [link.revenue_rate.estimate for link in report.links] == pytest.approx([25, 100 / 3])
    assert knowledge(selector)["sums"][1] == [1.5, 2.0]


def test_money_beyond_every_number_is_clipped_like_any_other() -> None:
    selector = new_selector(links=["a"], n_slots=1, max_revenue=1e-300)
    with pytest.warns(RevenueClipped):
        selector.update(selector.select(), clicks=["a"], revenue={"a": 1e300})
    selector.update(selector.select(), clicks=["a"], revenue={"a": 1e300})  # warned of once
    assert selector.report().n_clipped == 2
    assert knowledge(selector)["sums"][1] == [2.0]


@pytest.mark.parametrize("features", [{}, {"device": ("phone", "desktop")}])
@pytest.mark.parametrize("amount", [5e-324, 1e-200])
def test_money_below_every_number_is_no_sale(amount: float, features: Any, tmp_path: Path) -> None:
    selector = Selector(LINKS, 2, click_floor=0.5, seed=1, features=features)
    for _ in range(30):
        page = selector.select()
        selector.update(page, clicks=page.shown, revenue=dict.fromkeys(page.shown, amount))
    assert all(np.isfinite(known).all() for known in knowledge(selector).values())
    assert not np.isnan(selector._player.state.score).any()
    assert (selector.frontier().high.values >= 0.0).all()
    selector.save(tmp_path / "least.sel")
    assert Selector.load(tmp_path / "least.sel").select().shown == selector.select().shown


@pytest.mark.parametrize("policy", KINDS)
def test_clicks_one_at_a_time_teach_what_they_teach_together(policy: str) -> None:
    together, apart = (new_selector(policy, slot_weights="equal") for _ in range(2))
    for number in range(20):
        pinned = LINKS[number % 3 : number % 3 + 2]
        page, twin = together.select(pin=pinned), apart.select(pin=pinned)
        clicks = page.shown if number % 4 == 0 else page.shown[:1]
        together.update(page, clicks=clicks, revenue={})
        apart.update(twin, clicks=[])
        for link in clicks:
            apart.update(twin, clicks=[link])
            apart.update(twin, clicks=[link])  # said twice, counted once
        apart.settle(twin)
    counted, added = together.report(), apart.report()
    assert [row.clicks for row in added.links] == [row.clicks for row in counted.links]
    assert [row.views for row in added.links] == [row.views for row in counted.links]
    assert added.delivered == counted.delivered
    assert (added.n_open_pages, added.n_pages) == (0, 20)


def test_settling_ends_a_page() -> None:
    selector = new_selector()
    page, other = selector.select(), selector.select()
    selector.update(page, clicks=[page.shown[0]])
    selector.settle(page.id)
    selector.settle(page)
    selector.update(page, clicks=page.shown, revenue={page.shown[0]: 1.0})  # too late
    selector.settle(other)
    report = selector.report()
    assert (report.n_open_pages, sum(row.clicks for row in report.links)) == (0, 1)
    assert sum(row.revenue_views for row in report.links) == 4
    assert report.delivered.page_views == 2
    with pytest.raises(UnknownDecision):
        selector.settle("somebody's page")


@pytest.mark.parametrize("given", [{"clicks": {"a": 1}}, {"clicks": {}}])
def test_a_mapping_is_no_collection_of_clicks(given: dict[str, Any]) -> None:
    selector = new_selector(links=["a", "b"])
    with pytest.raises(InvalidFeedback, match="`clicks` must be a collection of links, got a mapp"):
        selector.update(selector.select(), **given)


@pytest.mark.parametrize("of", ["clicks", "revenue"])
def test_numbers_of_numpy_are_no_ids_that_are_tuples(of: str) -> None:
    selector = Selector([(1, "a"), (2, "b")], 1, seed=1)
    given: Any = {"clicks": np.array([1.0]), "revenue": {np.float64(1.0): 2.0}}[of]
    with pytest.raises(InvalidFeedback, match=f"`{of}` must be .*links shown on the page"):
        selector.update(selector.select(), **{of: given})


@pytest.mark.parametrize("earned", [{}, {"a": 2.0}, {"a": 9.0, "b": 3.0, "c": 80.0}])
def test_money_of_a_page_is_scaled_like_that_of_a_batch(earned: dict[Any, float]) -> None:
    of_page, of_batch = Money(7.0), Money(7.0)
    scaled = of_page.scaled_page(earned)
    of_page.count_clipped(earned, {"a", "b", "c"})
    amounts = np.array(list(earned.values()))
    assert list(scaled.values()) == of_batch.scaled(amounts, np.ones(len(earned))).tolist()
    assert vars(of_page) == vars(of_batch)


def test_clipped_money_of_a_retired_link_is_not_counted() -> None:
    money = Money(7.0)
    earned: dict[Any, float] = {"gone": 80.0, "a": 7.0}
    assert money.scaled_page(earned) == {"gone": 1.0, "a": 1.0}
    money.count_clipped(earned, {"a"})
    money.warn()
    assert money.n_clipped == 0


def test_own_counts_are_those_of_the_feedback() -> None:
    # the default policy keeps no plain counts
    selector = Selector(list("abcd"), 2, seed=3, slot_weights="equal")
    views, sums = np.zeros((2, 4)), np.zeros((2, 4))
    for _ in range(30):
        page = selector.select()
        places = [selector.links.index(link) for link in page.shown]
        selector.update(page, clicks=page.shown[:1], revenue={page.shown[0]: 0.3})
        views[:, places] += 1.0
        sums[:, places[0]] += 1.0, 0.3
    assert selector.knowledge().counts.views.tolist() == views.tolist()
    assert selector.knowledge().counts.sums.tolist() == sums.tolist()


class CountingState(NamedTuple):
    counts: Counts
    mix: Mix


def show_first(state: CountingState, visitor: object, rng: object) -> None:
    state.mix.sizes[:] = 0
    state.mix.sizes[N_SURE] = 2
    state.mix.sure[:2] = (0, 1)


def count_or_fail(
    state: CountingState, visitor: object, level: int, feedback: LinkFeedback
) -> None:
    """Count link by link; revenue above 0.5 raises after its link was counted."""
    links, views, outcomes = feedback.links, feedback.views, feedback.outcomes
    for k, link in enumerate(links):
        state.counts.views[level, link] += views[k]
        state.counts.sums[level, link] += outcomes[k]
        if level == 1 and outcomes[k] > 0.5:
            raise ArithmeticError("too much")


@dataclass(frozen=True)
class FailingPolicy(CountingPolicy):
    """A policy of another package whose `learn` raises at the second level."""

    name: ClassVar[str] = "failing"
    choose: ClassVar[Any] = staticmethod(show_first)
    learn: ClassVar[Any] = staticmethod(count_or_fail)

    def start(self, problem: Problem) -> CountingState:
        return CountingState(new_counts(problem), new_mix(problem.n_links))


def test_a_policy_that_raises_has_learned_nothing() -> None:
    selector = new_selector(
        FailingPolicy(), max_revenue=10.0, slot_weights="learn", features={"device": ["phone"]}
    )
    for _ in range(3):
        page = selector.select(visitor={"device": "phone"})
        selector.update(page, clicks=page.shown, revenue={})
    page = selector.select(visitor={"device": "phone"})
    before = everything(selector)
    for _ in range(3):
        with pytest.raises(ArithmeticError, match="too much"):
            selector.update(page, clicks=page.shown, revenue={page.shown[0]: 20.0})
        assert everything(selector) == before
    selector.update(page, clicks=page.shown, revenue={page.shown[0]: 4.0})
    row = link_report(selector, page.shown[0])
    assert (row.views, row.clicks, row.revenue) == (4, 4, 4.0)


def test_counts_at_which_a_policy_raises_teach_nothing() -> None:
    selector = new_selector(FailingPolicy())
    before = everything(selector)
    with pytest.raises(ArithmeticError, match="too much"):
        selector.update_batch({LINKS[0]: 9}, {LINKS[0]: 2}, {LINKS[0]: 1.5})
    with pytest.raises(ArithmeticError, match="too much"):
        start_from_counts(selector, [KnownCounts(LINKS[0], {}, 9, 2, 1.5)])
    assert everything(selector) == before
