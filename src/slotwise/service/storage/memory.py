"""A store in dictionaries: for tests, and to read what a store does without SQL."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock

from msgspec.structs import replace

from slotwise.errors import InvalidInput
from slotwise.service.counting.counters import add_counters
from slotwise.service.counting.views import (
    CLICKS,
    Counters,
    Level,
    StoredAdjustment,
    StoredClick,
    StoredConversion,
    View,
)
from slotwise.service.records import (
    ChangeRecord,
    DecisionRecord,
    KeyRecord,
    LinkRecord,
    PoolSettings,
)
from slotwise.service.storage.activity import Activity, activity_of
from slotwise.service.storage.commands import (
    FOLD_START,
    AppendDecision,
    ApplyFold,
    CloseWindows,
    FoldPosition,
    Learned,
    Operation,
    Progress,
    RecordEvent,
    Refusal,
    SaveKey,
    SaveLearned,
    SaveLinks,
    SavePool,
)
from slotwise.service.storage.contract import StoreReader
from slotwise.service.storage.ledger import ClickKey, Ledger, NewRows, click_key

__all__ = ["MemoryStore"]


class MemoryStore:
    """Keeps every row in a dictionary under one lock; durable as long as the object lives."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._pools: dict[str, PoolSettings] = {}
        self._links: dict[str, dict[str, LinkRecord]] = defaultdict(dict)
        self._keys: dict[str, KeyRecord] = {}
        self._changes: list[ChangeRecord] = []
        self._decisions: dict[str, DecisionRecord] = {}
        self._clicks: dict[ClickKey, StoredClick] = {}
        self._clicks_of: dict[str, list[ClickKey]] = defaultdict(list)
        self._conversions: dict[str, StoredConversion] = {}
        self._conversions_of: dict[str, list[str]] = defaultdict(list)
        self._adjustments: dict[str, StoredAdjustment] = {}
        self._adjustments_of: dict[str, list[str]] = defaultdict(list)
        self._refusals: dict[tuple[str, str, str, str], Refusal] = {}
        self._counters: dict[str, Counters] = {}
        self._learned: dict[str, Learned] = {}
        self._folded: dict[tuple[str, Level], FoldPosition] = {}
        self._closed_until_us = 0
        self._latest_us = 0
        self._n_resets = 0

    # Writes

    def commit(self, operations: Sequence[Operation]) -> list[object]:
        """Apply all operations; once they are operations, nothing in them can fail halfway."""
        for operation in operations:
            if not isinstance(operation, Operation):
                raise InvalidInput.of("operations", "operations of a store", operation)
        with self._lock:
            batch = _Batch(self)
            return [batch.apply(operation) for operation in operations]

    def close(self) -> None:
        """Keep everything: there is nothing to release."""

    def check(self) -> None:
        """Do nothing: memory is always there."""

    @contextmanager
    def reading(self) -> Iterator[StoreReader]:
        """Hold back every commit while reading."""
        with self._lock:
            yield self

    # Reads

    def pools(self) -> list[PoolSettings]:
        """Return every pool, by id."""
        with self._lock:
            return [self._pools[pool_id] for pool_id in sorted(self._pools)]

    def links(self, pool_id: str) -> list[LinkRecord]:
        """Return the links of a pool, by place."""
        with self._lock:
            return sorted(self._links[pool_id].values(), key=lambda link: link.place)

    def reset_times(self, pool_id: str) -> dict[str, int]:
        """Return `counted_from_us` of the links whose statistics were ever reset."""
        with self._lock:
            links = self._links[pool_id].values()
            return {item.link_id: item.counted_from_us for item in links if item.counted_from_us}

    def keys(self) -> list[KeyRecord]:
        """Return every key, by id."""
        with self._lock:
            return [self._keys[key_id] for key_id in sorted(self._keys)]

    def changes(self, subject: str, limit: int) -> list[ChangeRecord]:
        """Return changes of a subject (`home/`: of all below `home`, "": of all), newest first."""
        with self._lock:
            found = [
                item
                for item in reversed(self._changes)
                if subject in ("", item.subject)
                or (subject.endswith("/") and item.subject.startswith(subject))
            ]
            return found[:limit]

    def progress(self) -> Progress:
        """Return how far windows are closed and folded."""
        with self._lock:
            return Progress(
                closed_until_us=self._closed_until_us,
                latest_us=self._latest_us,
                n_resets=self._n_resets,
                folded=dict(self._folded),
            )

    def counters(self, pool_id: str) -> Counters:
        """Return the counters of a pool."""
        with self._lock:
            return self._counters.get(pool_id, Counters())

    def learned(self, pool_id: str) -> Learned | None:
        """Return what the pool published last."""
        with self._lock:
            return self._learned.get(pool_id)

    def decision(self, decision_id: str) -> DecisionRecord | None:
        """Return a decision by its id."""
        with self._lock:
            return self._decisions.get(decision_id)

    def view(self, decision_id: str) -> View | None:
        """Return a decision with what was received for it."""
        with self._lock:
            decision = self._decisions.get(decision_id)
            return None if decision is None else self._view_of(decision)

    def refusals(self, decision_id: str) -> list[Refusal]:
        """Return the events refused for a decision, in order of arrival."""
        with self._lock:
            return [item for item in self._refusals.values() if item.decision_id == decision_id]

    def closed_views(
        self, pool_id: str, level: Level, after: FoldPosition, until_us: int, limit: int
    ) -> list[View]:
        """Return views that learn and closed at this level by `until_us`, in folding order."""
        with self._lock:
            closed = []
            for decision in self._decisions.values():
                if decision.pool_id == pool_id and decision.learned:
                    position = _position(decision, level)
                    if after < position and position.closes_us <= until_us:
                        closed.append((position, decision))
            closed.sort(key=lambda item: item[0])
            return [self._view_of(decision) for _, decision in closed[:limit]]

    def all_views(
        self, pool_id: str, since_us: int, until_us: int | None, chunk: int
    ) -> Iterator[list[View]]:
        """Go through all views issued in [since, until), in the order they were stored."""
        with self._lock:
            found = [
                decision
                for decision in self._decisions.values()
                if decision.pool_id == pool_id
                and decision.issued_us >= since_us
                and (until_us is None or decision.issued_us < until_us)
            ]
        for start in range(0, len(found), chunk):
            with self._lock:
                views = [self._view_of(decision) for decision in found[start : start + chunk]]
            yield views

    def n_quarantined(self) -> int:
        """Count the events that wait for their decision or conversion."""
        with self._lock:
            known = self._decisions
            conversions = self._conversions
            n_clicks = sum(decision_id not in known for decision_id, _, _ in self._clicks)
            n_conversions = sum(
                item.event.decision_id not in known for item in conversions.values()
            )
            n_adjustments = sum(
                item.event.conversion_id not in conversions
                or conversions[item.event.conversion_id].event.decision_id not in known
                for item in self._adjustments.values()
            )
            return n_clicks + n_conversions + n_adjustments

    def activity(self, pool_id: str, since_us: int, span_us: int, closed_until_us: int) -> Activity:
        """Sum up the pages shown since a time; windows after `closed_until_us` are open."""
        with self._lock:
            views = [
                self._view_of(decision)
                for decision in self._decisions.values()
                if decision.pool_id == pool_id
            ]
            n_refusals = Counter(item.decision_id for item in self._refusals.values())
        return activity_of(views, n_refusals, since_us, span_us, closed_until_us)

    def _view_of(self, decision: DecisionRecord) -> View:
        conversion_ids = self._conversions_of.get(decision.decision_id, [])
        return View(
            decision=decision,
            clicks=tuple(
                self._clicks[key] for key in self._clicks_of.get(decision.decision_id, [])
            ),
            conversions=tuple(self._conversions[item] for item in conversion_ids),
            adjustments=tuple(
                self._adjustments[adjustment_id]
                for conversion_id in conversion_ids
                for adjustment_id in self._adjustments_of.get(conversion_id, [])
            ),
        )


def _position(decision: DecisionRecord, level: Level) -> FoldPosition:
    closes_us = decision.click_closes_us if level == CLICKS else decision.revenue_closes_us
    return FoldPosition(closes_us=closes_us, decision_id=decision.decision_id)


class _Batch:
    """One commit. The ledger works on the store's own dictionaries; the rest is indexed here."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._ledger = Ledger(store._closed_until_us, store._latest_us, self)
        self._ledger.decisions = store._decisions
        self._ledger.clicks = store._clicks
        self._ledger.conversions = store._conversions
        self._ledger.adjustments = store._adjustments

    def apply(self, operation: Operation) -> object:
        store, ledger = self._store, self._ledger
        answer: object = None
        match operation:
            case AppendDecision():
                ledger.append(operation)
            case RecordEvent():
                answer = ledger.record(operation)
            case CloseWindows(until_us=until_us):
                ledger.close_windows(until_us)
            case SavePool(pool=pool, change=change):
                store._pools[pool.pool_id] = pool
                store._changes.append(change)
            case SaveLinks():
                answer = self._save_links(operation)
            case SaveKey(key=key, change=change):
                store._keys[key.key_id] = key
                store._changes.append(change)
            case ApplyFold():
                answer = self._apply_fold(operation)
            case SaveLearned(learned=learned):
                store._learned[learned.pool_id] = learned
        self._index_new_rows()
        return answer

    def knows_decision(self, decision_id: str) -> bool:
        return decision_id in self._store._decisions

    def view_with_new_rows(self, decision_id: str) -> View:
        self._index_new_rows()
        return self._store._view_of(self._store._decisions[decision_id])

    def adjustments_with_new_rows(self, conversion_id: str) -> list[StoredAdjustment]:
        self._index_new_rows()
        adjustment_ids = self._store._adjustments_of.get(conversion_id, [])
        return [self._store._adjustments[item] for item in adjustment_ids]

    def reset_times(self, pool_id: str) -> Mapping[str, int]:
        return self._store.reset_times(pool_id)

    def _save_links(self, operation: SaveLinks) -> list[LinkRecord]:
        store = self._store
        saved = []
        for link in operation.links:
            links = store._links[link.pool_id]
            known = links.get(link.link_id)
            place = len(links) if known is None else known.place
            links[link.link_id] = replace(link, place=place)
            saved.append(links[link.link_id])
            if link.link_id in operation.reset and link.pool_id in store._counters:
                counters = store._counters[link.pool_id]
                kept = {key: item for key, item in counters.links.items() if key[1] != link.link_id}
                store._counters[link.pool_id] = replace(counters, links=kept)
        store._changes.extend(operation.changes)
        store._n_resets += bool(operation.reset)
        return saved

    def _apply_fold(self, operation: ApplyFold) -> bool:
        store, key = self._store, (operation.pool_id, operation.level)
        position = store._folded.get(key, FOLD_START)
        if (position, store._n_resets) != (operation.after, operation.n_resets):
            return False
        counters = store._counters.get(operation.pool_id, Counters())
        store._counters[operation.pool_id] = add_counters(counters, operation.increment)
        store._folded[key] = operation.until
        return True

    def _index_new_rows(self) -> None:
        store, ledger = self._store, self._ledger
        new, ledger.new = ledger.new, NewRows()
        for click, _ in new.clicks:
            store._clicks_of[click.event.decision_id].append(click_key(click.event))
        for conversion, _ in new.conversions:
            event = conversion.event
            store._conversions_of[event.decision_id].append(event.conversion_id)
        for adjustment, _ in new.adjustments:
            refund = adjustment.event
            store._adjustments_of[refund.conversion_id].append(refund.adjustment_id)
        for item in new.refusals:
            key = (item.decision_id, item.kind, item.event_id, item.reason)
            store._refusals.setdefault(key, item)
        for pool_id, late in new.late.items():
            counters = store._counters.get(pool_id, Counters())
            store._counters[pool_id] = add_counters(counters, late)
        store._closed_until_us = ledger.closed_until_us
        store._latest_us = ledger.latest_us
