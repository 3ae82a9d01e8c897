"""Budgets hold when sales are refunded, statistics are reset, clocks jump and services restart."""

from __future__ import annotations

from typing import Any

import pytest

from slotwise.service.records import (
    AdjustmentEvent,
    ClickBudget,
    ClickEvent,
    ConversionEvent,
    PoolRule,
)
from slotwise.service.service import Service
from tests.service.conftest import OpenService
from tests.service.rows import T0, link, pool, seconds

BUDGETED = ("l0", "l1")
N_SECONDS, PER_SECOND = 100, 5


def reset(service: Service, now_us: int) -> None:
    links = [link(name, group="g") for name in BUDGETED]
    changed = service.directory.put_links("home", links, "test", now_us, reset_statistics=True)
    changed.result()


def events_of(page_id: str, name: str, trouble: str) -> list[Any]:
    """Return a click, and for refunds a sale that is returned whole."""
    events: list[Any] = [ClickEvent(page_id, name)]
    if trouble == "refunds":
        sale = f"{page_id}-{name}"
        events.append(ConversionEvent(sale, page_id, name, 5_000_000, "EUR"))
        events.append(AdjustmentEvent(f"back-{sale}", sale, 5_000_000, "EUR"))
    return events


@pytest.mark.parametrize(
    ("hard", "trouble"),
    [
        (True, "refunds"),
        (True, "reset"),
        (True, "clock ahead"),
        (True, "clock back"),
        (True, "restart"),
        (False, "reset"),
        (False, "clock back"),
    ],
)
def test_a_budget_holds(open_service: OpenService, hard: bool, trouble: str) -> None:
    """Everybody clicks; the trouble begins after a half of the time and, if it can, repeats."""
    n_allowed = 20
    budget = ClickBudget(clicks=n_allowed, until_us=seconds(112), hard=hard)
    service = open_service()
    windows = {"click_window_s": 4, "revenue_window_s": 4}
    settings = pool(policy="uniform", policy_settings={}, slots=2, click_floor=0.0, **windows)
    service.directory.put_pool(settings, "test", T0).result()
    links = [link(f"l{k}", group="g" if k < 2 else "") for k in range(5)]
    service.directory.put_links("home", links, "test", T0).result()
    rule = PoolRule(name="budget", group="g", budget=budget)
    service.directory.put_rules("home", [rule], "test", T0).result()
    n_clicks, moved_s = 0, 0.0
    for tick in range(N_SECONDS * PER_SECOND):
        second, is_new = divmod(tick, PER_SECOND)
        now_us = seconds(moved_s + tick / PER_SECOND)
        if is_new == 0:
            if second > N_SECONDS // 2 and second % 15 == 0:
                if trouble == "reset":
                    reset(service, now_us)
                if trouble in ("clock ahead", "clock back", "restart"):
                    service.close()
                    service = open_service()
                    moved_s += {"clock ahead": 4.0, "clock back": -6.0}.get(trouble, 0.0)
                    now_us = seconds(moved_s + tick / PER_SECOND)
            service.flush().result()
            service.learner.learn(now_us)
        page = service.decider.decide("home", now_us)
        for shown in page.shown:
            if shown.link_id in BUDGETED:
                n_clicks += 1
                events = events_of(page.decision_id, shown.link_id, trouble)
                service.committer.submit_events(events, now_us + 500_000)
    service.flush().result()
    assert n_clicks <= (1.0 if hard else 1.2) * n_allowed
    assert n_clicks > n_allowed / 2
