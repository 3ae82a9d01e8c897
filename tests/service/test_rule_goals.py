"""Goals and budgets of rules: paced by a forecast, counted exactly, and reported."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from benchmarks.goals import TRAFFIC, live, play
from slotwise.errors import InvalidInput
from slotwise.player.pacing import HOUR_US, Traffic
from slotwise.service.learning.rule_goals import RuleProgress, pace_rule
from slotwise.service.pool_version import RuleCount
from slotwise.service.records import (
    ClickBudget,
    ClickEvent,
    ClicksUntil,
    DecisionRecord,
    PoolRule,
    ViewsUntil,
)
from slotwise.service.service import Service
from tests.service import rows
from tests.service.conftest import OpenService
from tests.service.rows import T0, link, pool, seconds

DATE = seconds(86_400)


def opened(service: Service, *rules: PoolRule, **changes: Any) -> Service:
    settings: dict[str, Any] = {"policy": "uniform", "policy_settings": {}, "slots": 2, **changes}
    service.directory.put_pool(pool(**settings), "test", T0).result()
    links = [link(f"l{k}", group="g" if k < 2 else "") for k in range(5)]
    service.directory.put_links("home", links, "test", T0).result()
    service.directory.put_rules("home", rules, "test", T0).result()
    return service


def test_a_forecast_follows_hours_of_the_week_and_the_present_level() -> None:
    traffic = Traffic()
    assert not traffic.is_known

    def views(hour: int) -> int:
        return 1_000 if hour % 24 < 12 else 100

    for hour in range(21 * 24):
        traffic.add(views(hour), hour * HOUR_US, (hour + 1) * HOUR_US)
    assert traffic.is_known
    now = 21 * 24 * HOUR_US
    for hours in (6, 24, 24 * 9):
        expected = sum(views(21 * 24 + k) for k in range(hours))
        assert traffic.views_until(now, now + hours * HOUR_US) == pytest.approx(expected, rel=0.1)
    again = Traffic(traffic.stored())
    assert again.views_until(now, now + HOUR_US) == traffic.views_until(now, now + HOUR_US)
    for hour in range(21 * 24, 21 * 24 + 6):  # twice as much as usual
        traffic.add(2 * views(hour), hour * HOUR_US, (hour + 1) * HOUR_US)
    now = (21 * 24 + 6) * HOUR_US
    assert traffic.views_until(now, now + 6 * HOUR_US) == pytest.approx(12_000, rel=0.15)
    assert traffic.views_until(now, now - 1) == 0.0
    assert math.isfinite(traffic.views_until(now, now + 10**6 * HOUR_US))


@pytest.mark.parametrize("traffic", ["doubles", "weekly"])
def test_goals_are_reached_and_budgets_kept(tmp_path: Path, traffic: str) -> None:
    """A click more or less is a part of 36 here; `python -m benchmarks.goals` has long runs."""
    found = live(tmp_path, TRAFFIC[traffic], per_day=1_000, days=3, step_s=1_800)
    assert found.views >= 0.98
    assert found.clicks >= 0.9
    assert found.budget <= 1.25
    assert found.hard <= 1.0
    assert found.hard >= 0.5
    assert found.first_hour < 0.2


@pytest.mark.parametrize("policy", ["uniform", "paced-bayes"])
def test_a_soft_budget_of_links_that_everybody_clicks_is_kept(
    open_service: OpenService, policy: str
) -> None:
    """20 pages a second for 150 s, windows of 4 s; the learner stops three times for 9 s."""
    rule = PoolRule(name="soft", group="g", budget=ClickBudget(clicks=40, until_us=seconds(150)))
    service = opened(
        open_service(), rule, click_window_s=4, revenue_window_s=4, policy=policy, click_floor=0.0
    )
    n_clicks = 0
    for tick in range(150 * 20):
        now_us = seconds(tick / 20)
        second = tick // 20
        if tick % 40 == 0 and second % 40 <= 30:
            service.flush().result()
            service.learner.learn(now_us)
        page = service.decider.decide("home", now_us)
        for shown in page.shown:
            if shown.link_id in ("l0", "l1"):
                n_clicks += 1
                click = ClickEvent(page.decision_id, shown.link_id)
                service.committer.submit_events([click], now_us + 500_000)
    assert 20 <= n_clicks <= 1.2 * 40


def test_a_hard_budget_is_never_exceeded_between_versions(open_service: OpenService) -> None:
    rule = PoolRule(name="six", group="g", budget=ClickBudget(clicks=6, until_us=DATE, hard=True))
    service = opened(open_service(), rule)

    def shown(n: int, now_us: int) -> int:
        found = [service.decider.decide("home", now_us + k) for k in range(n)]
        return sum(one.link_id in ("l0", "l1") for page in found for one in page.shown)

    assert shown(50, T0) == 0  # nothing is known of the traffic yet
    service.flush().result()
    service.learner.learn(seconds(120))
    service.learner.learn(seconds(240))
    assert 0 < shown(3_000, seconds(241)) <= 6
    service.flush().result()
    service.learner.learn(seconds(300))
    assert shown(100, seconds(301)) == 0  # every open view may bring a click
    # after a restart the links rest until the budget is counted again
    service.close()
    service = open_service()
    assert shown(100, seconds(302)) == 0
    service.learner.learn(seconds(4_000))  # all windows have closed without a click
    service.learner.learn(seconds(4_100))
    assert 0 < shown(3_000, seconds(4_101)) <= 6


def test_proposed_pages_count_for_a_hard_budget_until_they_expire(
    open_service: OpenService,
) -> None:
    budget = ClickBudget(clicks=6, until_us=DATE, hard=True)
    service = opened(open_service(), PoolRule(name="six", group="g", budget=budget))
    for k in range(50):
        service.decider.decide("home", T0 + k)
    service.flush().result()
    service.learner.learn(seconds(120))
    service.learner.learn(seconds(240))

    def proposed(n: int, now_us: int) -> list[DecisionRecord]:
        pages = [service.decider.propose("home", now_us + k) for k in range(n)]
        return [page for page in pages if slots_of(page)]

    def slots_of(*pages: DecisionRecord) -> int:
        return sum(one.link_id in ("l0", "l1") for page in pages for one in page.shown)

    first = proposed(3_000, seconds(241))
    assert 0 < slots_of(*first) <= 6
    assert service.decider.hard_shown("home", seconds(242))["six"] == 0
    service.learner.learn(seconds(300))  # the store knows of none of them
    assert slots_of(*first, *proposed(3_000, seconds(301))) <= 6
    for page in first:  # each view may bring a click; it counts once
        service.decider.record_view(page, seconds(302))
        service.decider.record_view(page, seconds(303))
    assert service.decider.hard_shown("home", seconds(304))["six"] == slots_of(*first)
    service.flush().result()
    service.learner.learn(seconds(310))
    more = proposed(3_000, seconds(311))
    assert slots_of(*first, *more) <= 6


def test_pages_that_nobody_sees_hold_a_hard_budget_for_minutes_only(
    open_service: OpenService,
) -> None:
    """Whoever has the public key of a page can ask for as many as they like."""
    budget = ClickBudget(clicks=6, until_us=DATE, hard=True)
    service = opened(open_service(), PoolRule(name="six", group="g", budget=budget))
    for k in range(50):
        service.decider.decide("home", T0 + k)
    service.flush().result()
    service.learner.learn(seconds(120))
    service.learner.learn(seconds(240))

    def n_slots(decide: Any, now_us: int) -> int:
        pages = [decide("home", now_us + k) for k in range(3_000)]
        return sum(one.link_id in ("l0", "l1") for page in pages for one in page.shown)

    attack = [service.decider.propose("home", seconds(241) + k) for k in range(3_000)]
    held = [page for page in attack if {"l0", "l1"} & {one.link_id for one in page.shown}]
    assert held
    service.learner.learn(seconds(300))
    assert n_slots(service.decider.decide, seconds(301)) <= 6 - len(held)
    service.flush().result()
    service.learner.learn(seconds(4_000))  # those that were decided have brought no click
    service.learner.learn(seconds(4_100))
    before = service.decider.hard_shown("home", seconds(4_101))["six"]
    service.decider.record_view(held[0], seconds(4_101))  # seen at last: it counts once
    service.decider.record_view(held[0], seconds(4_102))
    slots = sum(one.link_id in ("l0", "l1") for one in held[0].shown)
    assert service.decider.hard_shown("home", seconds(4_103))["six"] == before + slots
    assert 0 < n_slots(service.decider.decide, seconds(4_104)) <= 6 - slots


def test_clicks_count_once_and_goals_are_reported(open_service: OpenService) -> None:
    rules = (
        PoolRule(name="views", group="g", views_until=ViewsUntil(views=999_999, until_us=DATE)),
        PoolRule(name="clicks", links=("l4",), clicks_until=ClicksUntil(clicks=50, until_us=DATE)),
    )
    service = opened(open_service(), *rules)
    n_clicks = 0
    for k in range(200):
        page = service.decider.decide("home", seconds(k))
        if any(one.link_id == "l4" for one in page.shown):
            click = ClickEvent(page.decision_id, "l4")
            service.committer.submit_events([click, click], seconds(k + 1)).result()
            n_clicks += 1
    for after_s in (210, 1_000, 2_500, 2_501):
        service.learner.learn(seconds(after_s))
        views, clicks = service.reporter.rules("home", seconds(after_s))
        assert (clicks.goals[0].done, clicks.goals[0].target) == (n_clicks, 50)
    assert views.goals[0].kind == "views"
    assert views.violated
    assert views.detail.startswith("Rule 'views' reaches about ")
    assert "of 999,999 views by 2023-11-15 22:13 UTC." in views.detail
    check = service.reporter.check_rules("home", rules, seconds(2_502))
    assert check.rules[1].goals[0].done == n_clicks
    # nobody is warned of a goal whose date has passed
    service.learner.learn(DATE + 1)
    assert not service.reporter.rules("home", DATE + 1)[0].violated


def test_rules_may_change_while_they_are_counted(
    open_service: OpenService, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = [PoolRule(name=name, links=(name,), at_least=0.5) for name in ("l0", "l1")]
    service = opened(open_service(), *two)
    service.decider.decide("home", T0)
    service.flush().result()
    run = service.learner._runs["home"]
    count = RuleProgress.count

    def count_and_change(progress: RuleProgress, *arguments: Any) -> None:
        count(progress, *arguments)
        run.pool = run.pool._replace(settings=replace(run.pool.settings, rules=()))

    monkeypatch.setattr(RuleProgress, "count", count_and_change)
    with service.store.reading() as reader:
        run.count_rules(reader, seconds(60))
    assert [one.name for one in run.progress.counts] == ["l0", "l1"]


def test_every_page_of_a_pool_is_counted_for_its_rules(open_service: OpenService) -> None:
    """Exactly, however many pages of other pools are stored in between."""
    service = opened(open_service(), PoolRule(name="g", group="g", at_least=0.5))
    service.directory.put_pool(
        rows.pool(pool_id="other", slots=1, click_floor=0.0), "test", T0
    ).result()
    service.directory.put_links("other", [rows.link("l1", pool_id="other")], "test", T0).result()
    pages = [service.decider.decide("home", T0) for _ in range(40)]
    for _ in range(1_200):
        service.decider.decide("other", T0)
    service.flush().result()
    service.learner.learn(seconds(80_000))
    [count] = service.learner._runs["home"].progress.counts
    assert count.pages == 40
    assert count.slots == sum(one.link_id in ("l0", "l1") for page in pages for one in page.shown)


def test_dates_of_goals_must_be_to_come_when_they_are_set(open_service: OpenService) -> None:
    rule = PoolRule(name="late", group="g", views_until=ViewsUntil(views=9, until_us=seconds(-1)))
    service = opened(open_service())
    message = "`views_until.until` of rule 'late' must be in the future"
    with pytest.raises(InvalidInput, match=message):
        service.directory.put_rules("home", [rule], "test", T0)
    goal = ViewsUntil(views=9, until_us=seconds(10))
    rule = PoolRule(name="past", group="g", views_until=goal)
    service.directory.put_rules("home", [rule], "test", T0).result()
    service.directory.put_rules("home", [rule], "test", seconds(20)).result()  # it may stay


@pytest.mark.parametrize("traffic", sorted(TRAFFIC))
def test_pacing_alone_reaches_goals_on_many_days(traffic: str) -> None:
    """Five standard deviations and more on each side: luck is a part of 0.0014 to 0.0022."""
    found = [play(TRAFFIC[traffic], 20_000, 4, seed) for seed in (1, 2)]
    for one in found:
        assert one.views == pytest.approx(1.0, abs=0.002)
        assert one.clicks == pytest.approx(1.0, abs=0.0125)
        assert one.budget <= 1.0125
        assert 0.9 <= one.hard <= 1.0
        assert one.first_hour < 0.05


def test_clicks_that_would_come_after_the_date_are_made_up_for() -> None:
    rule = PoolRule(name="c", group="g", clicks_until=ClicksUntil(clicks=1_000, until_us=DATE))
    traffic, now_us = Traffic(), seconds(43_200)
    traffic.add(43_200, T0, now_us)  # a page view a second
    settings = pool(click_window_s=3_600)

    def least(open_clicks: int) -> float:
        count = RuleCount("c", T0, 43_200, 5_000, 400, now_us, 1_000, open_clicks)
        return pace_rule(rule, count, traffic, 0.1, settings, now_us).at_least

    at_once = (1_000 - 500) / (0.97 * 43_200 * 0.1)
    assert least(100) == pytest.approx(at_once, rel=0.01)
    # half of the clicks have yet to come: they are half an hour late
    assert least(50) == pytest.approx(at_once * 43_200 / (43_200 - 1_800), rel=0.01)
    assert least(0) == pytest.approx(at_once * 43_200 / (43_200 - 3_600), rel=0.01)
