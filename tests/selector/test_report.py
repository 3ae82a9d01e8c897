"""Reports: plain numbers, honest intervals, and a floor that is not called lost unseen."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise import ConUCB, Selector, Uniform
from slotwise.selection import solve
from slotwise.selector import RevenueClipped
from slotwise.selector.accounting import rate_of
from tests.selector.selectors import KINDS, LINKS, new_selector, play


def numbers_in(value: Any) -> Iterator[Any]:
    """Yield the numbers of a report, however deep."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            if field.name != "link":
                yield from numbers_in(getattr(value, field.name))
    elif isinstance(value, tuple):
        for part in value:
            yield from numbers_in(part)
    elif not isinstance(value, str):
        yield value


@pytest.mark.parametrize("policy", KINDS)
def test_every_number_is_a_plain_number(policy: str) -> None:
    selector = new_selector(policy, max_revenue=50)
    for _ in range(2):
        kinds = {type(number) for number in numbers_in(selector.report())}
        assert kinds == {int, float, type(None)}  # there is no own page to compare with
        play(selector, 20)


def test_every_number_of_a_comparison_is_a_plain_number() -> None:
    selector = Selector(LINKS, 2, own_page=LINKS[:2], keep=0.9, seed=1)
    for _ in range(2):
        kinds = {type(number) for number in numbers_in(selector.report().comparison)}
        assert kinds <= {int, float, bool, type(None)}
        play(selector, 20)


@pytest.mark.parametrize("policy", KINDS)
def test_the_report_says_what_was_shown_and_what_will_be(policy: str) -> None:
    selector = new_selector(policy)
    pages = play(selector, 40)
    report = selector.report()
    assert report.policy == policy
    assert [row.link for row in report.links] == list(LINKS)
    assert {row.link: row.views for row in report.links} == {
        link: sum(link in page for page in pages) for link in LINKS
    }
    chances = {row.link: row.probability for row in report.links}
    assert sum(chances.values()) == pytest.approx(2)
    page = selector.select()
    assert chances == pytest.approx({link: page.probabilities[link] for link in LINKS})
    clicks = sum(row.probability * row.click_rate.estimate for row in report.links)
    revenue = sum(row.probability * row.revenue_rate.estimate for row in report.links)
    assert report.page.expected_clicks == pytest.approx(clicks)
    assert report.page.expected_revenue == pytest.approx(revenue)
    for row in report.links:
        for rate in (row.click_rate, row.revenue_rate):
            assert 0 <= rate.low <= rate.estimate <= rate.high <= 1


CASES = {
    "slack": (0.2, [50, 40, 30, 20, 10]),
    "binding": (0.7, [50, 40, 30, 20, 10]),
    "infeasible": (1.2, [50, 40, 30, 20, 10]),
}


@pytest.mark.filterwarnings("ignore::slotwise.selector.floor_advice.FloorUnreachable")
@pytest.mark.parametrize("status", CASES)
def test_status_and_price_are_those_of_the_floor_program_in_money(status: str) -> None:
    floor, clicks = CASES[status]
    earned = [1.0, 4.0, 9.0, 12.0, 9.0]
    selector = new_selector(click_floor=floor, max_revenue=4.0)
    selector.update_batch(
        dict.fromkeys(LINKS, 100),
        dict(zip(LINKS, clicks, strict=True)),
        dict(zip(LINKS, earned, strict=True)),
    )
    page = selector.report().page
    best = solve(np.array(earned) / 400, np.array(clicks) / 100, 2, floor)
    assert page.status == best.status == status
    assert page.shadow_price == pytest.approx(best.shadow_price * 4)
    assert page.click_floor == floor
    assert page.most_clicks == pytest.approx(0.9)


def test_the_price_is_what_one_more_click_costs() -> None:
    prices = []
    revenue = []
    for floor in (0.7, 0.7001):
        selector = new_selector(ConUCB(horizon=1000, gamma_scale=1e-9), click_floor=floor)
        selector.update_batch(
            dict.fromkeys(LINKS, 10**7),
            dict(zip(LINKS, [5 * 10**6, 4 * 10**6, 3 * 10**6, 2 * 10**6, 10**6], strict=True)),
            dict(zip(LINKS, [1e5, 4e5, 9e5, 12e5, 9e5], strict=True)),
        )
        page = selector.report().page
        prices.append(page.shadow_price)
        revenue.append(page.expected_revenue)
        # bounds this tight play the program of the estimates, so the page just keeps the floor
        assert page.expected_clicks == pytest.approx(floor, abs=1e-4)
    assert (revenue[0] - revenue[1]) / 0.0001 == pytest.approx(prices[0], rel=0.05)


@pytest.mark.filterwarnings("ignore::slotwise.selector.floor_advice.FloorUnreachable")
def test_nothing_seen_is_not_called_infeasible() -> None:
    selector = new_selector(click_floor=1.5)
    page = selector.report().page
    assert (page.status, page.shadow_price, page.most_clicks) == ("slack", 0.0, 2.0)
    assert (page.expected_clicks, page.expected_revenue) == (0.0, 0.0)
    selector.update_batch(dict.fromkeys(LINKS[:3], 100), {})
    assert selector.report().page.status != "infeasible"
    selector.update_batch(dict.fromkeys(LINKS, 100), {})
    page = selector.report().page
    assert (page.status, page.most_clicks) == ("infeasible", 0.0)
    assert page.shadow_price == float("inf")


def test_revenue_that_is_settled_first_counts_by_itself() -> None:
    selector = new_selector(Uniform(), links=["a"], n_slots=1)
    selector.update(selector.select(), revenue={"a": 0.5})
    report = selector.report()
    assert report.links[0].revenue_rate.estimate == 0.5
    assert report.page.expected_revenue == 0.5


@pytest.mark.parametrize("truth", [0.002, 0.05, 0.3, 0.5, 0.97])
@pytest.mark.parametrize("n_views", [3, 40, 700])
def test_intervals_cover_the_truth_95_times_in_100(truth: float, n_views: int) -> None:
    rng = np.random.default_rng(round(1e6 * truth) + n_views)
    n_links = 4000
    clicks = rng.binomial(n_views, truth, n_links)
    intervals = {count: rate_of(float(count), float(n_views)) for count in set(clicks.tolist())}
    n_missed = sum(
        not intervals[count].low <= truth <= intervals[count].high for count in clicks.tolist()
    )
    # at most 5 % of 4,000 in the mean; 5.5 standard deviations (76) more by accident: below 1e-7
    assert n_missed <= 0.05 * n_links + 76


def test_intervals_of_money_cover_its_mean() -> None:
    rng = np.random.default_rng(5)
    n_links, n_views, max_revenue = 4000, 60, 20.0
    clicked = rng.random((n_links, n_views)) < 0.3
    money = clicked * rng.beta(0.5, 1.5, (n_links, n_views))
    truth = 0.3 * 0.25 * max_revenue
    rates = [rate_of(total, n_views, max_revenue) for total in money.sum(axis=1).tolist()]
    assert sum(not rate.low <= truth <= rate.high for rate in rates) <= 0.05 * n_links + 76
    # and they say something: far narrower than everything that is possible
    assert np.mean([rate.high - rate.low for rate in rates]) < 0.3 * max_revenue


def test_the_selectors_own_intervals_cover_the_rates_of_its_links() -> None:
    truth = np.random.default_rng(1).uniform(0.05, 0.6, 300)
    visitors = np.random.default_rng(2)
    selector = new_selector(Uniform(), links=range(300), n_slots=60, click_floor=0)
    for _ in range(200):
        page = selector.select()
        shown = np.array(page.shown, dtype=int)
        selector.update(page, clicks=shown[visitors.random(60) < truth[shown]].tolist(), revenue={})
    missed = [
        not row.click_rate.low <= rate <= row.click_rate.high
        for row, rate in zip(selector.report().links, truth, strict=True)
    ]
    # 15 of 300 in the mean; 5.5 standard deviations (21) more by accident: below 1e-6
    assert sum(missed) <= 15 + 21


def test_a_printed_report_is_a_table() -> None:
    selector = new_selector(click_floor=0.7, max_revenue=4.0, links=("a", "b", ("c", 1)))
    selector.update_batch({"a": 100, "b": 100}, {"a": 50, "b": 20}, {"a": 1.0, "b": 30.0})
    with pytest.warns(RevenueClipped):
        selector.update_batch({("c", 1): 100}, {("c", 1): 10}, {("c", 1): 50.0})
    selector.select()
    lines = str(selector.report()).splitlines()
    assert lines[0].split()[:4] == ["link", "probability", "views", "click"]
    rows = {line.split("  ")[0].strip(): line for line in lines[1:4]}
    assert rows.keys() == {"a", "b", "('c', 1)"}
    assert "0.5000  0.3667 to 0.6333" in rows["a"]
    assert len({len(line) for line in lines[:4]}) == 1
    assert lines[5].startswith(
        "delivered per page view: 0.5333 clicks (0.2435 to 0.8538 at all times), "
    )
    assert lines[5].endswith("floor 0.7 learning")
    assert lines[6].split()[:2] == ["0.4733", "revenue"]
    assert "floor 0.7, binding: one more click a page costs" in lines[7]
    assert lines[-1] == "con-ucb: 1 pages, 1 open, 0 forgotten; 1 amounts clipped"


@pytest.mark.filterwarnings("ignore::slotwise.selector.floor_advice.FloorUnreachable")
def test_a_long_report_shows_the_likeliest_links() -> None:
    selector = new_selector(Uniform(), links=range(100), n_slots=2)
    text = str(selector.report())
    assert "... and 70 more links" in text
    out_of_reach = new_selector(click_floor=1.5)
    out_of_reach.update_batch(dict.fromkeys(LINKS, 100), dict.fromkeys(LINKS, 20))
    assert "infeasible: the most that a page can have is 0.4" in str(out_of_reach.report())


@pytest.mark.filterwarnings("ignore::slotwise.selector.floor_advice.FloorUnreachable")
def test_the_floor_is_judged_by_the_clicks_delivered(tmp_path: Path) -> None:
    """The next page may be expected to bring less than the floor while the promise is kept."""
    selector = new_selector(Uniform(), links=["a", "b"], n_slots=1, click_floor=0.5)
    assert selector.report().delivered.status == "learning"
    for clicked in (True, True, False) * 20:
        page = selector.select()
        selector.update(page, clicks=page.shown if clicked else [], revenue={})
    delivered = selector.report().delivered
    assert (delivered.page_views, delivered.status) == (60, "learning")  # 0.33 to 1
    selector.update_batch({"a": 1_000}, {"a": 600}, {})
    delivered = selector.report().delivered
    assert (delivered.page_views, delivered.status) == (1_060, "met")
    assert delivered.clicks.low > 0.5
    assert "floor 0.5 met" in str(selector.report())
    selector.retire(["b"])
    assert selector.report().delivered == delivered  # also what links brought that have left
    selector.save(tmp_path / "it.sel")
    assert Selector.load(tmp_path / "it.sel").report().delivered == delivered
    selector.set_floor(0.9)  # what was delivered under another promise does not count
    assert selector.report().delivered.page_views == 0
    selector.set_floor(0.5)
    selector.update_batch({"a": 9_000}, {"a": 3_600}, {})
    judged = selector.report().delivered
    assert (judged.clicks.estimate, judged.status) == (0.4, "infeasible")
    assert new_selector(click_floor=0).report().delivered.status == "met"
