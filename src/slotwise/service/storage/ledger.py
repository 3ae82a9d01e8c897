"""Judge the decisions and events of one group commit: the part that all stores share.

A store loads the rows that the batch refers to, passes the batch to the ledger in order, and writes
what the ledger has collected in the same transaction: new rows, and increments of the counters of
late feedback. Used by `sql_batch`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from slotwise.service.counting.attribution import (
    DUPLICATE,
    DUPLICATE_OF_LATE,
    QUARANTINED,
    QUARANTINED_ADJUSTMENT,
    SUM_TOO_LARGE,
    Counters,
    StoredAdjustment,
    StoredClick,
    StoredConversion,
    StoredEvent,
    View,
    check_event,
    conflict_between,
    judge_adjustment,
    judge_click,
    judge_conversion,
)
from slotwise.service.counting.counters import add_counters, count_late
from slotwise.service.limits import MAX_SUM_MICROS
from slotwise.service.records import (
    AdjustmentEvent,
    ClickEvent,
    ConversionEvent,
    DecisionRecord,
    Outcome,
)
from slotwise.service.storage.contract import AppendDecision, RecordEvent, Refusal

if TYPE_CHECKING:
    from slotwise.service.storage.sql_reads import StoreReader

ClickKey = tuple[str, str, str]


def click_key(event: ClickEvent) -> ClickKey:
    """Return the identity of a click; an invalid click never replaces a real one."""
    return (event.decision_id, event.link_id, event.invalid)


def _judge(
    decision: DecisionRecord | None, conversion: StoredConversion | None, stored: StoredEvent
) -> Outcome:
    """Return the outcome of an event; its page may be unknown."""
    if isinstance(stored, StoredAdjustment) and conversion is None:
        return QUARANTINED_ADJUSTMENT
    if decision is None:
        return QUARANTINED
    match stored:
        case StoredClick():
            return judge_click(decision, stored)
        case StoredConversion():
            return judge_conversion(decision, stored)
        case StoredAdjustment():
            assert conversion is not None
            return judge_adjustment(decision, conversion, stored)


class NewRows:
    """The rows that a batch adds, in order of arrival; events say if their decision is unknown."""

    def __init__(self) -> None:
        self.decisions: list[DecisionRecord] = []
        self.clicks: list[tuple[StoredClick, bool]] = []
        self.conversions: list[tuple[StoredConversion, bool]] = []
        self.adjustments: list[tuple[StoredAdjustment, bool]] = []
        self.refusals: list[Refusal] = []
        self.late: dict[str, Counters] = {}


class Ledger:
    """The rows a batch refers to, and what it adds to them.

    The dictionaries start with the stored rows whose keys the events of the batch name, for
    `decisions` also those of the conversions that adjustments name. Rows for late feedback only are
    read by `reader`, which sees the rows of the batch after a call of `write_new_rows`.
    """

    def __init__(
        self,
        closed_until_us: int,
        latest_us: int,
        reader: StoreReader,
        write_new_rows: Callable[[], None],
    ) -> None:
        self.closed_until_us = closed_until_us
        self.latest_us = latest_us
        self.decisions: dict[str, DecisionRecord] = {}
        self.clicks: dict[ClickKey, StoredClick] = {}
        self.conversions: dict[str, StoredConversion] = {}
        self.adjustments: dict[str, StoredAdjustment] = {}
        self.new = NewRows()
        self._reader = reader
        self._write_new_rows = write_new_rows
        self._largest_sums: dict[tuple[str, str], int] = {}
        """By pool and link, before this batch."""

    def close_windows(self, until_us: int) -> None:
        """Judge everything that arrives later by a time after `until_us`."""
        self.closed_until_us = max(self.closed_until_us, until_us)
        self.latest_us = max(self.latest_us, until_us)

    def append(self, operation: AppendDecision) -> None:
        """Record a decision; feedback that arrived earlier is joined by its key."""
        decision = operation.decision
        if decision.decision_id in self.decisions:
            return
        self.latest_us = max(self.latest_us, decision.issued_us)
        stored = replace(
            decision,
            stored_us=self.latest_us,
            learned=decision.learned and decision.click_closes_us > self.closed_until_us,
        )
        # If a decision is in time, feedback that arrived before it is in time, too.
        comes_late = stored.stored_us > stored.click_closes_us
        if comes_late and self._reader.decision(stored.decision_id) is not None:
            return
        self.decisions[stored.decision_id] = stored
        self.new.decisions.append(stored)
        if comes_late:
            self._write_new_rows()
            view = self._reader.view(stored.decision_id)
            assert view is not None, "its row was written just now"
            self._count_late(view)

    def record(self, operation: RecordEvent) -> Outcome:
        """Judge an event, record it unless it is rejected, and return its outcome."""
        event = operation.event
        refusal = check_event(event)
        if refusal is not None:
            return refusal
        # Times never run backwards in the order of commits, even when the clock does. So feedback
        # that arrived before its decision or conversion never has a later time than that.
        received_us = max(operation.received_us, self.closed_until_us + 1, self.latest_us)
        self.latest_us = received_us
        conversion: StoredConversion | None = None
        key: ClickKey | str
        match event:
            case ClickEvent():
                stored: StoredEvent = StoredClick(event, received_us)
                name, key, event_id = "clicks", click_key(event), event.link_id
            case ConversionEvent():
                stored = StoredConversion(event, received_us)
                name, key, event_id = "conversions", event.conversion_id, event.conversion_id
            case AdjustmentEvent():
                stored = StoredAdjustment(event, received_us)
                name, key, event_id = "adjustments", event.adjustment_id, event.adjustment_id
                conversion = self.conversions.get(event.conversion_id)
        about: Any = event if conversion is None else conversion.event
        decision = self.decisions.get(getattr(about, "decision_id", ""))
        known: dict[Any, StoredEvent] = getattr(self, name)
        first = known.get(key)
        verdict = _judge(decision, conversion, first or stored)
        if first is not None:
            repeated = DUPLICATE_OF_LATE if verdict.outcome == "late" else DUPLICATE
            verdict = conflict_between(first.event, event) or repeated
        elif decision is not None and name != "clicks":
            verdict = self._sum_too_large(verdict, decision, about.link_id) or verdict
        # A click that was not made by a visitor is stored with the reason why it does not count.
        is_refused = verdict.outcome == "rejected" and not getattr(event, "invalid", "")
        if is_refused and decision is not None:
            self.new.refusals.append(
                Refusal(
                    decision_id=decision.decision_id,
                    kind=event.kind,
                    event_id=event_id,
                    reason=verdict.reason,
                    link_id=about.link_id,
                    detail=verdict.detail,
                    received_us=received_us,
                )
            )
        if first is not None or is_refused:
            return verdict
        known[key] = stored
        getattr(self.new, name).append((stored, decision is None))
        if decision is not None and verdict.outcome == "late":
            self._count_late_event(decision, conversion, stored)
        return verdict

    def _count_late_event(
        self, decision: DecisionRecord, conversion: StoredConversion | None, stored: StoredEvent
    ) -> None:
        match stored:
            case StoredClick():
                self._count_late(View(decision, clicks=(stored,)))
            case StoredConversion():
                # Refunds that waited for this conversion are late if it is late.
                self._write_new_rows()
                waiting = tuple(self._reader.adjustments_of([stored.event.conversion_id]))
                self._count_late(View(decision, conversions=(stored,), adjustments=waiting))
            case StoredAdjustment():
                assert conversion is not None, "it was judged with its conversion"
                before = View(decision, conversions=(conversion,))
                self._count_late(replace(before, adjustments=(stored,)), already=before)

    def _sum_too_large(
        self, verdict: Outcome, decision: DecisionRecord, link_id: str
    ) -> Outcome | None:
        """Return the outcome that rejects an amount whose sum might exceed 64 bits, or None.

        Sums up to half of the maximum are accepted: one batch, and the open windows, add less than
        the other half.
        """
        if verdict.outcome not in ("accepted", "late"):
            return None
        key = (decision.pool_id, link_id)
        if key not in self._largest_sums:
            self._largest_sums[key] = self._reader.largest_sum(*key)
        if self._largest_sums[key] <= MAX_SUM_MICROS:
            return None
        return SUM_TOO_LARGE

    def _count_late(self, view: View, already: View | None = None) -> None:
        """Count what is late in `view` and not counted `already`."""
        pool_id = view.decision.pool_id
        reset_times = self._reader.reset_times(pool_id)
        total = add_counters(
            self.new.late.get(pool_id, Counters()), count_late([view], reset_times)
        )
        if already is not None:
            total = add_counters(total, count_late([already], reset_times), -1)
        self.new.late[pool_id] = total
