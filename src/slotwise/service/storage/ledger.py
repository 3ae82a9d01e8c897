"""Judge the decisions and events of one group commit: the part that all stores share.

A store loads what the batch refers to, lets the ledger go through the batch in order, and
writes what the ledger has collected: new rows, and increments of the counters of late
feedback, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

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
    View,
    check_event,
    conflict_between,
    judge_adjustment,
    judge_click,
    judge_conversion,
)
from slotwise.service.counting.counters import add_counters, count_late, subtract_counters
from slotwise.service.limits import MAX_SUM_MICROS
from slotwise.service.records import (
    ClickEvent,
    ConversionEvent,
    DecisionRecord,
    Event,
    Outcome,
    compose,
)
from slotwise.service.storage.contract import AppendDecision, RecordEvent, Refusal

if TYPE_CHECKING:
    from slotwise.service.storage.sql_reads import StoreReader

ClickKey = tuple[str, str, str]


def click_key(event: ClickEvent) -> ClickKey:
    """Return what makes a click the same click: an invalid one never takes a real one's place."""
    return (event.decision_id, event.link_id, event.invalid)


def _again(first: Outcome | None) -> Outcome:
    """Return the outcome of an event that came before; a sender should learn that it was late."""
    return DUPLICATE_OF_LATE if first is not None and first.outcome == "late" else DUPLICATE


class NewRows:
    """What a batch adds, in order of arrival; events with whether their decision is unknown."""

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
    `decisions` also those of the conversions that adjustments name. What only late feedback needs
    is read by `reader`, which sees the rows of the batch after a call of `write_new_rows`.
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
        """Judge everything that comes later by a time after `until_us`."""
        self.closed_until_us = max(self.closed_until_us, until_us)
        self.latest_us = max(self.latest_us, until_us)

    def append(self, operation: AppendDecision) -> None:
        """Take in a decision; feedback that came before it is joined by its key."""
        decision = operation.decision
        if decision.decision_id in self.decisions:
            return
        self.latest_us = max(self.latest_us, decision.issued_us)
        stored = replace(
            decision,
            stored_us=self.latest_us,
            learned=decision.click_closes_us > self.closed_until_us,
        )
        # Feedback before a decision that comes in time is in time itself.
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
        """Judge an event, keep it unless it is rejected, and say what became of it."""
        event = operation.event
        refusal = check_event(event)
        if refusal is not None:
            return refusal
        # Times never run backwards in the order of commits, even when the clock does. So feedback
        # that arrived before its decision or conversion never has a later time than that.
        received_us = max(operation.received_us, self.closed_until_us + 1, self.latest_us)
        self.latest_us = received_us
        if isinstance(event, ClickEvent):
            return self._record_click(StoredClick(event=event, received_us=received_us))
        if isinstance(event, ConversionEvent):
            return self._record_conversion(StoredConversion(event=event, received_us=received_us))
        return self._record_adjustment(StoredAdjustment(event=event, received_us=received_us))

    def _record_click(self, click: StoredClick) -> Outcome:
        event = click.event
        decision = self.decisions.get(event.decision_id)
        key = click_key(event)
        if key in self.clicks:
            return _again(judge_click(decision, self.clicks[key]) if decision else None)
        verdict = QUARANTINED if decision is None else judge_click(decision, click)
        if verdict.outcome == "rejected" and not event.invalid:
            self._refuse(event.decision_id, event.link_id, event.link_id, event, verdict, click)
            return verdict
        self.clicks[key] = click
        self.new.clicks.append((click, decision is None))
        if decision is not None and verdict.outcome == "late":
            self._count_late(View(decision=decision, clicks=(click,)))
        return verdict

    def _record_conversion(self, conversion: StoredConversion) -> Outcome:
        event = conversion.event
        decision = self.decisions.get(event.decision_id)
        first = self.conversions.get(event.conversion_id)
        if first is not None:
            judged = judge_conversion(decision, first) if decision else None
            verdict = conflict_between(first.event, event) or _again(judged)
        elif decision is None:
            verdict = QUARANTINED
        else:
            verdict = judge_conversion(decision, conversion)
            verdict = self._sum_too_large(verdict, decision, event.link_id) or verdict
        if verdict.outcome == "rejected":
            event_id, link_id = event.conversion_id, event.link_id
            self._refuse(event.decision_id, event_id, link_id, event, verdict, conversion)
        if first is not None or verdict.outcome == "rejected":
            return verdict
        self.conversions[event.conversion_id] = conversion
        self.new.conversions.append((conversion, decision is None))
        if decision is not None and verdict.outcome == "late":
            # Refunds that waited for this conversion are late with it.
            self._write_new_rows()
            waiting = self._reader.adjustments_of([event.conversion_id])
            self._count_late(
                View(decision=decision, conversions=(conversion,), adjustments=tuple(waiting))
            )
        return verdict

    def _record_adjustment(self, adjustment: StoredAdjustment) -> Outcome:
        event = adjustment.event
        conversion = self.conversions.get(event.conversion_id)
        decision = self.decisions.get(conversion.event.decision_id) if conversion else None
        first = self.adjustments.get(event.adjustment_id)
        if first is not None:
            judged = None
            if decision is not None and conversion is not None:
                judged = judge_adjustment(decision, conversion, first)
            verdict = conflict_between(first.event, event) or _again(judged)
        elif conversion is None:
            verdict = QUARANTINED_ADJUSTMENT
        elif decision is None:
            verdict = QUARANTINED
        else:
            verdict = judge_adjustment(decision, conversion, adjustment)
            link_id = conversion.event.link_id
            verdict = self._sum_too_large(verdict, decision, link_id) or verdict
        if verdict.outcome == "rejected" and conversion is not None:
            decision_id, link_id = conversion.event.decision_id, conversion.event.link_id
            self._refuse(decision_id, event.adjustment_id, link_id, event, verdict, adjustment)
        if first is not None or verdict.outcome == "rejected":
            return verdict
        self.adjustments[event.adjustment_id] = adjustment
        self.new.adjustments.append((adjustment, decision is None))
        if decision is not None and conversion is not None and verdict.outcome == "late":
            refund = View(decision=decision, conversions=(conversion,), adjustments=(adjustment,))
            self._count_late(refund, already=replace(refund, adjustments=()))
        return verdict

    def _sum_too_large(
        self, verdict: Outcome, decision: DecisionRecord, link_id: str
    ) -> Outcome | None:
        """Return the outcome that rejects an amount whose sum might exceed 64 bits, or None.

        Sums up to half of what fits are let through: one batch, and the windows that are open,
        add less than the other half.
        """
        if verdict.outcome not in ("accepted", "late"):
            return None
        key = (decision.pool_id, link_id)
        if key not in self._largest_sums:
            self._largest_sums[key] = self._reader.largest_sum(*key)
        if self._largest_sums[key] <= MAX_SUM_MICROS:
            return None
        return SUM_TOO_LARGE

    def _refuse(
        self,
        decision_id: str,
        event_id: str,
        link_id: str,
        event: Event,
        verdict: Outcome,
        stored: StoredClick | StoredConversion | StoredAdjustment,
    ) -> None:
        """Keep a note of a refused event, where its decision can show it."""
        if decision_id in self.decisions:
            named = {"decision_id": decision_id, "event_id": event_id, "link_id": link_id}
            self.new.refusals.append(compose(Refusal, event, verdict, stored, **named))

    def _count_late(self, view: View, already: View | None = None) -> None:
        """Count what is late in `view` and not counted `already`."""
        pool_id = view.decision.pool_id
        reset_times = self._reader.reset_times(pool_id)
        total = add_counters(
            self.new.late.get(pool_id, Counters()), count_late([view], reset_times)
        )
        if already is not None:
            total = subtract_counters(total, count_late([already], reset_times))
        self.new.late[pool_id] = total
