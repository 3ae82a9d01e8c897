"""Views whose feedback window is open, and a pool that keeps its floor in spite of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slotwise.arrays import Floats
from slotwise.service.learning.open_view_groups import MAX_GROUPS, OpenViews
from slotwise.service.records import SECOND_US, ClickEvent, ConversionEvent
from slotwise.service.service import Service
from tests.service.conftest import OpenService
from tests.service.rows import T0, link, pool

POOL = pool(click_window_s=10, revenue_window_s=30)


def after(seconds: float) -> int:
    return T0 + round(seconds * SECOND_US)


def test_views_close_level_by_level_and_evenly_over_the_time_they_were_shown_in() -> None:
    open_views = OpenViews()
    open_views.add({"a": 50, "b": 25}, after(0))
    open_views.add({"a": 10}, after(5))
    both = open_views.views(("b", "a", "new"), POOL, after(6))
    np.testing.assert_allclose(both, [[25, 60, 0], [25, 60, 0]])
    np.testing.assert_allclose(open_views.views(("a",), POOL, after(12)), [[6], [60]])
    np.testing.assert_allclose(open_views.views(("a",), POOL, after(31)), [[0], [8]])
    np.testing.assert_allclose(open_views.views(("a",), POOL, after(36)), [[0], [0]])


def test_many_versions_are_kept_in_few_groups_and_open_views_stay_steady() -> None:
    """One view a tenth of a second, and a window of ten: a hundred are open, give or take one."""
    open_views = OpenViews()
    for number in range(8 * MAX_GROUPS):
        open_views.add({"a": 1, f"l{number % 3}": 1}, after(number / 10))
        if number > 1_000:
            views = open_views.views(("a", "l0", "l1", "l2"), POOL, after(number / 10))
            assert views[0, 0] == pytest.approx(100, abs=1)
            assert views[1, 1:].sum() == pytest.approx(300, abs=1)
    assert len(open_views._groups) <= MAX_GROUPS


@pytest.mark.parametrize("policy", ["paced-bayes"])
def test_before_any_feedback_all_links_have_the_same_chance(
    open_service: OpenService, policy: str
) -> None:
    service = open_service()
    service.directory.put_pool(
        pool(slots=2, policy=policy, policy_settings={}), "test", T0
    ).result()
    service.directory.put_links("home", [link(f"l{k}") for k in range(7)], "test", T0).result()
    for number in range(5):
        decision = service.decider.decide("home", after(number))
        assert [one.propensity for one in decision.shown] == pytest.approx([2 / 7, 2 / 7])
        service.learner.learn(after(number))


@pytest.mark.parametrize(
    "policy", ["paced-bayes", pytest.param("queue-ts", marks=pytest.mark.slow)]
)
def test_a_queue_keeps_the_floor_though_clicks_come_late(
    open_service: OpenService, policy: str
) -> None:
    """Clicks are known 300 views late. A queue that ignores open pages swings with them."""
    clicks = np.array([0.05, 0.1, 0.3, 0.35, 0.15, 0.1])
    sales = np.array([0.9, 0.4, 0.1, 0.05, 0.1, 0.05])
    settings: dict[str, Any] = {} if policy.startswith("paced") else {"horizon": 3_000}
    service = open_service()
    service.directory.put_pool(
        pool(
            slots=2,
            click_floor=0.35,
            click_window_s=30,
            revenue_window_s=30,
            policy=policy,
            policy_settings=settings,
        ),
        "test",
        T0,
    ).result()
    service.directory.put_links("home", [link(f"l{k}") for k in range(6)], "test", T0).result()
    rng = np.random.default_rng(3)
    expected = []
    for number in range(2_400):
        now_us = after(number / 10)
        if number % 80 == 0:
            service.learner.learn(now_us)
        decision = service.decider.decide("home", now_us)
        shown = [int(one.link_id[1:]) for one in decision.shown]
        expected.append(clicks[shown].sum())
        events: list[Any] = []
        for place in shown:
            if rng.random() < clicks[place]:
                name: dict[str, Any] = {"decision_id": decision.decision_id, "link_id": f"l{place}"}
                events.append(ClickEvent(**name))
                if rng.random() < sales[place]:
                    sale: dict[str, Any] = {"revenue_micros": 50_000_000, "currency": "EUR"}
                    events.append(
                        ConversionEvent(conversion_id=f"{number}-{place}", **name, **sale)
                    )
        if events:
            service.committer.submit_events(events, now_us)
    late = np.array(expected[1_200:])
    assert late.mean() == pytest.approx(0.35, abs=0.06)


def test_open_views_are_known_again_after_a_restart(open_service: OpenService) -> None:
    """Every second a page of two of seven links, windows of 10 and 30 s: 10 and 30 are open."""
    settings = pool(
        slots=2, click_window_s=10, revenue_window_s=30, policy="paced-bayes", policy_settings={}
    )
    service = open_service()
    service.directory.put_pool(settings, "test", T0).result()
    service.directory.put_links("home", [link(f"l{k}") for k in range(7)], "test", T0).result()
    for second in range(60):
        if second % 2 == 0:
            service.learner.learn(after(second))
        service.decider.decide("home", after(second) + 1)
    service.flush().result()
    service.learner.learn(after(60))
    before = open_views_of(service, 60)
    service.close()
    service = open_service()
    service.decider.decide("home", after(60) + 1)
    service.learner.learn(after(61))
    np.testing.assert_allclose(before.sum(axis=1), [2 * 10, 2 * 30], atol=2)
    again = open_views_of(service, 61)
    np.testing.assert_allclose(again.sum(axis=1), [2 * 10, 2 * 30], atol=2)
    np.testing.assert_allclose(again, before, atol=2)
    service.decider.decide("home", after(61) + 1)
    service.learner.learn(after(62))
    np.testing.assert_allclose(open_views_of(service, 62).sum(axis=1), [20, 60], atol=2)


def open_views_of(service: Service, second: int) -> Floats:
    """Return the open views that the next version would reckon with."""
    run = service.learner._runs["home"]
    return run._open_views.views(run.pool.active, run.pool.settings, after(second))
