"""One group commit on SQLite: load what the batch names, judge it in order, write it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import msgspec
from msgspec.structs import replace

from slotwise.errors import InvalidInput
from slotwise.service.counting.counters import count_purged, subtract_counters
from slotwise.service.counting.views import (
    Counters,
    LinkCounters,
    PageCounters,
    StoredAdjustment,
    View,
)
from slotwise.service.records import AdjustmentEvent, ConversionEvent, Event, LinkRecord
from slotwise.service.storage import rows
from slotwise.service.storage.commands import (
    FOLD_START,
    AppendDecision,
    ApplyFold,
    CloseWindows,
    ForgetViews,
    Operation,
    PurgeViews,
    RecordEvent,
    SaveChange,
    SaveKey,
    SaveLearned,
    SaveLinks,
    SavePool,
)
from slotwise.service.storage.forget import views_to_forget
from slotwise.service.storage.ledger import Ledger, NewRows, click_key
from slotwise.service.storage.sql import statements
from slotwise.service.storage.sql.reads import SqliteReader

__all__ = ["SqliteBatch"]


class SqliteBatch:
    """The operations of one transaction; the caller begins and commits it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._reader = SqliteReader(connection)
        closed_until_us, latest_us, self._n_resets = self._reader.clock()
        self._ledger = Ledger(closed_until_us, latest_us, self)

    def apply(self, operations: Sequence[Operation]) -> list[object]:
        """Apply the operations in order and return their answers; only once.

        Batch and ledger refer to each other. Without breaking this cycle every record of the
        batch would stay in memory until the next garbage collection.
        """
        try:
            return self._apply_all(operations)
        finally:
            del self._ledger

    def _apply_all(self, operations: Sequence[Operation]) -> list[object]:
        self._load([item.event for item in operations if isinstance(item, RecordEvent)])
        answers = [self._apply(operation) for operation in operations]
        if operations:
            self._write_new_rows()
            clock = (self._ledger.closed_until_us, self._ledger.latest_us, self._n_resets)
            self._connection.execute(statements.UPDATE_CLOCK, clock)
        return answers

    def _apply(self, operation: Operation) -> object:
        match operation:
            case AppendDecision():
                self._ledger.append(operation)
            case RecordEvent():
                return self._ledger.record(operation)
            case CloseWindows(until_us=until_us):
                self._ledger.close_windows(until_us)
            case SavePool(pool=pool, change=change):
                self._connection.execute(statements.UPSERT["pools"], rows.POOLS.row(pool))
                self._connection.execute(statements.INSERT_CHANGE, rows.CHANGES.row(change))
            case SaveLinks():
                return self._save_links(operation)
            case SaveKey(key=key, change=change):
                self._connection.execute(statements.UPSERT["keys"], rows.KEYS.row(key))
                self._connection.execute(statements.INSERT_CHANGE, rows.CHANGES.row(change))
            case SaveChange(change=change):
                self._connection.execute(statements.INSERT_CHANGE, rows.CHANGES.row(change))
            case ApplyFold():
                return self._apply_fold(operation)
            case ForgetViews():
                return self._forget(operation)
            case PurgeViews():
                return self._purge(operation)
            case SaveLearned(learned=learned):
                self._connection.execute(statements.UPSERT["learned"], rows.LEARNED.row(learned))
            case _:
                raise InvalidInput.of("operations", "operations of a store", operation)
        return None

    def knows_decision(self, decision_id: str) -> bool:
        """Return whether the decision is stored."""
        return self._reader.decision(decision_id) is not None

    def view_with_new_rows(self, decision_id: str) -> View:
        """Return a decision with all that waited for it."""
        self._write_new_rows()
        view = self._reader.view(decision_id)
        assert view is not None, "its row was written just now"
        return view

    def adjustments_with_new_rows(self, conversion_id: str) -> Sequence[StoredAdjustment]:
        """Return the adjustments of a conversion."""
        self._write_new_rows()
        return self._reader.adjustments_of([conversion_id])

    def reset_times(self, pool_id: str) -> Mapping[str, int]:
        """Return `counted_from_us` of the links of a pool."""
        return self._reader.reset_times(pool_id)

    def _load(self, events: Sequence[Event]) -> None:
        """Load every stored row that an event of the batch names."""
        ledger = self._ledger
        conversion_ids = {
            event.conversion_id
            for event in events
            if isinstance(event, ConversionEvent | AdjustmentEvent)
        }
        adjustment_ids = {
            event.adjustment_id for event in events if isinstance(event, AdjustmentEvent)
        }
        ledger.conversions = self._reader.conversions(conversion_ids)
        ledger.adjustments = self._reader.adjustments(adjustment_ids)
        decision_ids = {
            event.decision_id for event in events if not isinstance(event, AdjustmentEvent)
        } | {conversion.event.decision_id for conversion in ledger.conversions.values()}
        ledger.decisions = self._reader.decisions(decision_ids)
        for click in self._reader.clicks_of(decision_ids):
            ledger.clicks[click_key(click.event)] = click

    def _write_new_rows(self) -> None:
        new, self._ledger.new = self._ledger.new, NewRows()
        self._write("decisions", map(rows.DECISIONS.row, new.decisions))
        self._write("clicks", _event_rows(rows.CLICKS, new.clicks))
        self._write("conversions", _event_rows(rows.CONVERSIONS, new.conversions))
        self._write("adjustments", _event_rows(rows.ADJUSTMENTS, new.adjustments))
        self._write("refusals", map(rows.REFUSALS.row, new.refusals))
        for pool_id, late in new.late.items():
            self._add_counters(pool_id, late)

    def _write(self, table: str, new: Iterable[rows.Row]) -> None:
        """Write in few statements: Python may switch threads after each, which costs time.

        A statement takes a fixed number of rows. When there are fewer, the last row is repeated;
        the copies conflict with it and are ignored.
        """
        by_size = statements.INSERT_MANY[table]
        rest = list(new)
        while rest:
            many, rest = rest[: max(by_size)], rest[max(by_size) :]
            n_rows = next(n for n in by_size if n >= len(many))
            many += many[-1:] * (n_rows - len(many))
            self._connection.execute(by_size[n_rows], tuple(chain.from_iterable(many)))

    def _add_counters(self, pool_id: str, increment: Counters, prefix: str = "") -> None:
        self._connection.executemany(
            statements.ADD_COUNTERS[f"{prefix}link_counters"],
            [
                (pool_id, link_id, group, *_sums(counters))
                for (group, link_id), counters in increment.links.items()
            ],
        )
        self._connection.executemany(
            statements.ADD_COUNTERS[f"{prefix}page_counters"],
            [(pool_id, group, *_sums(page)) for group, page in increment.pages.items()],
        )

    def _save_links(self, operation: SaveLinks) -> list[LinkRecord]:
        # Late feedback that came before a reset must be counted before it, not after.
        self._write_new_rows()
        saved = []
        known: dict[str, dict[str, LinkRecord]] = {}
        for link in operation.links:
            if link.pool_id not in known:
                stored = self._reader.links(link.pool_id)
                known[link.pool_id] = {item.link_id: item for item in stored}
            links = known[link.pool_id]
            before = links.get(link.link_id)
            placed = replace(link, place=len(links) if before is None else before.place)
            links[link.link_id] = placed
            saved.append(placed)
            self._connection.execute(statements.UPSERT["links"], rows.LINKS.row(placed))
            if link.link_id in operation.reset:
                for statement in statements.RESET_COUNTERS:
                    self._connection.execute(statement, (link.pool_id, link.link_id))
        self._n_resets += bool(operation.reset)
        self._connection.executemany(
            statements.INSERT_CHANGE, map(rows.CHANGES.row, operation.changes)
        )
        return saved

    def _apply_fold(self, operation: ApplyFold) -> bool:
        key = (operation.pool_id, operation.level)
        position = self._reader.fold_positions().get(key, FOLD_START)
        if (position, self._n_resets) != (operation.after, operation.n_resets):
            return False
        row = (*key, operation.until.closes_us, operation.until.decision_id)
        self._connection.execute(statements.UPSERT["fold_positions"], row)
        self._add_counters(operation.pool_id, operation.increment)
        return True

    def _forget(self, operation: ForgetViews) -> int:
        self._write_new_rows()
        n_forgotten = 0
        for forgotten in list(views_to_forget(self._reader, operation)):
            n_forgotten += len(forgotten.decision_ids)
            less = subtract_counters(Counters(), forgotten.counted)
            self._add_counters(forgotten.pool_id, less)
            self._connection.execute(statements.FORGET_STATE, (forgotten.pool_id,))
        forgotten_by = (operation.key_id, operation.since_us)
        self._connection.execute(statements.FORGET_VIEWS, forgotten_by)
        self._n_resets += 1
        self._connection.execute(statements.INSERT_CHANGE, rows.CHANGES.row(operation.change))
        return n_forgotten

    def _purge(self, operation: PurgeViews) -> int:
        self._write_new_rows()
        pool_id, before_us, limit = operation.pool_id, operation.before_us, operation.limit
        views = self._reader.purgeable_views(pool_id, before_us, limit)
        share = count_purged(views, self._reader.reset_times(pool_id))
        self._add_counters(pool_id, share, "purged_")
        ids = msgspec.json.encode([view.decision.decision_id for view in views]).decode()
        for statement in statements.PURGE:
            self._connection.execute(statement, {"ids": ids})
        waiting = {"before_us": before_us, "n_rows": limit}
        n_waiting = sum(
            self._connection.execute(statement, waiting).rowcount
            for statement in statements.PURGE_WAITING
        )
        return len(views) + n_waiting


def _sums(counters: LinkCounters | PageCounters) -> tuple[int, ...]:
    return tuple(getattr(counters, name) for name in counters.__struct_fields__)


def _event_rows(
    mapping: rows.Rows[rows.Record], new: Iterable[tuple[rows.Record, bool]]
) -> Iterable[rows.Row]:
    return [(*mapping.row(stored), waited) for stored, waited in new]
