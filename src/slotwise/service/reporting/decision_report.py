"""What became of one decision: for a person who asks, and for the round log."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from slotwise.service.counting.attribution import (
    attribute,
    judge_adjustment,
    judge_click,
    judge_conversion,
)
from slotwise.service.counting.views import StoredAdjustment, StoredClick, StoredConversion, View
from slotwise.service.records import ChangeRecord, PoolSettings
from slotwise.service.reporting.reports import (
    DecisionReport,
    ReceivedEvent,
    RoundRow,
    SegmentFloorSet,
)
from slotwise.service.storage.commands import Refusal

__all__ = ["report_decision", "round_row", "settings_at"]

_FOREVER = 2**63 - 1


def report_decision(
    view: View, refusals: Iterable[Refusal], closed_until_us: int, pool: PoolSettings
) -> DecisionReport:
    """Return what was received for a decision and what became of each event.

    `pool` are the settings under which it was made.
    """
    decision = view.decision
    conversions = {item.event.conversion_id: item for item in view.conversions}
    received = [
        *(_received_click(view, click) for click in view.clicks),
        *(_received_conversion(view, conversion) for conversion in view.conversions),
        *(
            _received_adjustment(view, conversions[item.event.conversion_id], item)
            for item in view.adjustments
        ),
        *(_refused(refusal) for refusal in refusals),
    ]
    counted = attribute(view, _FOREVER)
    return DecisionReport(
        decision=decision,
        received=tuple(sorted(received, key=lambda item: item.received_us)),
        clicks_settled=decision.click_closes_us <= closed_until_us,
        revenue_settled=decision.revenue_closes_us <= closed_until_us,
        clicked=tuple(sorted(counted.clicked)),
        revenue_micros=dict(sorted(counted.revenue_micros.items())),
        segment_floors=tuple(
            SegmentFloorSet(feature=name, value=value, click_floor=pool.floors_by[name][value])
            for name, value in decision.segment.items()
            if value in pool.floors_by.get(name, ())
        ),
    )


def settings_at(present: PoolSettings, changes: Iterable[ChangeRecord], at_us: int) -> PoolSettings:
    """Return the settings of a pool at a time, from the present ones and its changes since."""
    later = [
        one
        for one in changes
        if one.changed_us > at_us and one.before and one.action.startswith("pool.")
    ]
    if not later:
        return present
    first = min(later, key=lambda one: one.changed_us)
    return msgspec.json.decode(first.before, type=PoolSettings)


def round_row(view: View, closed_until_us: int) -> RoundRow:
    """Return a view in the form of the export: outcomes are zero until they are settled."""
    decision = view.decision
    clicks_settled = decision.click_closes_us <= closed_until_us
    revenue_settled = decision.revenue_closes_us <= closed_until_us
    links = tuple([link.link_id for link in decision.shown])
    clicks = revenue = (0,) * len(links)
    if view.clicks:  # without a click nothing can have counted
        counted = attribute(view, _FOREVER)
        if clicks_settled:
            clicks = tuple([int(link in counted.clicked) for link in links])
        if revenue_settled and counted.revenue_micros:
            revenue = tuple([counted.revenue_micros.get(link, 0) for link in links])
    # By position, in the order of the fields: by name a row would take twice as long.
    return RoundRow(
        decision.decision_id,
        decision.issued_us,
        decision.policy,
        decision.policy_version,
        decision.holdout,
        decision.fallback,
        links,
        tuple([link.propensity for link in decision.shown]),
        clicks,
        revenue,
        decision.max_revenue_micros,
        clicks_settled,
        revenue_settled,
        decision.currency,
        decision.min_propensity,
        decision.pool_key,
        decision.visitor,
        decision.segment,
        decision.random_order,
    )


def _received_click(view: View, click: StoredClick) -> ReceivedEvent:
    verdict = judge_click(view.decision, click)
    return ReceivedEvent(
        type="click",
        event_id=click.event.link_id,
        link_id=click.event.link_id,
        received_us=click.received_us,
        amount_micros=None,
        currency=None,
        outcome=verdict.outcome,
        reason=verdict.reason,
        client_time=click.event.client_time,
    )


def _received_conversion(view: View, conversion: StoredConversion) -> ReceivedEvent:
    event, verdict = conversion.event, judge_conversion(view.decision, conversion)
    return ReceivedEvent(
        type="conversion",
        event_id=event.conversion_id,
        link_id=event.link_id,
        received_us=conversion.received_us,
        amount_micros=event.revenue_micros,
        currency=event.currency,
        outcome=verdict.outcome,
        reason=verdict.reason,
        client_time=event.client_time,
    )


def _received_adjustment(
    view: View, conversion: StoredConversion, adjustment: StoredAdjustment
) -> ReceivedEvent:
    event = adjustment.event
    verdict = judge_adjustment(view.decision, conversion, adjustment)
    return ReceivedEvent(
        type="adjustment",
        event_id=event.adjustment_id,
        link_id=conversion.event.link_id,
        received_us=adjustment.received_us,
        amount_micros=event.refund_micros,
        currency=event.currency,
        outcome=verdict.outcome,
        reason=verdict.reason,
        client_time=event.client_time,
    )


def _refused(refusal: Refusal) -> ReceivedEvent:
    return ReceivedEvent(
        type=refusal.kind,
        event_id=refusal.event_id,
        link_id=refusal.link_id,
        received_us=refusal.received_us,
        amount_micros=None,
        currency=None,
        outcome="rejected",
        reason=refusal.reason,
        client_time=None,
    )
