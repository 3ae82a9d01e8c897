"""The counting rules, a row each: what arrives when, what is answered, what counts."""

from __future__ import annotations

from collections.abc import Mapping, Set
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from slotwise.service.counting.attribution import (
    StoredAdjustment,
    StoredClick,
    StoredConversion,
    View,
    attribute,
    check_event,
)
from slotwise.service.limits import MAX_AMOUNT_MICROS
from slotwise.service.records import (
    DAY_US,
    SECOND_US,
    ChangeRecord,
    ClickEvent,
    ConversionEvent,
    DecisionRecord,
    Event,
    Outcome,
)
from slotwise.service.reporting.decision_report import round_row
from slotwise.service.storage.contract import AppendDecision, Operation, RecordEvent, SavePool
from tests.service.rows import (
    CLICK_WINDOW_S,
    MAX_REVENUE,
    REVENUE_WINDOW_S,
    T0,
    adjustment,
    click,
    conversion,
    decision,
    pool,
    seconds,
)
from tests.stores.memory_store import MemoryStore
from tests.stores.store_rows import reads

MILLION = 1_000_000
END = seconds(10 * 86_400)


class Rule(NamedTuple):
    """One row of the table; times are seconds after the decision was issued."""

    name: str
    arrivals: list[tuple[Event | DecisionRecord, float]]
    answers: list[str]
    clicked: Set[str] = frozenset()
    revenue: Mapping[str, int] = MappingProxyType({})
    late_clicks: Set[str] = frozenset()
    late_revenue: Mapping[str, int] = MappingProxyType({})


PAGE = (decision(), 0.0)
CLICK = (click(), 5.0)
ORDER = (conversion(), 60.0)

RULES = [
    Rule("a click in its window counts", [PAGE, CLICK], ["accepted"], {"l1"}),
    Rule(
        "the same click again is a duplicate",
        [PAGE, CLICK, (click(), 6.0), (click(client_time="2020-01-01T00:00:00Z"), 7.0)],
        ["accepted", "duplicate", "duplicate"],
        {"l1"},
    ),
    Rule(
        "clicks on two links of a page are two clicks",
        [PAGE, CLICK, (click("l2"), 6.0)],
        ["accepted", "accepted"],
        {"l1", "l2"},
    ),
    Rule(
        "a click at the very end of its window counts",
        [PAGE, (click(), CLICK_WINDOW_S)],
        ["accepted"],
        {"l1"},
    ),
    Rule(
        "a click after its window is late: reported, not learned",
        [PAGE, (click(), CLICK_WINDOW_S + 0.000001)],
        ["late"],
        late_clicks={"l1"},
    ),
    Rule(
        "a conversion before its click is stored and joined by key",
        [PAGE, (conversion(), 3.0), CLICK],
        ["accepted", "accepted"],
        {"l1"},
        {"l1": 10 * MILLION},
    ),
    Rule(
        "revenue without a click that counts is not learned",
        [PAGE, ORDER, (click(), CLICK_WINDOW_S + 1)],
        ["accepted", "late"],
        late_clicks={"l1"},
    ),
    Rule(
        "two conversions for one click are summed",
        [PAGE, CLICK, ORDER, (conversion("order-2", 15 * MILLION), 70.0)],
        ["accepted", "accepted", "accepted"],
        {"l1"},
        {"l1": 25 * MILLION},
    ),
    Rule(
        "the sum of conversions is clipped to max_revenue",
        [PAGE, CLICK, (conversion("a", 30 * MILLION), 9.0), (conversion("b", 30 * MILLION), 9.0)],
        ["accepted", "accepted", "accepted"],
        {"l1"},
        {"l1": MAX_REVENUE},
    ),
    Rule(
        "a refund inside the window is subtracted",
        [PAGE, CLICK, ORDER, (adjustment(), 90.0)],
        ["accepted", "accepted", "accepted"],
        {"l1"},
        {"l1": 6 * MILLION},
    ),
    Rule(
        "a refund is subtracted before the sum is clipped",
        [
            PAGE,
            CLICK,
            (conversion("order-1", 40 * MILLION), 9.0),
            (conversion("order-2", 40 * MILLION), 9.0),
            (adjustment("r", 25 * MILLION), 10.0),
        ],
        ["accepted"] * 4,
        {"l1"},
        {"l1": MAX_REVENUE},
    ),
    Rule(
        "refunds above the revenue leave nothing, never less",
        [PAGE, CLICK, ORDER, (adjustment("r", 30 * MILLION), 90.0)],
        ["accepted", "accepted", "accepted"],
        {"l1"},
        {"l1": 0},
    ),
    Rule(
        "the same refund again is a duplicate",
        [PAGE, CLICK, ORDER, (adjustment(), 90.0), (adjustment(), 91.0)],
        ["accepted", "accepted", "accepted", "duplicate"],
        {"l1"},
        {"l1": 6 * MILLION},
    ),
    Rule(
        "a refund before its conversion waits for it",
        [PAGE, CLICK, (adjustment(), 6.0), ORDER],
        ["accepted", "quarantined unknown-conversion", "accepted"],
        {"l1"},
        {"l1": 6 * MILLION},
    ),
    Rule(
        "a refund after the window is late and changes nothing learned",
        [PAGE, CLICK, ORDER, (adjustment(), REVENUE_WINDOW_S + 1)],
        ["accepted", "accepted", "late"],
        {"l1"},
        {"l1": 10 * MILLION},
        late_revenue={"l1": -4 * MILLION},
    ),
    Rule(
        "revenue after its window is late, apart from what is learned",
        [PAGE, CLICK, ORDER, (conversion("order-2"), REVENUE_WINDOW_S + 1)],
        ["accepted", "accepted", "late"],
        {"l1"},
        {"l1": 10 * MILLION},
        late_revenue={"l1": 10 * MILLION},
    ),
    Rule(
        "the refund of a late conversion is late with it",
        [
            PAGE,
            CLICK,
            (adjustment(), 9.0),
            (conversion(), REVENUE_WINDOW_S + 1),
        ],
        ["accepted", "quarantined unknown-conversion", "late"],
        {"l1"},
        late_revenue={"l1": 6 * MILLION},
    ),
    Rule(
        "feedback of an unknown decision is quarantined and joined when it turns up",
        [CLICK, ORDER, (adjustment(), 61.0), (decision(), 62.0)],
        [
            "quarantined unknown-decision",
            "quarantined unknown-decision",
            "quarantined unknown-decision",
        ],
        {"l1"},
        {"l1": 6 * MILLION},
    ),
    Rule(
        "quarantined feedback sent again is a duplicate",
        [CLICK, CLICK, (decision(), 62.0)],
        ["quarantined unknown-decision", "duplicate"],
        {"l1"},
    ),
    Rule(
        "a decision that turns up after a day finds no feedback",
        [CLICK, (decision(issued_us=seconds(6.0 + 86_400)), 0.0)],
        ["quarantined unknown-decision"],
    ),
    Rule(
        "a decision that turns up within a day finds its feedback",
        [CLICK, (decision(issued_us=seconds(5.0 + 86_400)), 0.0)],
        ["quarantined unknown-decision"],
        {"l1"},
    ),
    Rule(
        "the same conversion again is a duplicate",
        [PAGE, CLICK, ORDER, (conversion(client_time="1999"), 61.0)],
        ["accepted", "accepted", "duplicate"],
        {"l1"},
        {"l1": 10 * MILLION},
    ),
    Rule(
        "the same conversion id with another amount is rejected, the first one stays",
        [PAGE, CLICK, ORDER, (conversion("order-1", 11 * MILLION), 61.0)],
        ["accepted", "accepted", "rejected conflict revenue_micros"],
        {"l1"},
        {"l1": 10 * MILLION},
    ),
    Rule(
        "the same conversion id for another link is rejected, the first one stays",
        [PAGE, CLICK, ORDER, (conversion(link_id="l2"), 61.0)],
        ["accepted", "accepted", "rejected conflict link_id"],
        {"l1"},
        {"l1": 10 * MILLION},
    ),
    Rule(
        "the same refund id with another amount is rejected, the first one stays",
        [PAGE, CLICK, ORDER, (adjustment(), 70.0), (adjustment("refund-1", 5), 71.0)],
        ["accepted", "accepted", "accepted", "rejected conflict refund_micros"],
        {"l1"},
        {"l1": 6 * MILLION},
    ),
    Rule(
        "another currency than the pool's is rejected",
        [PAGE, CLICK, (conversion(currency="USD"), 9.0)],
        ["accepted", "rejected wrong-currency currency"],
        {"l1"},
    ),
    Rule(
        "a rejected conversion does not take its id",
        [PAGE, CLICK, (conversion(currency="USD"), 9.0), ORDER],
        ["accepted", "rejected wrong-currency currency", "accepted"],
        {"l1"},
        {"l1": 10 * MILLION},
    ),
    Rule(
        "a negative amount is rejected",
        [PAGE, CLICK, (conversion("order-1", -1), 9.0)],
        ["accepted", "rejected negative-amount revenue_micros"],
        {"l1"},
    ),
    Rule(
        "an amount above max_revenue counts as max_revenue",
        [PAGE, CLICK, (conversion("order-1", MAX_REVENUE + 1), 9.0)],
        ["accepted", "accepted"],
        {"l1"},
        {"l1": MAX_REVENUE},
    ),
    Rule(
        "a refund is taken from the whole amount, before it is clipped",
        [
            PAGE,
            CLICK,
            (conversion("order-1", 2 * MAX_REVENUE), 9.0),
            (adjustment("r", MAX_REVENUE // 2), 9.5),
        ],
        ["accepted", "accepted", "accepted"],
        {"l1"},
        {"l1": MAX_REVENUE},
    ),
    Rule(
        "an amount above every limit is rejected even when the decision is unknown",
        [(conversion("order-1", MAX_AMOUNT_MICROS + 1), 9.0), (decision(), 10.0)],
        ["rejected amount-too-large revenue_micros"],
    ),
    Rule(
        "quarantined feedback that does not fit its decision counts nothing",
        [CLICK, (conversion(currency="USD"), 9.0), (click("l9"), 9.0), (decision(), 10.0)],
        ["quarantined unknown-decision"] * 3,
        {"l1"},
    ),
    Rule(
        "a click on a link that the page did not show is rejected",
        [PAGE, (click("l9"), 9.0)],
        ["rejected link-not-shown link_id"],
    ),
    Rule(
        "a sender's clock is an annotation: the server's decides",
        [
            PAGE,
            (click(client_time="2099-01-01T00:00:00Z"), 5.0),
            (click("l2", client_time="1970-01-01T00:00:00Z"), 5.0),
        ],
        ["accepted", "accepted"],
        {"l1", "l2"},
    ),
    Rule(
        "a crawler's click is recorded, never counted, and takes no visitor's place",
        [PAGE, (click(invalid="crawler"), 1.0), CLICK],
        ["rejected crawler", "accepted"],
        {"l1"},
    ),
    Rule(
        "an id of strange characters is rejected",
        [PAGE, (click("l 1"), 1.0)],
        ["rejected invalid-id link_id"],
    ),
]


def operation_of(arrival: Event | DecisionRecord, after_s: float) -> Operation:
    if isinstance(arrival, DecisionRecord):
        return AppendDecision(decision=arrival)
    return RecordEvent(event=arrival, received_us=T0 + round(after_s * SECOND_US))


def said(answer: Outcome) -> str:
    if answer.outcome in ("rejected", "quarantined"):
        return f"{answer.outcome} {answer.reason} {answer.field}".strip()
    return answer.outcome


def opened_store() -> MemoryStore:
    store = MemoryStore()
    change = ChangeRecord(changed_us=T0, changed_by="test", action="pool.create", subject="home")
    store.commit([SavePool(pool=pool(), change=change)])
    return store


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_counting_rule(rule: Rule) -> None:
    store = opened_store()
    answers = store.commit([operation_of(*arrival) for arrival in rule.arrivals])
    assert [said(item) for item in answers if isinstance(item, Outcome)] == rule.answers
    view = reads(store).view("d1")
    if view is None:
        return
    counted = attribute(view, END)
    assert counted.clicked == rule.clicked
    assert counted.revenue_micros == rule.revenue
    assert counted.late_clicks == rule.late_clicks
    assert counted.late_revenue_micros == rule.late_revenue


def test_every_row_of_the_table_counts_the_same_when_each_arrival_is_a_commit_of_its_own() -> None:
    for rule in RULES:
        together, apart = opened_store(), opened_store()
        operations = [operation_of(*arrival) for arrival in rule.arrivals]
        answers = together.commit(operations)
        assert [apart.commit([operation])[0] for operation in operations] == answers
        assert reads(apart).view("d1") == reads(together).view("d1")
        assert reads(apart).counters("home") == reads(together).counters("home")


def view_of(*events: tuple[Any, float], **changes: Any) -> View:
    stored: dict[type, list[Any]] = {StoredClick: [], StoredConversion: [], StoredAdjustment: []}
    kinds = {"click": StoredClick, "conversion": StoredConversion, "adjustment": StoredAdjustment}
    for event, after_s in events:
        kind = kinds[event.kind]
        stored[kind].append(kind(event=event, received_us=seconds(after_s)))
    return View(
        decision=decision(**changes),
        clicks=tuple(stored[StoredClick]),
        conversions=tuple(stored[StoredConversion]),
        adjustments=tuple(stored[StoredAdjustment]),
    )


def test_a_view_settles_by_age_alone() -> None:
    clicked = view_of((click(), 5.0), (conversion(), 6.0))
    for view in (view_of(), clicked):
        assert not round_row(view, view.decision.click_closes_us - 1).clicks_settled
        at_click_close = round_row(view, view.decision.click_closes_us)
        assert at_click_close.clicks_settled
        assert not at_click_close.revenue_settled
        assert round_row(view, view.decision.revenue_closes_us).revenue_settled


def test_revenue_settles_when_both_windows_have_closed_even_if_the_click_window_is_longer() -> None:
    view = view_of(
        (click(), 100.0),
        (conversion(), 59.0),
        (conversion("order-2"), 61.0),
        click_closes_us=seconds(120),
        revenue_until_us=seconds(60),
        revenue_closes_us=seconds(120),
    )
    assert not round_row(view, seconds(61)).revenue_settled
    assert round_row(view, seconds(120)).revenue_settled
    settled = attribute(view, seconds(121))
    assert settled.revenue_micros == {"l1": 10 * MILLION}
    assert settled.late_revenue_micros == {"l1": 10 * MILLION}


def test_what_is_received_after_the_clock_is_not_seen() -> None:
    view = view_of((click(), 5.0), (conversion(), 6.0), (adjustment(), 7.0))
    assert attribute(view, seconds(4)).clicked == frozenset()
    assert attribute(view, seconds(5)).clicked == {"l1"}
    assert attribute(view, seconds(6)).revenue_micros == {"l1": 10 * MILLION}
    assert attribute(view, seconds(7)).revenue_micros == {"l1": 6 * MILLION}


def test_the_order_of_rows_does_not_matter() -> None:
    events = [
        (click(), 5.0),
        (conversion(), 6.0),
        (conversion("order-2"), 7.0),
        (adjustment(), 8.0),
    ]
    forwards, backwards = view_of(*events), view_of(*reversed(events))
    assert attribute(forwards, END) == attribute(backwards, END)


def test_a_day_is_counted_from_receipt_to_the_decision_reaching_the_store() -> None:
    in_time = view_of((click(), 0.0), stored_us=T0 + DAY_US)
    too_late = view_of((click(), 0.0), stored_us=T0 + DAY_US + 1)
    assert attribute(in_time, END).clicked == {"l1"}
    assert attribute(too_late, END).clicked == frozenset()


@pytest.mark.parametrize(
    ("event", "field", "detail"),
    [
        (ClickEvent(decision_id="d" * 65, link_id="l1"), "decision_id", "1 to 64"),
        (ClickEvent(decision_id="d", link_id=""), "link_id", "got ''"),
        (
            ClickEvent(decision_id="d", link_id="l", client_time="9" * 65),
            "client_time",
            "at most 64 characters",
        ),
    ],
)
def test_an_event_that_breaks_a_rule_is_rejected_and_named(
    event: ClickEvent, field: str, detail: str
) -> None:
    outcome = check_event(event)
    assert outcome is not None
    assert outcome.outcome == "rejected"
    assert outcome.field == field
    assert detail in outcome.detail


@pytest.mark.parametrize(
    "amount", [float("nan"), float("inf"), 1.5, "12", True, None, -1, MAX_AMOUNT_MICROS + 1, 2**80]
)
def test_an_amount_that_is_none_is_rejected_and_named(amount: Any) -> None:
    sale = ConversionEvent(
        conversion_id="c",
        decision_id="d",
        link_id="l",
        revenue_micros=amount,
        currency="EUR",
    )
    outcome = check_event(sale)
    assert outcome is not None
    assert outcome.outcome == "rejected"
    assert outcome.field == "revenue_micros"
