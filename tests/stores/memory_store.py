"""A store in dictionaries: for tests, and to read what a store does without SQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import RLock

from msgspec.structs import replace

from slotwise.errors import InvalidInput
from slotwise.service.counting.attribution import (
    CLICKS,
    FOLD_START,
    Counters,
    StoredAdjustment,
    View,
)
from slotwise.service.counting.counters import add_counters, compared_since, count_purged
from slotwise.service.records import LinkRecord
from slotwise.service.storage.contract import (
    AppendDecision,
    ApplyFold,
    CloseWindows,
    EndSession,
    ExcludeViews,
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
from slotwise.service.storage.ledger import Ledger, NewRows, click_key
from slotwise.service.storage.sql_batch import views_to_forget
from slotwise.service.storage.sql_reads import StoreReader
from tests.stores.memory_reads import MemoryReader, Tables


class MemoryStore:
    """Keeps every row in a dictionary under one lock; durable as long as the object lives."""

    sharing = None

    def __init__(self) -> None:
        self._lock = RLock()
        self._tables = Tables()

    def commit(self, operations: Sequence[Operation]) -> list[object]:
        """Apply all operations; once they are operations, nothing in them can fail halfway."""
        for operation in operations:
            if not isinstance(operation, Operation):
                raise InvalidInput.of("operations", "operations of a store", operation)
        with self._lock:
            batch = _Batch(self._tables)
            return [batch.apply(operation) for operation in operations]

    @contextmanager
    def reading(self) -> Iterator[StoreReader]:
        """Hold back every commit while reading."""
        with self._lock:
            yield MemoryReader(self._tables)

    def close(self) -> None:
        """Keep everything: there is nothing to release."""


class _Batch:
    """One commit. The ledger adds to the store's own dictionaries; the rest is indexed here."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._reader = MemoryReader(tables)
        self._ledger = Ledger(
            tables.closed_until_us, tables.latest_us, self._reader, self._index_new_rows
        )
        self._ledger.decisions = tables.decisions
        self._ledger.clicks = tables.clicks
        self._ledger.conversions = tables.conversions
        self._ledger.adjustments = tables.adjustments

    def apply(self, operation: Operation) -> object:
        tables, ledger = self._tables, self._ledger
        answer: object = None
        match operation:
            case AppendDecision():
                ledger.append(operation)
            case RecordEvent():
                answer = ledger.record(operation)
            case CloseWindows(until_us=until_us):
                ledger.close_windows(until_us)
            case SavePool(pool=pool, change=change, after_us=after_us):
                known = tables.pools.get(pool.pool_id)
                answer = after_us in (None, 0 if known is None else known.changed_us)
                if answer:
                    tables.pools[pool.pool_id] = pool
                    tables.changes.append(change)
            case SaveLinks():
                answer = self._save_links(operation)
            case SaveKey(key=key, change=change):
                tables.keys[key.key_id] = key
                tables.changes.append(change)
            case SaveChange(change=change):
                tables.changes.append(change)
            case EndSession(session_id=session_id, ends_us=ends_us, now_us=now_us):
                left = tables.ended_sessions.items()
                tables.ended_sessions = {at: one for at, one in left if one[1] > now_us}
                tables.n_ended += 1
                tables.ended_sessions[tables.n_ended] = (session_id, ends_us)
            case ApplyFold():
                answer = self._apply_fold(operation)
            case ForgetViews():
                answer = self._forget(operation)
            case ExcludeViews(from_us=from_us, until_us=until_us):
                since_us, answer = max(from_us, ledger.closed_until_us + 1), 0
                for decision_id, one in list(tables.decisions.items()):
                    is_open = one.click_closes_us >= since_us and one.issued_us <= until_us
                    if is_open and one.learned:
                        tables.decisions[decision_id] = replace(one, learned=False)
                        answer += 1
            case PurgeViews():
                answer = self._purge(operation)
            case SaveLearned(learned=learned):
                answer = learned.n_resets == self._reader.pool_resets().get(learned.pool_id, 0)
                if answer:
                    tables.learned[learned.pool_id] = learned
        self._index_new_rows()
        return answer

    def _save_links(self, operation: SaveLinks) -> list[LinkRecord] | bool:
        tables = self._tables
        saved = []
        stored = [tables.links[one.pool_id].get(one.link_id) for one in operation.links]
        revisions = tuple(0 if one is None else one.changed_us for one in stored)
        if operation.after_us not in (None, revisions):
            return False
        for link in operation.links:
            links = tables.links[link.pool_id]
            known = links.get(link.link_id)
            place = len(links) if known is None else known.place
            links[link.link_id] = replace(link, place=place)
            saved.append(links[link.link_id])
            if link.link_id in operation.reset:
                _reset(tables.counters, link)
                _reset(tables.purged, link)
        tables.changes.extend(operation.changes)
        if operation.reset:
            tables.n_resets += 1
            for pool_id in {link.pool_id for link in operation.links}:
                links = tables.links[pool_id]
                left = {one for one, link in links.items() if not link.retired}
                self._note_reset(pool_id, loses_state=left <= set(operation.reset))
        return saved

    def _note_reset(self, pool_id: str, *, loses_state: bool) -> None:
        known = self._tables.learned.get(pool_id)
        if known is not None:
            known = replace(known, n_resets=known.n_resets + 1)
            gone = replace(known, state=b"", needs_rows_us=0)
            self._tables.learned[pool_id] = gone if loses_state else known

    def _apply_fold(self, operation: ApplyFold) -> bool:
        tables, key = self._tables, (operation.pool_id, operation.level)
        position = tables.folded.get(key, FOLD_START)
        if (position, tables.n_resets) != (operation.after, operation.n_resets):
            return False
        counters = tables.counters.get(operation.pool_id, Counters())
        if operation.level == CLICKS:
            for kept in (counters, tables.purged.get(operation.pool_id, Counters())):
                for floor in kept.delivered.keys() - operation.increment.delivered.keys():
                    del kept.delivered[floor]
        for kept in (counters, tables.purged.get(operation.pool_id, Counters())):
            for compared in [one for one in kept.compared if one[1] != operation.compared_us]:
                del kept.compared[compared]
        tables.counters[operation.pool_id] = add_counters(counters, operation.increment)
        tables.folded[key] = operation.until
        return True

    def _forget(self, operation: ForgetViews) -> int:
        tables, n_forgotten = self._tables, 0
        for forgotten in list(views_to_forget(self._reader, operation)):
            pool_id = forgotten.pool_id
            n_forgotten += len(forgotten.decision_ids)
            for decision_id in forgotten.decision_ids:
                decision = tables.decisions[decision_id]
                tables.decisions[decision_id] = replace(decision, learned=False)
            counters = tables.counters.get(pool_id, Counters())
            tables.counters[pool_id] = add_counters(counters, forgotten.counted, -1)
            self._note_reset(pool_id, loses_state=True)
        tables.n_resets += bool(n_forgotten)
        tables.changes.append(operation.change)
        return n_forgotten

    def _purge(self, operation: PurgeViews) -> int:
        tables, pool_id = self._tables, operation.pool_id
        views = self._reader.purgeable_views(pool_id, operation.before_us, operation.limit)
        stored = self._reader.counters(pool_id)
        counted = (stored.delivered, compared_since(stored))
        share = count_purged(views, self._reader.reset_times(pool_id), *counted)
        tables.purged[pool_id] = add_counters(tables.purged.get(pool_id, Counters()), share)
        for view in views:
            self._drop(view)
        n_waiting = self._drop_waiting(operation.before_us, operation.limit)
        return len(views) + n_waiting

    def _drop(self, view: View) -> None:
        tables, decision_id = self._tables, view.decision.decision_id
        for key in tables.clicks_of.pop(decision_id, []):
            del tables.clicks[key]
        for conversion_id in tables.conversions_of.pop(decision_id, []):
            del tables.conversions[conversion_id]
            for adjustment_id in tables.adjustments_of.pop(conversion_id, []):
                del tables.adjustments[adjustment_id]
        for refusal in [item for item in tables.refusals if item[0] == decision_id]:
            del tables.refusals[refusal]
        del tables.decisions[decision_id]

    def _drop_waiting(self, before_us: int, limit: int) -> int:
        """Drop events that have waited for their decision since before a time, `limit` a kind."""
        tables = self._tables
        refunds = [
            (adjustment_id, item)
            for adjustment_id, item in tables.adjustments.items()
            if item.received_us < before_us and not self._is_joined(item)
        ]
        sales = [
            (conversion_id, sale)
            for conversion_id, sale in tables.conversions.items()
            if sale.received_us < before_us and sale.event.decision_id not in tables.decisions
        ]
        clicks = [
            (key, click)
            for key, click in tables.clicks.items()
            if click.received_us < before_us and click.event.decision_id not in tables.decisions
        ]
        for adjustment_id, refund in refunds[:limit]:
            del tables.adjustments[adjustment_id]
            tables.adjustments_of[refund.event.conversion_id].remove(adjustment_id)
        for conversion_id, sale in sales[:limit]:
            del tables.conversions[conversion_id]
            tables.conversions_of[sale.event.decision_id].remove(conversion_id)
        for key, click in clicks[:limit]:
            del tables.clicks[key]
            tables.clicks_of[click.event.decision_id].remove(key)
        return sum(min(len(found), limit) for found in (refunds, sales, clicks))

    def _is_joined(self, refund: StoredAdjustment) -> bool:
        sale = self._tables.conversions.get(refund.event.conversion_id)
        return sale is not None and sale.event.decision_id in self._tables.decisions

    def _index_new_rows(self) -> None:
        tables, ledger = self._tables, self._ledger
        new, ledger.new = ledger.new, NewRows()
        tables.stored += [decision.decision_id for decision in new.decisions]
        for click, _ in new.clicks:
            tables.clicks_of[click.event.decision_id].append(click_key(click.event))
        for conversion, _ in new.conversions:
            event = conversion.event
            tables.conversions_of[event.decision_id].append(event.conversion_id)
        for adjustment, _ in new.adjustments:
            refund = adjustment.event
            tables.adjustments_of[refund.conversion_id].append(refund.adjustment_id)
        for item in new.refusals:
            key = (item.decision_id, item.kind, item.event_id, item.reason)
            tables.refusals.setdefault(key, item)
        for pool_id, late in new.late.items():
            counters = tables.counters.get(pool_id, Counters())
            tables.counters[pool_id] = add_counters(counters, late)
        tables.closed_until_us = ledger.closed_until_us
        tables.latest_us = ledger.latest_us


def _reset(counters: dict[str, Counters], link: LinkRecord) -> None:
    """Forget the counters of a link."""
    found = counters.get(link.pool_id)
    if found is not None:
        kept = {key: item for key, item in found.links.items() if key[1] != link.link_id}
        counters[link.pool_id] = replace(found, links=kept)
