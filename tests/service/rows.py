"""Small builders: a pool, links, decisions and events with sensible defaults."""

from __future__ import annotations

from typing import Any

from slotwise.player.player import PlayerKnowledge
from slotwise.service.records import (
    SECOND_US,
    AdjustmentEvent,
    ClickEvent,
    ConversionEvent,
    DecisionRecord,
    FloorState,
    LinkRecord,
    PoolSettings,
    ShownLink,
)
from slotwise.service.service import Service

T0 = 1_700_000_000 * SECOND_US
CLICK_WINDOW_S = 1_800
REVENUE_WINDOW_S = 86_400
MAX_REVENUE = 50_000_000


def seconds(count: float) -> int:
    """Return the time this many seconds after the start of the test's world."""
    return T0 + round(count * SECOND_US)


def pool(**changes: Any) -> PoolSettings:
    settings: dict[str, Any] = {
        "pool_id": "home",
        "slots": 2,
        "click_floor": 0.3,
        "max_revenue_micros": MAX_REVENUE,
        "currency": "EUR",
        "click_window_s": CLICK_WINDOW_S,
        "revenue_window_s": REVENUE_WINDOW_S,
        "policy": "con-ucb",
        "policy_settings": {"horizon": 1000},
    }
    return PoolSettings(**{**settings, **changes})


def link(link_id: str, **changes: Any) -> LinkRecord:
    settings = {"pool_id": "home", "url": f"https://shop.example/{link_id}", **changes}
    return LinkRecord(link_id=link_id, **settings)


def decision(decision_id: str = "d1", **changes: Any) -> DecisionRecord:
    issued_us = changes.pop("issued_us", T0)
    links = changes.pop("links", ("l1", "l2"))
    settings: dict[str, Any] = {
        "pool_id": "home",
        "issued_us": issued_us,
        "click_closes_us": issued_us + CLICK_WINDOW_S * SECOND_US,
        "revenue_until_us": issued_us + REVENUE_WINDOW_S * SECOND_US,
        "revenue_closes_us": issued_us + REVENUE_WINDOW_S * SECOND_US,
        "currency": "EUR",
        "max_revenue_micros": MAX_REVENUE,
        "policy": "con-ucb",
        "policy_version": 1,
        "floor": FloorState(clicks=0.3, expected=0.4, attainable=0.5, status="learning"),
        "shown": tuple(
            ShownLink(link_id=link_id, position=place, propensity=0.5)
            for place, link_id in enumerate(links, start=1)
        ),
        "stored_us": issued_us,
    }
    return DecisionRecord(decision_id=decision_id, **{**settings, **changes})


def click(link_id: str = "l1", decision_id: str = "d1", **changes: Any) -> ClickEvent:
    return ClickEvent(decision_id=decision_id, link_id=link_id, **changes)


def conversion(
    conversion_id: str = "order-1", revenue_micros: int = 10_000_000, **changes: Any
) -> ConversionEvent:
    settings = {"decision_id": "d1", "link_id": "l1", "currency": "EUR", **changes}
    return ConversionEvent(conversion_id=conversion_id, revenue_micros=revenue_micros, **settings)


def adjustment(
    adjustment_id: str = "refund-1", refund_micros: int = 4_000_000, **changes: Any
) -> AdjustmentEvent:
    settings = {"conversion_id": "order-1", "currency": "EUR", **changes}
    return AdjustmentEvent(adjustment_id=adjustment_id, refund_micros=refund_micros, **settings)


def learned_of(service: Service) -> PlayerKnowledge:
    """Return what the policy of the pool `home` has learned round by round."""
    learned = service.knowledge("home")
    assert learned is not None
    return learned


def arrays_of(service: Service) -> dict[str, list[Any]]:
    """Return the arrays of that policy as lists, to compare."""
    return {name: array.tolist() for name, array in learned_of(service).arrays.items()}
