"""One group commit on an SQL engine: load the rows a batch refers to, judge it, write it.

Used by `postgresql` and `sqlite`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from msgspec.structs import astuple, replace
from sqlalchemy import Table

from slotwise.errors import InvalidInput
from slotwise.service.counting.attribution import (
    CLICKS,
    FOLD_START,
    LEVELS,
    Counters,
    fold_position,
)
from slotwise.service.counting.counters import (
    add_counters,
    compared_since,
    count_purged,
    count_settled,
)
from slotwise.service.records import AdjustmentEvent, ConversionEvent, LinkRecord
from slotwise.service.refusals import Superseded
from slotwise.service.storage import contract, schema
from slotwise.service.storage.ledger import Ledger, NewRows, click_key
from slotwise.service.storage.sql_reads import SqlSession, StoreReader, still_waiting

_CHUNK = 5_000


class Forgotten(NamedTuple):
    """The views of one pool that are excluded from all counts."""

    pool_id: str
    decision_ids: list[str]
    counted: Counters
    """What they have added to the counters, except for late feedback."""


def views_to_forget(reader: StoreReader, operation: contract.ForgetViews) -> Iterator[Forgotten]:
    """Yield the views to exclude, pool by pool."""
    folded = reader.progress().folded
    for pool_id in [pool.pool_id for pool in reader.pools()]:
        reset_times = reader.reset_times(pool_id)
        stored = reader.counters(pool_id)
        floors, compared_us = stored.delivered.keys(), compared_since(stored)
        decision_ids: list[str] = []
        counted, last = Counters(), 0
        while True:
            batch = reader.views_after(pool_id, operation.since_us, None, last, _CHUNK)
            if not batch.views:
                break
            last = batch.last
            found = [
                view
                for view in batch.views
                if view.decision.learned and view.decision.key_id == operation.key_id
            ]
            decision_ids += [view.decision.decision_id for view in found]
            for level in LEVELS:
                until = folded.get((pool_id, level), FOLD_START)
                settled = [view for view in found if fold_position(view, level) <= until]
                more = count_settled(settled, level, reset_times, floors, compared_us)
                counted = add_counters(counted, more)
        if decision_ids:
            yield Forgotten(pool_id, decision_ids, counted)


ROWS_AT_ONCE = 128
"""Rows of one statement."""
_FIRST_POSITION = """
    INSERT INTO fold_positions (pool_id, level, closes_us, decision_id)
    VALUES (:pool_id, :level, :closes_us, :decision_id) ON CONFLICT DO NOTHING
"""
_NEXT_POSITION = """
    UPDATE fold_positions SET closes_us = :closes_us, decision_id = :decision_id
    WHERE pool_id = :pool_id AND level = :level
      AND closes_us = :after_us AND decision_id = :after_id
"""


class SqlBatch:
    """The operations of one transaction; the caller begins and commits it."""

    def __init__(self, session: SqlSession, clock: tuple[int, int, int] | None = None) -> None:
        self._session = session
        self._reader = StoreReader(session)
        closed_until_us, latest_us, self._n_resets = clock or self._reader.clock()
        self._ledger = Ledger(closed_until_us, latest_us, self._reader, self._write_new_rows)

    def apply(self, operations: Sequence[contract.Operation]) -> list[object]:
        """Apply the operations in order and return their results; to be called once.

        Batch and ledger refer to each other. This cycle is broken at the end: otherwise every
        record of the batch would stay in memory until the next garbage collection.
        """
        try:
            return self._apply_all(operations)
        finally:
            self.latest_us = self._ledger.latest_us
            del self._ledger

    def _apply_all(self, operations: Sequence[contract.Operation]) -> list[object]:
        self._load(operations)
        answers = [self._apply(operation) for operation in operations]
        if operations:
            self._write_new_rows()
            self._write_clock()
        return answers

    def _write_clock(self) -> None:
        self._session.execute(
            "UPDATE store_clock SET closed_until_us = :closed_until_us, latest_us = :latest_us, "
            "n_resets = :n_resets",
            closed_until_us=self._ledger.closed_until_us,
            latest_us=self._ledger.latest_us,
            n_resets=self._n_resets,
        )

    def _apply(self, operation: contract.Operation) -> object:
        match operation:
            case contract.AppendDecision():
                self._ledger.append(operation)
            case contract.RecordEvent():
                return self._ledger.record(operation)
            case contract.CloseWindows(until_us=until_us):
                self._ledger.close_windows(until_us)
            case contract.SavePool():
                return self._save_pool(operation)
            case contract.SaveLinks():
                return self._save_links(operation)
            case contract.SaveKey(key=key, change=change):
                self._session.upsert(schema.keys, [schema.KEYS.row(key)])
                self._session.insert(schema.changes, [schema.CHANGES.row(change)])
            case contract.SaveChange(change=change):
                self._session.insert(schema.changes, [schema.CHANGES.row(change)])
            case contract.EndSession(session_id=session_id, ends_us=ends_us, now_us=now_us):
                ended = "DELETE FROM ended_sessions WHERE ends_us <= :now_us"
                self._session.execute(ended, now_us=now_us)
                self._session.insert(schema.ended_sessions, [(session_id, ends_us)])
            case contract.ApplyFold():
                return self._apply_fold(operation)
            case contract.ForgetViews():
                return self._forget(operation)
            case contract.ExcludeViews():
                return self._exclude(operation)
            case contract.PurgeViews():
                return self._purge(operation)
            case contract.SaveLearned(learned=learned):
                return self._save_learned(learned)
            case _:
                raise InvalidInput.of("operations", "operations of a store", operation)
        return None

    def _load(self, operations: Sequence[contract.Operation]) -> None:
        """Load every stored row that an event of the batch refers to."""
        events = [item.event for item in operations if isinstance(item, contract.RecordEvent)]
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
        self._write(schema.decisions, map(schema.DECISIONS.row, new.decisions))
        self._write(schema.clicks, _event_rows(schema.CLICKS, new.clicks))
        self._write(schema.conversions, _event_rows(schema.CONVERSIONS, new.conversions))
        self._write(schema.adjustments, _event_rows(schema.ADJUSTMENTS, new.adjustments))
        self._write(schema.refusals, list(map(schema.REFUSALS.row, new.refusals)))
        for pool_id, late in new.late.items():
            self.add_counters(pool_id, late)

    def _write(self, table: Table, new: Iterable[schema.Row]) -> None:
        """Write rows in several statements, so that other threads can run between them."""
        rest = iter(new)
        while some := list(islice(rest, ROWS_AT_ONCE)):
            self._session.insert(table, some)

    def add_counters(self, pool_id: str, increment: Counters, prefix: str = "") -> None:
        """Add to the counters of a pool; the prefix of their tables may be `purged_`."""
        for field, of in schema.COUNTED.items():
            counted = getattr(increment, field).items()
            rows = [
                (pool_id, *schema.counter_columns(field, key), *astuple(sums))
                for key, sums in counted
            ]
            # Sorted: transactions that lock the same rows must do so in the same order.
            self._session.add(schema.metadata.tables[f"{prefix}{of}_counters"], sorted(rows))

    def _drop(self, counters: str, **key: object) -> None:
        """Delete the counters of a key, and what purged views had added to them."""
        where = " AND ".join(f"{name} = :{name}" for name in key)
        for name in (counters, f"purged_{counters}"):
            self._session.execute(f"DELETE FROM {name} WHERE {where}", **key)

    def _save_learned(self, learned: contract.Learned) -> bool:
        # A learner that was suspended must not replace a version that another one published, and
        # what was learned before a reset must not come back.
        newer = "WHERE learned.version <= excluded.version AND learned.n_resets = excluded.n_resets"
        if self._session.upsert(schema.learned, [schema.LEARNED.row(learned)], newer):
            return True
        if self._reader.pool_resets()[learned.pool_id] != learned.n_resets:
            return False
        raise Superseded(f"pool {learned.pool_id} has a newer version than {learned.version}")

    def _save_pool(self, operation: contract.SavePool) -> bool:
        pool, after_us = operation.pool, operation.after_us
        if after_us is not None and self._reader.pool_revision(pool.pool_id) != after_us:
            return False
        self._session.upsert(schema.pools, [schema.POOLS.row(pool)])
        self._session.insert(schema.changes, [schema.CHANGES.row(operation.change)])
        return True

    def _save_links(self, operation: contract.SaveLinks) -> list[LinkRecord] | bool:
        # Late feedback that arrived before a reset must be counted before it, not after.
        self._write_new_rows()
        saved = []
        places: dict[str, dict[str, int]] = {}
        n_links: dict[str, int] = {}
        revisions: dict[tuple[str, str], int] = {}
        for pool_id in {link.pool_id for link in operation.links}:
            named = {link.link_id for link in operation.links if link.pool_id == pool_id}
            stored = self._reader.places(pool_id, named)
            revisions |= {(pool_id, one): changed_us for one, (_, changed_us) in stored.items()}
            places[pool_id] = {link_id: place for link_id, (place, _) in stored.items()}
            n_links[pool_id] = self._reader.n_links(pool_id)
        expected = (revisions.get((link.pool_id, link.link_id), 0) for link in operation.links)
        if operation.after_us is not None and tuple(expected) != operation.after_us:
            return False
        for link in operation.links:
            of_pool = places[link.pool_id]
            if link.link_id not in of_pool:
                of_pool[link.link_id] = n_links[link.pool_id]
                n_links[link.pool_id] += 1
            saved.append(replace(link, place=of_pool[link.link_id]))
            if link.link_id in operation.reset:
                self._drop("link_counters", pool_id=link.pool_id, link_id=link.link_id)
        last = {(link.pool_id, link.link_id): link for link in saved}
        self._session.upsert(schema.links, [schema.LINKS.row(link) for link in last.values()])
        if operation.reset:
            self._n_resets += 1
            for pool_id in places:
                left = {link.link_id for link in self._reader.links(pool_id) if not link.retired}
                self._note_reset(pool_id, loses_state=left <= set(operation.reset))
        self._session.insert(schema.changes, list(map(schema.CHANGES.row, operation.changes)))
        return saved

    def _apply_fold(self, operation: contract.ApplyFold) -> bool:
        if not self._move_position(operation):
            return False
        if operation.level == CLICKS:
            stored = self._reader.counters(operation.pool_id).delivered
            for key in stored.keys() - operation.increment.delivered.keys():
                names = ("feature", "value", "click_floor", "slots", "since_us")
                named = dict(zip(names, key, strict=True))
                self._drop("floor_counters", pool_id=operation.pool_id, **named)
        for name in ("share_counters", "purged_share_counters"):
            sql = f"DELETE FROM {name} WHERE pool_id = :pool_id AND since_us <> :since_us"
            pool_id, since_us = operation.pool_id, operation.compared_us
            self._session.execute(sql, pool_id=pool_id, since_us=since_us)
        self.add_counters(operation.pool_id, operation.increment)
        return True

    def _move_position(self, operation: contract.ApplyFold) -> bool:
        """Move the position of a level, unless it moved or statistics were reset meanwhile."""
        if self._n_resets != operation.n_resets:
            return False
        n_moved = self._session.execute(
            _FIRST_POSITION if operation.after == FOLD_START else _NEXT_POSITION,
            pool_id=operation.pool_id,
            level=operation.level,
            closes_us=operation.until.closes_us,
            decision_id=operation.until.decision_id,
            after_us=operation.after.closes_us,
            after_id=operation.after.decision_id,
        )
        return bool(n_moved)

    def _forget(self, operation: contract.ForgetViews) -> int:
        self._write_new_rows()
        n_forgotten = 0
        for forgotten in list(views_to_forget(self._reader, operation)):
            n_forgotten += len(forgotten.decision_ids)
            less = add_counters(Counters(), forgotten.counted, -1)
            self.add_counters(forgotten.pool_id, less)
            self._note_reset(forgotten.pool_id, loses_state=True)
        self._session.execute(
            "UPDATE decisions SET learned = false "
            "WHERE key_id = :by_key AND issued_us >= :since_us AND learned",
            by_key=operation.key_id,
            since_us=operation.since_us,
        )
        self._n_resets += bool(n_forgotten)
        self._session.insert(schema.changes, [schema.CHANGES.row(operation.change)])
        return n_forgotten

    def _exclude(self, operation: contract.ExcludeViews) -> int:
        self._write_new_rows()
        since_us = max(operation.from_us, self._ledger.closed_until_us + 1)
        return sum(
            self._session.execute(
                "UPDATE decisions SET learned = false WHERE pool_id = :pool_id "
                "AND click_closes_us >= :since_us AND issued_us <= :until_us AND learned",
                pool_id=pool.pool_id,
                since_us=since_us,
                until_us=operation.until_us,
            )
            for pool in self._reader.pools()
        )

    def _note_reset(self, pool_id: str, *, loses_state: bool) -> None:
        """Let the process that learns load a pool again; without a state it replays the rows."""
        sql = "UPDATE learned SET n_resets = n_resets + 1"
        if loses_state:
            sql += ", state = :nothing, needs_rows_us = 0"
        self._session.execute(f"{sql} WHERE pool_id = :pool_id", nothing=b"", pool_id=pool_id)

    def _purge(self, operation: contract.PurgeViews) -> int:
        self._write_new_rows()
        pool_id, before_us, limit = operation.pool_id, operation.before_us, operation.limit
        views = self._reader.purgeable_views(pool_id, before_us, limit)
        stored = self._reader.counters(pool_id)
        counted = (stored.delivered.keys(), compared_since(stored))
        share = count_purged(views, self._reader.reset_times(pool_id), *counted)
        self.add_counters(pool_id, share, "purged_")
        ids = self._session.listed([view.decision.decision_id for view in views])
        sold = "SELECT conversion_id FROM conversions WHERE decision_id {listed}"
        self._session.execute(f"DELETE FROM adjustments WHERE conversion_id IN ({sold})", ids=ids)
        for name in ("conversions", "clicks", "refusals", "decisions"):
            self._session.execute(f"DELETE FROM {name} WHERE decision_id {{listed}}", ids=ids)
        n_waiting = 0
        for name in ("adjustments", "conversions", "clicks"):
            waiting = f"SELECT e.{{row_id}} {still_waiting(name)} AND e.received_us < :before_us"
            sql = f"DELETE FROM {name} WHERE {{row_id}} IN ({waiting} LIMIT :n_rows)"
            n_waiting += self._session.execute(sql, before_us=before_us, n_rows=limit)
        return len(views) + n_waiting


def _event_rows(
    mapping: schema.TableRows[schema.Record], new: Iterable[tuple[schema.Record, bool]]
) -> list[schema.Row]:
    return [(*mapping.row(stored), waited) for stored, waited in new]
