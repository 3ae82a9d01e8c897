"""What the service says about itself: exact sums, honest intervals, reasons."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from slotwise.errors import UnknownDecision
from slotwise.player.player import Player
from slotwise.service.counting.attribution import Counters, LinkCounters, PageCounters
from slotwise.service.counting.counters import SHARE_UNIT
from slotwise.service.counting.rates import LinkRates, estimate_rates, floor_report, link_counts
from slotwise.service.learning.version_pages import AveragePages
from slotwise.service.pool import problem_of
from slotwise.service.records import Event, PoolRule
from slotwise.service.refusals import UnknownPool
from slotwise.service.reporting.pool_report import (
    compare_periods,
    describe_worth,
    report_group,
    report_lift,
    share_rate,
    views_needed,
)
from slotwise.service.reporting.report_records import Explanation, FrontierPoint, FrontierReport
from slotwise.service.service import Service
from slotwise.service.storage.activity import Span
from tests.service.conftest import OpenService
from tests.service.learning.test_learning import visit
from tests.service.rows import (
    MAX_REVENUE,
    REVENUE_WINDOW_S,
    T0,
    adjustment,
    click,
    conversion,
    link,
    pool,
    seconds,
)
from tests.service.sampling_policy import SamplingPolicy
from tests.stores.store_rows import reads

FAR = seconds(10 * 86_400)


def test_a_decision_tells_what_was_shown_received_counted_and_refused(service: Service) -> None:
    page = service.decider.decide("home", T0, decision_id="d1")
    first, second = (shown.link_id for shown in page.shown)
    service.committer.submit_events(
        [
            click(first),
            click(first, invalid="prefetch"),
            conversion(link_id=first),
            conversion(link_id=first, revenue_micros=1),
            conversion("order-2", link_id=first, currency="USD"),
            adjustment(),
        ],
        T0 + 5,
    ).result()
    service.committer.submit_events([click(second)], seconds(REVENUE_WINDOW_S)).result()
    report = service.reporter.decision("d1")
    assert report.decision.shown == page.shown
    told = sorted((item.type, item.event_id, item.outcome, item.reason) for item in report.received)
    assert told == sorted(
        [
            ("click", first, "accepted", ""),
            ("click", first, "rejected", "prefetch"),
            ("click", second, "late", "window-closed"),
            ("conversion", "order-1", "accepted", ""),
            ("conversion", "order-1", "rejected", "conflict"),
            ("conversion", "order-2", "rejected", "wrong-currency"),
            ("adjustment", "refund-1", "accepted", ""),
        ]
    )
    assert report.clicked == (first,)
    assert report.revenue_micros == {first: 6_000_000}
    assert not report.clicks_settled
    service.learner.learn(FAR)
    assert service.reporter.decision("d1").revenue_settled
    with pytest.raises(UnknownDecision, match="there is no decision 'd9'"):
        service.reporter.decision("d9")


def test_statistics_add_up(service: Service) -> None:
    service.directory.put_pool(pool(holdout=0.3), "t", T0).result()
    visit(service, random.Random(2), 200)
    service.committer.submit_events([click("l1", "unknown")], T0).result()
    service.learner.learn(FAR)
    report = service.reporter.stats("home")
    assert sum(item.click_views for item in report.links) == 400
    assert sum(group.click_views for group in report.groups) == 200
    assert {group.group for group in report.groups} == {"policy", "holdout"}
    for group in report.groups:
        assert group.clicks_per_view.low <= group.clicks_per_view.mean <= group.clicks_per_view.high
        revenue = group.revenue_per_view_micros
        assert revenue.low <= revenue.mean <= revenue.high
    total = sum(item.revenue_micros for item in report.links)
    by_group = sum(g.revenue_views * g.revenue_per_view_micros.mean for g in report.groups)
    assert by_group == pytest.approx(total)
    for item in report.links:
        assert item.click_rate.low <= item.clicks / item.click_views <= item.click_rate.high
        assert item.revenue_per_view_micros.high <= MAX_REVENUE
    assert report.n_quarantined == 1
    assert report.folded_until_us == FAR


def pages(earned: NDArray[np.float64]) -> PageCounters:
    """Return the counters of pages that earned these shares of `max_revenue_micros`."""
    return PageCounters(
        revenue_views=len(earned),
        revenue_micros=round(float(earned.sum()) * MAX_REVENUE),
        revenue_squared=round(float((earned**2).sum()) * SHARE_UNIT**2),
    )


def test_who_watches_the_lift_is_rarely_misled() -> None:
    """Pages are alike, so a lift without 0 is a false alarm: at any time in 5 % of the runs.

    19 of 100 runs or more have one with a probability below 1e-6; an interval for a number of
    pages fixed beforehand has one in more than 30.
    """
    of_pool, rng, alarms = pool(holdout=0.5, slots=2), np.random.default_rng(5), 0
    for _ in range(100):
        chosen, random_pages = 0.2 * (rng.random((2, 4_000)) < 0.2)
        for n in np.unique(np.geomspace(10, 4_000, 60).astype(int)).tolist():
            counters = Counters(
                pages={"policy": pages(chosen[:n]), "holdout": pages(random_pages[:n])}
            )
            lift = report_lift(counters, of_pool)
            if lift is not None and not lift.low <= 0.0 <= lift.high:
                alarms += 1
                break
    assert alarms < 19
    better = Counters(pages={"policy": pages(np.full(4_000, 0.06)), "holdout": pages(random_pages)})
    lift = report_lift(better, of_pool)
    assert lift is not None
    assert 0.0 < lift.low < lift.mean < lift.high


def test_no_sale_leaves_revenue_above_zero_possible() -> None:
    of_pool = pool(slots=2)
    for n_views in (1, 22, 5_000):
        page = report_group("policy", pages(np.zeros(n_views)), of_pool).revenue_per_view_micros
        for rate in (page, share_rate(0, n_views, MAX_REVENUE)):
            assert rate.low == rate.mean == 0.0
            assert rate.high > 0.9 * MAX_REVENUE / n_views
    spans = [Span(start_us=0, group="policy", views=22)]
    period = compare_periods(spans, of_pool, seconds(1), 0, seconds(1))
    clicks = period.this.totals[0].clicks_per_view
    assert clicks is not None
    assert clicks.low == 0.0
    assert clicks.high > 1 / 22


def test_the_lift_says_how_many_views_it_needs() -> None:
    of_pool, rng = pool(holdout=0.5, slots=2), np.random.default_rng(5)
    chosen, random_pages = 0.2 * (rng.random((2, 4_000)) < [[0.3], [0.2]])
    for n in (50, 200, 1_000, 4_000):
        counted = Counters(pages={"policy": pages(chosen[:n]), "holdout": pages(random_pages[:n])})
        needed = views_needed(counted, of_pool)
        assert needed is not None
        # of the right size: the interval excluded 0 after some thousand views
        assert 500 < needed + 2 * n < 32_000
    assert needed == 0
    alike = Counters(pages={"policy": pages(random_pages), "holdout": pages(random_pages)})
    assert views_needed(alike, of_pool) is None
    assert views_needed(Counters(), of_pool) is None


def test_no_measured_revenue_lies_above_the_frontier(open_service: OpenService) -> None:
    """Slots and visitors that differ earn more than the average link in the average slot."""
    service, chance = open_service(), random.Random(3)
    settings: dict[str, Any] = {"slot_weights": (1.8, 0.2), "click_floor": 0.1}
    settings |= {
        "features": {"device": ["phone", "desktop"]},
        "policy": "paced-bayes",
        "policy_settings": {},
    }
    service.directory.put_pool(pool(**settings), "t", T0).result()
    service.directory.put_links("home", [link(f"l{k}") for k in range(6)], "t", T0).result()
    for fold in range(10):
        for k in range(100):
            now_us = T0 + seconds(fold * 10 * REVENUE_WINDOW_S) - T0 + 1_000 * k
            device = chance.choice(["phone", "desktop"])
            page = service.decider.decide("home", now_us, visitor={"device": device})
            events: list[Event] = []
            for shown in page.shown:
                likes = (int(shown.link_id[1:]) < 3) == (device == "phone")
                rate = (0.5, 0.2, 0.1)[int(shown.link_id[1:]) % 3] if likes else 0.02
                if chance.random() < rate * (1.8, 0.2)[shown.position - 1]:
                    events.append(click(shown.link_id, page.decision_id))
                    sale = conversion(f"{page.decision_id}-{shown.link_id}", link_id=shown.link_id)
                    events.append(replace(sale, decision_id=page.decision_id))
            service.committer.submit_events(events, now_us + 500).result()
        service.learner.learn(seconds((fold + 1) * 10 * REVENUE_WINDOW_S))
    found, stats = service.reporter.frontier("home"), service.reporter.stats("home")
    assert found.n_kinds == 2
    assert found.expected_revenue <= np.interp(
        found.expected_clicks,
        [point.click_floor for point in found.points],
        [point.revenue for point in found.points],
    ) * (1 + 1e-9)
    [group] = stats.groups
    measured = group.revenue_per_view_micros.mean
    kinds = service.decider.installed("home").rates_of_kinds(2)
    alike = sum(share * np.sort(one.value)[-2:].sum() for share, one in kinds)
    assert measured > alike * MAX_REVENUE  # so much the best page of slots that are alike earns
    assert measured < found.points[0].revenue_micros


def test_a_pool_without_holdout_has_no_lift(service: Service) -> None:
    visit(service, random.Random(2), 20)
    service.learner.learn(FAR)
    assert service.reporter.stats("home").lift is None


def test_the_frontier_falls_and_every_link_has_a_reason(service: Service) -> None:
    visit(service, random.Random(2), 200)
    service.learner.learn(FAR)
    points = service.reporter.frontier("home").points
    assert len(points) >= 1
    floors = [point.click_floor for point in points]
    revenues = [point.revenue for point in points]
    assert floors == sorted(floors)
    assert revenues == sorted(revenues, reverse=True)
    explained = service.reporter.explain("home")
    assert [item.link_id for item in explained] == [f"l{k}" for k in range(1, 6)]
    assert sum(item.score >= item.threshold for item in explained) >= 2
    assert all(" EUR. The best page needs at least " in item.reason for item in explained)


def test_a_link_that_a_rule_puts_on_the_page_has_the_rule_as_reason(service: Service) -> None:
    visit(service, random.Random(2), 200)
    service.learner.learn(FAR)
    worst = min(service.reporter.explain("home"), key=lambda one: one.score)
    rules = (PoolRule(name="partner", links=(worst.link_id,), at_least=1.0),)
    service.directory.put_rules("home", rules, "t", FAR).result()
    service.learner.learn(FAR + 1)
    reasons = {one.link_id: one.reason for one in service.reporter.explain("home")}
    told = "It is shown because the rule 'partner' asks for it."
    assert [link_id for link_id in reasons if told in reasons[link_id]] == [worst.link_id]


@pytest.mark.parametrize(
    ("price", "told"),
    [(0.0, "0.20 EUR."), (1e-50, "0.20 EUR."), (0.1, "0.20 EUR: 0.10 as revenue, 0.10 as clicks")],
)
def test_a_price_of_next_to_nothing_is_not_told(price: float, told: str) -> None:
    settings = pool(max_revenue_micros=10_000_000)
    link = Explanation(
        link_id="l1",
        probability=1.0,
        click_rate=0.1,
        revenue_rate=0.01 if price == 0.1 else 0.02,
        shadow_price=price,
        score=0.02,
        threshold=0.01,
        reason="",
    )
    assert describe_worth(settings, link).startswith(f"A view is worth {told}")


def test_reports_of_an_empty_pool_are_empty(open_service: OpenService) -> None:
    service = open_service()
    service.directory.put_pool(pool(), "t", T0).result()
    assert service.reporter.frontier("home").points == ()
    assert service.reporter.explain("home") == []
    assert service.reporter.stats("home").links == ()
    for report in (
        service.reporter.stats,
        service.reporter.frontier,
        service.reporter.explain,
        service.directory.pool,
    ):
        with pytest.raises(UnknownPool, match="no pool 'away'"):
            report("away")


def test_a_floor_out_of_reach_is_said_with_what_can_be_had(service: Service) -> None:
    service.directory.put_pool(pool(click_floor=1.5), "t", T0).result()
    assert service.decider.decide("home", T0).floor.status == "learning"
    visit(service, random.Random(2), 300)
    service.learner.learn(FAR)
    floor = service.decider.decide("home", FAR).floor
    assert floor.status == "infeasible"
    assert 0.5 < floor.attainable < 1.5
    assert service.reporter.stats("home").shadow_price is None
    reason = service.reporter.explain("home")[0].reason
    assert reason.startswith("No page reaches the floor, so only clicks count: it has about ")
    assert " per view. The best page needs at least " in reason


def test_the_export_has_every_round_and_its_settled_outcomes(service: Service) -> None:
    visit(service, random.Random(2), 50)
    service.decider.decide("home", FAR)
    service.learner.learn(FAR + 1)
    rows = [row for rows in service.reporter.export("home") for row in rows]
    assert len(rows) == 51
    settled = [row for row in rows if row.revenue_settled]
    assert len(settled) == 50
    counters = reads(service.store).counters("home").links.values()
    assert sum(sum(row.clicks) for row in settled) == sum(item.clicks for item in counters)
    revenue = sum(item.revenue_micros for item in counters)
    assert sum(sum(row.revenue_micros) for row in settled) == revenue
    assert (rows[-1].clicks, rows[-1].clicks_settled) == ((0, 0), False)
    some = [
        row for rows in service.reporter.export("home", T0 + 10_000, T0 + 20_000) for row in rows
    ]
    assert [row.issued_us for row in some] == [T0 + k * 1_000 for k in range(10, 20)]


def test_health_says_how_fresh_everything_is(service: Service) -> None:
    health = service.health()
    assert (health.ready, health.store_available, health.n_lost_decisions) == (True, True, 0)
    assert [(pool.pool_id, pool.policy_version) for pool in health.pools] == [("home", 2)]
    service.decider.decide("home", T0)
    service.learner.learn(T0 + 7)
    health = service.health()
    assert health.closed_until_us == T0 + 7
    assert health.pools[0].floor_status == "learning"
    service.close()
    assert not service.health().ready


def test_an_interval_holds_at_all_times_at_once() -> None:
    # An interval may ever miss on 5 % of the paths. More than 50 of 400 would happen by
    # accident with a chance below 1e-8 if it did so on exactly 5 %.
    rng = np.random.default_rng(4)
    n_missed = 0
    for _ in range(400):
        clicks = np.cumsum(rng.random(2_000) < 0.2)
        checked = (10, 30, 100, 300, 1_000, 2_000)
        rates = [share_rate(int(clicks[n - 1]), n, 1) for n in checked]
        n_missed += not all(rate.low <= 0.2 <= rate.high for rate in rates)
    assert n_missed <= 50


def test_estimates_shrink_towards_the_pool_and_keep_revenue_below_clicks() -> None:
    counters = Counters(
        links={
            ("policy", "a"): LinkCounters(click_views=99, clicks=50, revenue_views=50),
            ("holdout", "a"): LinkCounters(revenue_views=50, revenue_micros=80),
        }
    )
    counts = link_counts(counters, ["a", "b"], 1)
    assert counts.views[:, 0].tolist() == [99.0, 100.0]
    assert counts.sums[1, 0] == 50.0
    rates = estimate_rates(counts)
    assert rates.clicks[0] == pytest.approx(0.505, abs=1e-3)
    assert rates.clicks[1] == pytest.approx(0.505, abs=1e-2)
    assert np.all(rates.revenue <= rates.clicks)
    assert rates.click_variance[1] > 10 * rates.click_variance[0]


def test_a_floor_is_met_only_when_the_clicks_are_known() -> None:
    page = np.array([1.0, 0.0])
    known = LinkRates(np.array([0.4, 0.1]), np.zeros(2), np.array([1e-6, 1e-6]))
    vague = LinkRates(np.array([0.4, 0.1]), np.zeros(2), np.array([0.04, 0.04]))
    assert floor_report(known, page, 1, 0.3).status == "met"
    nearly = known._replace(click_variance=np.full_like(known.click_variance, 1e-4))
    above = float(page @ known.clicks) * 1.01
    assert floor_report(nearly, page, 1, above).status == "met"  # the interval contains it
    assert floor_report(vague, page, 1, 0.3).status == "learning"
    assert floor_report(known, page[::-1], 1, 0.3).status == "learning"
    assert floor_report(known, page, 1, 0.45).status == "infeasible"
    assert floor_report(vague, page, 1, 0.45).status == "learning"
    assert floor_report(known, page, 1, 0.0).status == "met"
    assert floor_report(known, page, 1, 0.45).attainable == pytest.approx(0.4)
    # At 98 % of the floor, and known to be below it, a floor is not met.
    assert floor_report(known, page, 1, 0.4 / 0.98).status != "met"


@pytest.mark.parametrize(
    ("clicks", "n_views", "status"),
    [
        (3_000, 10_000, "met"),
        (2_900, 10_000, "met"),  # from 0.273 to 0.307
        (2_800, 10_000, "learning"),  # from 0.263 to 0.297: below, and known to be
        (35, 100, "learning"),  # above, but not known to be
        (60, 100, "met"),  # known to be above
        (0, 0, "learning"),
    ],
)
def test_a_floor_is_met_when_the_clicks_delivered_reach_it_within_their_interval(
    clicks: int, n_views: int, status: str
) -> None:
    """The page is expected to have 0.4 clicks: what was delivered decides all the same."""
    known = LinkRates(np.array([0.4, 0.1]), np.zeros(2), np.array([1e-6, 1e-6]))
    delivered = PageCounters(click_views=n_views, clicks=clicks, clicks_squared=clicks)
    assert floor_report(known, np.array([1.0, 0.0]), 1, 0.3, delivered).status == status


def test_another_floor_is_judged_by_the_pages_shown_under_it(open_service: OpenService) -> None:
    service = open_service()
    service.directory.put_pool(
        pool(policy="uniform", policy_settings={}, click_floor=0.1), "t", T0
    ).result()
    service.directory.put_links("home", [link(f"l{k}") for k in range(1, 6)], "t", T0).result()
    visit(service, random.Random(2), 1_500)
    service.learner.learn(FAR)
    assert service.reporter.stats("home").floor.status == "met"
    service.close()
    service = open_service()
    assert service.reporter.stats("home").floor.status == "met"
    changed = pool(policy="uniform", policy_settings={}, click_floor=0.2)
    service.directory.put_pool(changed, "t", FAR + 1).result()
    assert service.reporter.stats("home").floor.status == "learning"
    visit(service, random.Random(3), 1_500, start_us=FAR + 2)
    service.learner.learn(FAR + FAR - T0)
    assert service.reporter.stats("home").floor.status == "met"


def test_a_sampling_policy_publishes_the_average_page_over_its_draws() -> None:
    pages = AveragePages(
        Player.start(problem_of(4, 1, 0.0), SamplingPolicy(), ["a", "b", "c", "d"])
    )
    unknown = LinkRates(np.zeros(4), np.zeros(4), np.zeros(4))
    published = pages.probabilities(np.random.default_rng(3), 4_000, unknown)
    assert published.sum() == pytest.approx(1.0)
    # Link i is the page with probability (i + 1) / 10; five standard errors.
    expected = np.arange(1, 5) / 10
    assert np.all(np.abs(published - expected) < 5 * np.sqrt(expected / 4_000))


def test_a_link_that_joins_a_pool_with_a_running_policy_is_shown(service: Service) -> None:
    visit(service, random.Random(2), 30)
    service.learner.learn(FAR)
    service.directory.put_links("home", [link("l6")], "t", FAR).result()
    shown = {
        item.link_id for k in range(200) for item in service.decider.decide("home", FAR + k).shown
    }
    assert "l6" in shown


@pytest.mark.parametrize(
    ("floor", "price"), [(0.1, 0.0), (0.2, 0.0), (0.3, 0.5), (0.6, 0.9), (0.7, None)]
)
def test_the_curve_knows_the_price_at_its_floor(floor: float, price: float | None) -> None:
    corners = [(0.2, 1.0, 0.0), (0.4, 0.9, 0.5), (0.6, 0.72, 0.9)]
    points = tuple(
        FrontierPoint(click_floor=at, revenue=value, revenue_micros=0, shadow_price=cost)
        for at, value, cost in corners
    )
    curve = FrontierReport(
        pool_id="home", policy_version=1, currency="EUR", click_floor=floor, points=points
    )
    assert curve.shadow_price == price
