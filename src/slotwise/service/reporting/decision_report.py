"""The report of one decision, and its rows in the round log.

Used by `reporter`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from slotwise.service.counting.attribution import (
    View,
    attribute,
    judge_adjustment,
    judge_click,
    judge_conversion,
)
from slotwise.service.records import ChangeRecord, PoolSettings
from slotwise.service.reporting.report_records import (
    DecisionReport,
    ReceivedEvent,
    RoundRow,
    SegmentFloorSet,
)
from slotwise.service.storage.contract import Refusal

_FOREVER = 2**63 - 1


def report_decision(
    view: View, refusals: Iterable[Refusal], closed_until_us: int, pool: PoolSettings
) -> DecisionReport:
    """Return what was received for a decision and the outcome of each event.

    `pool` are the settings under which it was made.
    """
    decision = view.decision
    received = [*_received(view), *map(_refused, refusals)]
    counted = attribute(view, _FOREVER)
    return DecisionReport(
        decision=decision,
        received=tuple(sorted(received, key=lambda item: item.received_us)),
        clicks_settled=decision.click_closes_us <= closed_until_us,
        revenue_settled=decision.revenue_closes_us <= closed_until_us,
        clicked=tuple(sorted(counted.clicked)),
        revenue_micros=dict(sorted(counted.revenue_micros.items())),
        segment_floors=tuple(
            SegmentFloorSet(feature=name, value=value, click_floor=pool.segment_floors[name][value])
            for name, value in decision.segment.items()
            if value in pool.segment_floors.get(name, ())
        ),
        group=decision.group,
        group_probability=decision.group_probability,
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
    """Return a view as a row of the export; outcomes are zero until they are settled."""
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
    return RoundRow(
        decision_id=decision.decision_id,
        issued_us=decision.issued_us,
        policy=decision.policy,
        policy_version=decision.policy_version,
        holdout=decision.holdout,
        fallback=decision.fallback,
        links=links,
        propensities=tuple([link.propensity for link in decision.shown]),
        clicks=clicks,
        revenue_micros=revenue,
        max_revenue_micros=decision.max_revenue_micros,
        clicks_settled=clicks_settled,
        revenue_settled=revenue_settled,
        currency=decision.currency,
        min_propensity=decision.min_propensity,
        pool_key=decision.pool_key,
        visitor=decision.visitor,
        segment=decision.segment,
        random_order=decision.random_order,
        group=decision.group,
        group_probability=decision.group_probability,
    )


def _received(view: View) -> Iterator[ReceivedEvent]:
    """Return the events of a view, each with its outcome."""
    for click in view.clicks:
        verdict, event_id = judge_click(view.decision, click), click.event.link_id
        yield ReceivedEvent(
            type="click",
            event_id=event_id,
            link_id=click.event.link_id,
            received_us=click.received_us,
            outcome=verdict.outcome,
            reason=verdict.reason,
            client_time=click.event.client_time,
            amount_micros=None,
            currency=None,
        )
    conversions = {item.event.conversion_id: item for item in view.conversions}
    for conversion in view.conversions:
        sale, verdict = conversion.event, judge_conversion(view.decision, conversion)
        yield ReceivedEvent(
            type="conversion",
            event_id=sale.conversion_id,
            link_id=sale.link_id,
            received_us=conversion.received_us,
            amount_micros=sale.revenue_micros,
            currency=sale.currency,
            outcome=verdict.outcome,
            reason=verdict.reason,
            client_time=sale.client_time,
        )
    for adjustment in view.adjustments:
        refund, conversion = adjustment.event, conversions[adjustment.event.conversion_id]
        verdict = judge_adjustment(view.decision, conversion, adjustment)
        yield ReceivedEvent(
            type="adjustment",
            event_id=refund.adjustment_id,
            link_id=conversion.event.link_id,
            received_us=adjustment.received_us,
            amount_micros=refund.refund_micros,
            currency=refund.currency,
            outcome=verdict.outcome,
            reason=verdict.reason,
            client_time=refund.client_time,
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
