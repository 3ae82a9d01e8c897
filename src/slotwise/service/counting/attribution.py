"""What counts: a pure function of stored events and a clock.

    click       counts when received by `click_closes_us`
    conversion  counts when received by `revenue_until_us` and its link's click counts
    adjustment  counts when received by `revenue_until_us` and its conversion counts

    revenue of a view = clip(sum of conversions - sum of adjustments, 0, max_revenue)

A view is settled for clicks when its click window has closed and for revenue when both have: by age
alone, not by outcome, since closing unclicked views first would bias revenue down. Only the
server's time of receipt is used; a sender's clock is an annotation.

Revenue whose click did not count is not learned: a link cannot earn revenue on a page view without
a click (the policies rely on `revenue <= click`). Used by most of the service.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from slotwise.service import limits
from slotwise.service.records import (
    DAY_US,
    AdjustmentEvent,
    ClickEvent,
    ConversionEvent,
    DecisionRecord,
    Event,
    Outcome,
    OutcomeName,
)

Level = Literal[0, 1]
CLICKS: Level = 0
REVENUE: Level = 1
LEVELS: tuple[Level, ...] = (CLICKS, REVENUE)

Group = Literal["policy", "own", "holdout"]
"""The groups in which pages are counted: chosen ones, own pages, and random ones."""

ACCEPTED = Outcome(outcome="accepted")
DUPLICATE = Outcome(outcome="duplicate")
DUPLICATE_OF_LATE = Outcome(
    outcome="duplicate",
    reason="first-was-late",
    detail="the first attempt was received after its window closed",
)
LATE = Outcome(outcome="late", reason="window-closed", detail="received after its window closed")
CLIPPED_SALE = Outcome(
    outcome="accepted",
    reason="above-max-revenue",
    detail="counts as the pool's max_revenue; raise it if such sales are common",
)
QUARANTINED = Outcome(
    outcome="quarantined",
    reason="unknown-decision",
    detail="no such decision yet; counted if it arrives within a day",
)
QUARANTINED_ADJUSTMENT = Outcome(
    outcome="quarantined",
    reason="unknown-conversion",
    detail="no such conversion yet; counted if it arrives within a day",
)
SUM_TOO_LARGE = Outcome(
    outcome="rejected",
    reason="sum-too-large",
    detail=f"a sum of revenue of the link or its pool is above {limits.MAX_SUM_MICROS} already",
)
EXPIRED = Outcome(
    outcome="quarantined",
    reason="decision-too-late",
    detail="the decision turned up more than a day later",
)
_IDS: dict[type[Event], tuple[str, ...]] = {
    ClickEvent: ("decision_id", "link_id"),
    ConversionEvent: ("decision_id", "link_id", "conversion_id"),
    AdjustmentEvent: ("conversion_id", "adjustment_id"),
}
_OUTCOMES: tuple[OutcomeName, ...] = get_args(OutcomeName)
_AMOUNTS = ("revenue_micros", "refund_micros")


class StoredClick(msgspec.Struct, frozen=True, gc=False):
    """A click with the time by which it is judged."""

    event: ClickEvent
    received_us: int


class StoredConversion(msgspec.Struct, frozen=True, gc=False):
    """A conversion with the time by which it is judged."""

    event: ConversionEvent
    received_us: int


class StoredAdjustment(msgspec.Struct, frozen=True, gc=False):
    """An adjustment with the time by which it is judged."""

    event: AdjustmentEvent
    received_us: int


StoredEvent = StoredClick | StoredConversion | StoredAdjustment


class View(msgspec.Struct, frozen=True, gc=False):
    """A decision with everything received for it: all that attribution needs."""

    decision: DecisionRecord
    clicks: tuple[StoredClick, ...] = ()
    conversions: tuple[StoredConversion, ...] = ()
    adjustments: tuple[StoredAdjustment, ...] = ()


class FoldPosition(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """How far one level of a pool is folded: the last view, in order of closing, then of id."""

    closes_us: int
    decision_id: str


FOLD_START = FoldPosition(closes_us=0, decision_id="")


def fold_position(view: View, level: Level) -> FoldPosition:
    """Return the position of a view in the folding order of a level."""
    decision = view.decision
    closes_us = decision.click_closes_us if level == CLICKS else decision.revenue_closes_us
    return FoldPosition(closes_us=closes_us, decision_id=decision.decision_id)


class LinkCounters(msgspec.Struct, frozen=True):
    """Sums over the views of one link in one group; integers, therefore exact in any order."""

    click_views: int = 0
    clicks: int = 0
    revenue_views: int = 0
    revenue_micros: int = 0
    late_clicks: int = 0
    late_revenue_micros: int = 0
    """Late conversions less late refunds."""


class PageCounters(msgspec.Struct, frozen=True):
    """Sums over the pages of one group, with the squares that an interval needs."""

    click_views: int = 0
    clicks: int = 0
    clicks_squared: int = 0
    revenue_views: int = 0
    revenue_micros: int = 0
    revenue_squared: int = 0
    """Sum over pages of the squared revenue in 1/10,000 of the page's `max_revenue_micros`."""


FloorKey = tuple[str, str, float, int, int]
"""A click floor: feature and value of its visitors (empty for all), the floor, the slots, and when
it was set."""


ComparedKey = tuple[Group, int, float, float]
"""Pages of a group since the own page was last changed: that time, and the shares of chosen and of
own pages with which the group was drawn."""


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """Every counter of a pool, or an increment to them."""

    links: dict[tuple[Group, str], LinkCounters] = msgspec.field(default_factory=dict)
    pages: dict[Group, PageCounters] = msgspec.field(default_factory=dict)
    visitors: dict[tuple[Group, str, str], PageCounters] = msgspec.field(default_factory=dict)
    """Pages of visitors by group, feature and value, from the segment of the decision."""
    delivered: dict[FloorKey, PageCounters] = msgspec.field(default_factory=dict)
    """Clicks of chosen and own pages by the floor they were shown under."""
    compared: dict[ComparedKey, PageCounters] = msgspec.field(default_factory=dict)
    """Pages that might have been the own page: the evidence of the comparison with it."""


class Attribution(msgspec.Struct, frozen=True, kw_only=True):
    """What counts for one view, as known at a time."""

    clicked: frozenset[str]
    """Links with a click that counts (final once settled)."""
    revenue_micros: dict[str, int]
    """Revenue that counts, for links in `clicked` (final once settled)."""
    late_clicks: frozenset[str]
    late_revenue_micros: dict[str, int]
    """Late conversions less late adjustments, not clipped: reported, not learned."""


def rejected(field: str, reason: str, rule: str, value: object) -> Outcome:
    """Build the outcome of an event that breaks a rule."""
    detail = f"`{field}` must be {rule}, got {value!r}"
    return Outcome(outcome="rejected", reason=reason, detail=detail[:500], field=field)


def check_event(event: Event) -> Outcome | None:
    """Return the outcome that rejects an event regardless of its decision, or None."""
    for name in _IDS[type(event)]:
        value = getattr(event, name)
        if not limits.is_id(value):
            return rejected(name, "invalid-id", limits.ID_RULE, value)
    if event.client_time is not None and len(event.client_time) > limits.MAX_CLIENT_TIME_CHARS:
        rule = f"at most {limits.MAX_CLIENT_TIME_CHARS} characters"
        return rejected("client_time", "invalid-event", rule, event.client_time[:80])
    if isinstance(event, ClickEvent):
        return None
    if not limits.is_currency(event.currency):
        rule = "three capital letters (ISO 4217)"
        return rejected("currency", "wrong-currency", rule, event.currency)
    name, amount = _amount(event)
    if isinstance(amount, bool) or not isinstance(amount, int):
        return rejected(name, "not-an-amount", "a whole number of micro-units", amount)
    if amount < 0:
        return rejected(name, "negative-amount", "at least 0", amount)
    if amount > limits.MAX_AMOUNT_MICROS:
        return rejected(name, "amount-too-large", f"at most {limits.MAX_AMOUNT_MICROS}", amount)
    return None


def judge_click(decision: DecisionRecord, click: StoredClick) -> Outcome:
    """Return the outcome of a click on a page of this decision."""
    refusal = _link_not_shown(decision, click.event.link_id)
    if refusal is not None:
        return refusal
    if click.event.invalid:
        return Outcome(
            outcome="rejected", reason=click.event.invalid, detail="not a visitor's click"
        )
    return _judge_time(decision, click.received_us, decision.click_closes_us)


def judge_conversion(decision: DecisionRecord, conversion: StoredConversion) -> Outcome:
    """Return the outcome of a conversion of this decision."""
    event = conversion.event
    refusal = _link_not_shown(decision, event.link_id) or _wrong_currency(decision, event)
    if refusal is not None:
        return refusal
    verdict = _judge_time(decision, conversion.received_us, decision.revenue_until_us)
    if verdict is ACCEPTED and event.revenue_micros > decision.max_revenue_micros:
        return CLIPPED_SALE
    return verdict


def judge_adjustment(
    decision: DecisionRecord, conversion: StoredConversion, adjustment: StoredAdjustment
) -> Outcome:
    """Return the outcome of an adjustment, which is that of its conversion."""
    refusal = _wrong_currency(decision, adjustment.event)
    if refusal is not None:
        return refusal
    if conversion.received_us - adjustment.received_us > DAY_US:
        return EXPIRED
    verdict = judge_conversion(decision, conversion)
    if verdict.outcome == "rejected":
        return Outcome(
            outcome="rejected",
            reason="conversion-rejected",
            detail=f"its conversion is rejected: {verdict.detail}",
            field="conversion_id",
        )
    if verdict.outcome != "accepted":
        return verdict
    return _judge_time(decision, adjustment.received_us, decision.revenue_until_us)


def conflict_between(first: Event, second: Event) -> Outcome | None:
    """Return None if both are equal, otherwise the outcome that rejects the second."""
    for name in ("decision_id", "link_id", "conversion_id", *_AMOUNTS, "currency"):
        kept, sent = getattr(first, name, None), getattr(second, name, None)
        if kept != sent:
            detail = f"`{name}` was {kept!r} when this id was first received, now {sent!r}"
            return Outcome(outcome="rejected", reason="conflict", detail=detail, field=name)
    return None


def attribute(view: View, now_us: int) -> Attribution:
    """Return what counts for a view, given only what was received by `now_us`."""
    decision = view.decision
    clicks: dict[OutcomeName, set[str]] = {name: set() for name in _OUTCOMES}
    for click in view.clicks:
        if click.received_us <= now_us:
            clicks[judge_click(decision, click).outcome].add(click.event.link_id)
    in_time: dict[str, int] = {}
    late: dict[str, int] = {}
    conversions = {}
    for conversion in view.conversions:
        if conversion.received_us <= now_us:
            conversions[conversion.event.conversion_id] = conversion
            verdict = judge_conversion(decision, conversion)
            _add(verdict, in_time, late, conversion.event.link_id, conversion.event.revenue_micros)
    for adjustment in view.adjustments:
        refunded = conversions.get(adjustment.event.conversion_id)
        if refunded is not None and adjustment.received_us <= now_us:
            verdict = judge_adjustment(decision, refunded, adjustment)
            link_id = refunded.event.link_id
            _add(verdict, in_time, late, link_id, -adjustment.event.refund_micros)
    clicked = frozenset(clicks["accepted"])
    revenue = {
        link_id: min(max(amount, 0), decision.max_revenue_micros)
        for link_id, amount in in_time.items()
        if link_id in clicked
    }
    return Attribution(
        clicked=clicked,
        revenue_micros=revenue,
        late_clicks=frozenset(clicks["late"]),
        late_revenue_micros=late,
    )


def _amount(event: ConversionEvent | AdjustmentEvent) -> tuple[str, int]:
    if isinstance(event, ConversionEvent):
        return "revenue_micros", event.revenue_micros
    return "refund_micros", event.refund_micros


def _add(
    verdict: Outcome, in_time: dict[str, int], late: dict[str, int], link_id: str, amount: int
) -> None:
    sums = {"accepted": in_time, "late": late}.get(verdict.outcome)
    if sums is not None:
        sums[link_id] = sums.get(link_id, 0) + amount


def _judge_time(decision: DecisionRecord, received_us: int, until_us: int) -> Outcome:
    if decision.stored_us - received_us > DAY_US:
        return EXPIRED
    return ACCEPTED if received_us <= until_us else LATE


def _link_not_shown(decision: DecisionRecord, link_id: str) -> Outcome | None:
    for shown in decision.shown:
        if shown.link_id == link_id:
            return None
    return rejected("link_id", "link-not-shown", "a link that the decision showed", link_id)


def _wrong_currency(
    decision: DecisionRecord, event: ConversionEvent | AdjustmentEvent
) -> Outcome | None:
    if event.currency != decision.currency:
        rule = f"the currency of the pool ({decision.currency})"
        return rejected("currency", "wrong-currency", rule, event.currency)
    return None
