"""One group commit on PostgreSQL, beside those of other replicas.

Decisions, events and folds are written under a shared lock of the store, everything else under the
exclusive one. So nothing that is judged by the closed windows, the settings or the resets can
change before its commit, and writers do not wait for each other. Two things cannot be judged
beside other writers, and are judged again under the exclusive lock:

- an event whose decision or conversion is not stored: another replica may be writing it just now
- a row that another replica stored first: the insert found it, the judgement had not
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import Table

from slotwise.service.errors import Superseded
from slotwise.service.storage import rows, schema
from slotwise.service.storage.commands import (
    FOLD_START,
    AppendDecision,
    ApplyFold,
    CloseWindows,
    ForgetViews,
    Learned,
    Operation,
    PurgeViews,
    SaveChange,
    SaveKey,
    SaveLearned,
    SaveLinks,
    SavePool,
)
from slotwise.service.storage.postgresql.session import PostgresqlSession
from slotwise.service.storage.sql.batch import SqlBatch

__all__ = ["CHANNEL", "Clock", "Outrun", "PostgresqlBatch", "needs_exclusive"]

CHANNEL = "slotwise"
"""Notifications that a pool, a key or a version has changed."""

_ALONE = (SavePool, SaveLinks, SaveKey, SaveChange, CloseWindows, ForgetViews, PurgeViews)
_LEARNING = (CloseWindows, ApplyFold, PurgeViews, SaveLearned)
_TOLD = (SavePool, SaveLinks, SaveKey, SaveChange, ForgetViews, SaveLearned)
_KEYS = {
    table.name: [
        place for place, name in enumerate(rows.row_columns(table)) if table.c[name].primary_key
    ]
    for table in (schema.clicks, schema.conversions, schema.adjustments, schema.refusals)
}
_FIRST_POSITION = """
    INSERT INTO fold_positions (pool_id, level, closes_us, decision_id)
    VALUES (%(pool_id)s, %(level)s, %(closes_us)s, %(decision_id)s) ON CONFLICT DO NOTHING
"""
_NEXT_POSITION = """
    UPDATE fold_positions SET closes_us = %(closes_us)s, decision_id = %(decision_id)s
    WHERE pool_id = %(pool_id)s AND level = %(level)s
      AND closes_us = %(after_us)s AND decision_id = %(after_id)s
"""


class Outrun(Exception):
    """Another replica was faster: judge again, alone."""


class Clock(NamedTuple):
    """The row of `store_clock` as a transaction found it."""

    closed_until_us: int
    latest_us: int
    n_resets: int
    learner_epoch: int


def needs_exclusive(operations: Sequence[Operation]) -> bool:
    """Say whether no other replica may write meanwhile."""
    return any(isinstance(operation, _ALONE) for operation in operations)


class PostgresqlBatch(SqlBatch):
    """The operations of one transaction; the caller begins it, takes the lock and commits."""

    _session: PostgresqlSession

    def __init__(
        self, session: PostgresqlSession, clock: Clock, exclusive: bool, learner_epoch: int | None
    ) -> None:
        super().__init__(session, clock[:3])
        self._exclusive = exclusive
        self._superseded = learner_epoch not in (None, clock.learner_epoch)

    def _apply_all(self, operations: Sequence[Operation]) -> list[object]:
        answers = super()._apply_all(operations)
        if any(isinstance(operation, _TOLD) for operation in operations):
            self._session.fetch(f"SELECT pg_notify('{CHANNEL}', '')")
        return answers

    def _apply(self, operation: Operation) -> object:
        if self._superseded and isinstance(operation, _LEARNING):
            raise Superseded("another replica learns since; this one must read the store again")
        return super()._apply(operation)

    def _load(self, operations: Sequence[Operation]) -> None:
        super()._load(operations)
        if self._exclusive:
            appended = [
                item.decision.decision_id for item in operations if isinstance(item, AppendDecision)
            ]
            self._ledger.decisions |= self._reader.decisions(appended)

    def _write(self, table: Table, new: Iterable[rows.Row]) -> None:
        new = list(new)
        if not new:
            return
        if table is not schema.decisions:
            # In one order, so that two replicas with the same rows do not wait for each other.
            places = _KEYS[table.name]
            new = sorted(new, key=lambda row: [row[place] for place in places])
            if "waited" in table.c and not self._exclusive and any(row[-1] for row in new):
                raise Outrun
        if self._session.insert(table, new) < len(new) and table is not schema.refusals:
            raise Outrun

    def _write_clock(self) -> None:
        # Everybody reads this row and only few transactions change it, or all would wait for it.
        if self._exclusive:
            super()._write_clock()

    def _save_learned(self, learned: Learned) -> None:
        if not self._session.upsert(schema.learned, [rows.LEARNED.row(learned)]):
            raise Superseded(f"pool {learned.pool_id} has a newer version than {learned.version}")

    def _move_position(self, operation: ApplyFold) -> bool:
        if self._n_resets != operation.n_resets:
            return False
        is_first = operation.after == FOLD_START
        n_moved = self._session.execute(
            _FIRST_POSITION if is_first else _NEXT_POSITION,
            pool_id=operation.pool_id,
            level=operation.level,
            closes_us=operation.until.closes_us,
            decision_id=operation.until.decision_id,
            after_us=operation.after.closes_us,
            after_id=operation.after.decision_id,
        )
        return bool(n_moved)
