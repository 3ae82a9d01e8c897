"""Rows with sensible defaults, from which the tests of a store build their cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from msgspec.structs import replace

from slotwise.service.records import (
    SECOND_US,
    AdjustmentEvent,
    ChangeRecord,
    ClickEvent,
    ConversionEvent,
    DecisionRecord,
    FloorState,
    LinkRecord,
    PoolSettings,
    ShownLink,
)
from slotwise.service.storage.contract import RecordEvent, Store
from slotwise.service.storage.sql_reads import StoreReader

START_US = 1_700_000_000 * SECOND_US
CLICK_WINDOW_US = 1_800 * SECOND_US
REVENUE_WINDOW_US = 86_400 * SECOND_US
LINK_IDS = ("l1", "l2", "l3")


def pool_row(**changes: Any) -> PoolSettings:
    """Return the pool `home` of two slots."""
    pool = PoolSettings(
        pool_id="home",
        slots=2,
        click_floor=0.3,
        max_revenue_micros=50_000_000,
        currency="EUR",
        click_window_s=1_800,
        revenue_window_s=86_400,
        policy="con-ucb",
        policy_settings={"horizon": 1000, "gamma_scale": 0.5},
        holdout=0.05,
        own_page=("l1", "l2"),
        allowed_hosts=("shop.example",),
        created_us=START_US,
        changed_us=START_US,
    )
    return replace(pool, **changes)


def change_row(subject: str, **changes: Any) -> ChangeRecord:
    """Return a note of who changed what."""
    change = ChangeRecord(
        changed_us=START_US, changed_by="k1", action="pool.create", subject=subject, after="{}"
    )
    return replace(change, **changes)


def link_row(link_id: str, **changes: Any) -> LinkRecord:
    """Return a link of `home`."""
    url = f"https://shop.example/{link_id}"
    return LinkRecord(pool_id="home", link_id=link_id, url=url, **changes)


def decision_row(decision_id: str, issued_us: int = START_US, **changes: Any) -> DecisionRecord:
    """Return a page of `home` that shows l1 and l2."""
    decision = DecisionRecord(
        decision_id=decision_id,
        pool_id="home",
        issued_us=issued_us,
        click_closes_us=issued_us + CLICK_WINDOW_US,
        revenue_until_us=issued_us + REVENUE_WINDOW_US,
        revenue_closes_us=issued_us + REVENUE_WINDOW_US,
        currency="EUR",
        max_revenue_micros=50_000_000,
        policy="con-ucb",
        policy_version=3,
        floor=FloorState(clicks=0.3, expected=0.25, attainable=0.5, status="learning"),
        shown=(
            ShownLink(link_id="l1", position=1, propensity=1.0),
            ShownLink(link_id="l2", position=2, propensity=1 / 3),
        ),
    )
    return replace(decision, **changes)


def click_row(decision_id: str, link_id: str = "l1", received_us: int = START_US) -> RecordEvent:
    """Return the operation that records a click."""
    event = ClickEvent(decision_id=decision_id, link_id=link_id)
    return RecordEvent(event=event, received_us=received_us)


def conversion_row(
    conversion_id: str, decision_id: str, received_us: int = START_US, **changes: Any
) -> RecordEvent:
    """Return the operation that records revenue of l1."""
    event = ConversionEvent(
        conversion_id=conversion_id,
        decision_id=decision_id,
        link_id="l1",
        revenue_micros=9_000_000,
        currency="EUR",
    )
    return RecordEvent(event=replace(event, **changes), received_us=received_us)


def refund_row(
    adjustment_id: str, conversion_id: str, received_us: int = START_US, **changes: Any
) -> RecordEvent:
    """Return the operation that records a refund."""
    event = AdjustmentEvent(
        adjustment_id=adjustment_id,
        conversion_id=conversion_id,
        refund_micros=2_000_000,
        currency="EUR",
    )
    return RecordEvent(event=replace(event, **changes), received_us=received_us)


def reads(store: Store) -> StoreReader:
    """Return the reads of a store, each made at a moment of its own."""
    return cast("StoreReader", _ReadsByThemselves(store))


class _ReadsByThemselves:
    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def read(*arguments: Any) -> Any:
            with self._store.reading() as reader:
                return getattr(reader, name)(*arguments)

        return read
