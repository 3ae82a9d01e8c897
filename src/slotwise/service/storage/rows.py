"""Records to rows and back, in the column order of the schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from slotwise.service.counting.views import (
    StoredAdjustment,
    StoredClick,
    StoredConversion,
)
from slotwise.service.records import (
    AdjustmentEvent,
    ChangeRecord,
    ClickEvent,
    ConversionEvent,
    DecisionRecord,
    FloorReport,
    FloorStatus,
    KeyRecord,
    LinkRecord,
    Pin,
    PoolSettings,
    Scope,
    ShownLink,
)
from slotwise.service.storage.commands import (
    Refusal,
)

__all__ = [
    "adjustment_from_row",
    "adjustment_row",
    "change_from_row",
    "change_row",
    "click_from_row",
    "click_row",
    "conversion_from_row",
    "conversion_row",
    "decision_from_row",
    "decision_row",
    "key_from_row",
    "key_row",
    "link_from_row",
    "link_row",
    "pool_from_row",
    "pool_row",
    "refusal_from_row",
    "refusal_row",
]

Row = Sequence[Any]


class _Page(msgspec.Struct, array_like=True):
    """The part of a decision that is read only as a whole, as a short JSON array."""

    floor: tuple[float, float, float, FloorStatus]
    shown: tuple[ShownLink, ...]


_page_decoder = msgspec.json.Decoder(_Page)
_encoder = msgspec.json.Encoder()


def _json(value: object) -> str:
    return _encoder.encode(value).decode()


def pool_row(pool: PoolSettings) -> Row:
    """Return the columns of `pools`."""
    return (
        pool.pool_id,
        pool.slots,
        pool.click_floor,
        pool.max_revenue_micros,
        pool.currency,
        pool.click_window_s,
        pool.revenue_window_s,
        pool.policy,
        _json(pool.policy_settings),
        pool.holdout,
        _json(pool.fallback_order),
        _json(pool.allowed_hosts),
        pool.archived,
        pool.created_us,
        pool.changed_us,
        _json(pool.pins),
    )


def pool_from_row(row: Row) -> PoolSettings:
    """Return the pool of a row of `pools`."""
    return PoolSettings(
        pool_id=row[0],
        slots=row[1],
        click_floor=row[2],
        max_revenue_micros=row[3],
        currency=row[4],
        click_window_s=row[5],
        revenue_window_s=row[6],
        policy=row[7],
        policy_settings=msgspec.json.decode(row[8]),
        holdout=row[9],
        fallback_order=msgspec.json.decode(row[10], type=tuple[str, ...]),
        allowed_hosts=msgspec.json.decode(row[11], type=tuple[str, ...]),
        archived=bool(row[12]),
        created_us=row[13],
        changed_us=row[14],
        pins=msgspec.json.decode(row[15], type=tuple[Pin, ...]),
    )


def link_row(link: LinkRecord) -> Row:
    """Return the columns of `links`."""
    return (
        link.pool_id,
        link.link_id,
        link.url,
        link.title,
        link.retired,
        link.place,
        link.counted_from_us,
        link.created_us,
        link.changed_us,
    )


def link_from_row(row: Row) -> LinkRecord:
    """Return the link of a row of `links`."""
    return LinkRecord(
        pool_id=row[0],
        link_id=row[1],
        url=row[2],
        title=row[3],
        retired=bool(row[4]),
        place=row[5],
        counted_from_us=row[6],
        created_us=row[7],
        changed_us=row[8],
    )


def key_row(key: KeyRecord) -> Row:
    """Return the columns of `keys`."""
    scopes = _json(key.scopes)
    return (key.key_id, key.key_hash, scopes, key.label, key.created_us, key.revoked_us)


def key_from_row(row: Row) -> KeyRecord:
    """Return the key of a row of `keys`."""
    return KeyRecord(
        key_id=row[0],
        key_hash=row[1],
        scopes=msgspec.json.decode(row[2], type=tuple[Scope, ...]),
        label=row[3],
        created_us=row[4],
        revoked_us=row[5],
    )


def change_row(change: ChangeRecord) -> Row:
    """Return the columns of `changes` after `seq`."""
    return (
        change.changed_us,
        change.changed_by,
        change.action,
        change.subject,
        change.before,
        change.after,
    )


def change_from_row(row: Row) -> ChangeRecord:
    """Return the change of a row of `changes`, without its `seq`."""
    return ChangeRecord(
        changed_us=row[0],
        changed_by=row[1],
        action=row[2],
        subject=row[3],
        before=row[4],
        after=row[5],
    )


def decision_row(decision: DecisionRecord) -> Row:
    """Return the columns of `decisions` after `seq`."""
    floor = decision.floor
    page = _Page(
        floor=(floor.clicks, floor.expected, floor.attainable, floor.status),
        shown=decision.shown,
    )
    return (
        decision.decision_id,
        decision.pool_id,
        decision.issued_us,
        decision.click_closes_us,
        decision.revenue_until_us,
        decision.revenue_closes_us,
        decision.currency,
        decision.max_revenue_micros,
        decision.policy,
        decision.policy_version,
        _json(page),
        decision.holdout,
        decision.fallback,
        decision.asked,
        decision.stored_us,
        decision.learned,
    )


def decision_from_row(row: Row) -> DecisionRecord:
    """Return the decision of a row of `decisions`, without its `seq`."""
    page = _page_decoder.decode(row[10])
    clicks, expected, attainable, status = page.floor
    return DecisionRecord(
        decision_id=row[0],
        pool_id=row[1],
        issued_us=row[2],
        click_closes_us=row[3],
        revenue_until_us=row[4],
        revenue_closes_us=row[5],
        currency=row[6],
        max_revenue_micros=row[7],
        policy=row[8],
        policy_version=row[9],
        floor=FloorReport(clicks=clicks, expected=expected, attainable=attainable, status=status),
        shown=page.shown,
        holdout=bool(row[11]),
        fallback=row[12],
        asked=row[13],
        stored_us=row[14],
        learned=bool(row[15]),
    )


def click_row(click: StoredClick, waited: bool) -> Row:
    """Return the columns of `clicks`."""
    event = click.event
    key = (event.decision_id, event.link_id, event.invalid)
    return (*key, click.received_us, event.client_time, waited)


def click_from_row(row: Row) -> StoredClick:
    """Return the click of a row of `clicks`."""
    event = ClickEvent(decision_id=row[0], link_id=row[1], invalid=row[2], client_time=row[4])
    return StoredClick(event=event, received_us=row[3])


def conversion_row(conversion: StoredConversion, waited: bool) -> Row:
    """Return the columns of `conversions`."""
    event = conversion.event
    return (
        event.conversion_id,
        event.decision_id,
        event.link_id,
        event.revenue_micros,
        event.currency,
        conversion.received_us,
        event.client_time,
        waited,
    )


def conversion_from_row(row: Row) -> StoredConversion:
    """Return the conversion of a row of `conversions`."""
    event = ConversionEvent(
        conversion_id=row[0],
        decision_id=row[1],
        link_id=row[2],
        revenue_micros=row[3],
        currency=row[4],
        client_time=row[6],
    )
    return StoredConversion(event=event, received_us=row[5])


def adjustment_row(adjustment: StoredAdjustment, waited: bool) -> Row:
    """Return the columns of `adjustments`."""
    event = adjustment.event
    return (
        event.adjustment_id,
        event.conversion_id,
        event.refund_micros,
        event.currency,
        adjustment.received_us,
        event.client_time,
        waited,
    )


def adjustment_from_row(row: Row) -> StoredAdjustment:
    """Return the adjustment of a row of `adjustments`."""
    event = AdjustmentEvent(
        adjustment_id=row[0],
        conversion_id=row[1],
        refund_micros=row[2],
        currency=row[3],
        client_time=row[5],
    )
    return StoredAdjustment(event=event, received_us=row[4])


def refusal_row(refusal: Refusal) -> Row:
    """Return the columns of `refusals`."""
    return (
        refusal.decision_id,
        refusal.kind,
        refusal.event_id,
        refusal.reason,
        refusal.link_id,
        refusal.detail,
        refusal.received_us,
    )


def refusal_from_row(row: Row) -> Refusal:
    """Return the refusal of a row of `refusals`."""
    return Refusal(
        decision_id=row[0],
        kind=row[1],
        event_id=row[2],
        reason=row[3],
        link_id=row[4],
        detail=row[5],
        received_us=row[6],
    )
