"""Recompute every counter from the raw rows and compare.

Used by `backup`, `cli` and `move_store`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import msgspec

from slotwise.service.counting.attribution import (
    FOLD_START,
    LEVELS,
    Counters,
    fold_position,
)
from slotwise.service.counting.counters import (
    add_counters,
    compared_since,
    count_late,
    count_settled,
)
from slotwise.service.storage.contract import Progress, ReadableStore
from slotwise.service.storage.schema import COUNTED, counter_columns
from slotwise.service.storage.sql_reads import StoreReader

_CHUNK = 20_000
_MAX_TRIES = 2

Reading = Callable[[], AbstractContextManager[StoreReader]]


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """A counter that differs from its raw rows."""

    pool_id: str
    group: str
    link_id: str
    """Empty for a counter of pages; feature and value for one of visitors."""
    counter: str
    stored: int
    recomputed: int

    def __str__(self) -> str:
        """Return the counter and both numbers as text."""
        where = "/".join(part for part in (self.pool_id, self.link_id) if part)
        return (
            f"{where} ({self.group}): {self.counter} is {self.stored}, "
            f"the rows say {self.recomputed}"
        )


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What was compared, and every difference found."""

    n_pools: int
    n_decisions: int
    n_counters: int
    mismatches: tuple[Mismatch, ...]
    damage: str = ""
    """What the database finds wrong with its own files."""


class _Moment(NamedTuple):
    """The counters of a pool, and all related data that later commits can change."""

    pool_id: str
    stored: Counters
    purged: Counters
    late: Counters
    progress: Progress
    reset_times: dict[str, int]

    def is_still(self, later: StoreReader) -> bool:
        """Return whether no statistics were reset and no views purged since."""
        n_resets = later.progress().n_resets
        return n_resets == self.progress.n_resets and later.purged(self.pool_id) == self.purged


def verify(store: ReadableStore) -> Verification:
    """Compare all counters of a store with its rows; the store may be in use.

    Counters, positions and late feedback are read in one snapshot. The folded views are read later,
    some at a time: their windows are closed, so their counts stay the same. If statistics are reset
    or views purged meanwhile, the comparison is repeated, the last time with all reads in one
    snapshot.
    """
    for _ in range(_MAX_TRIES):
        with store.reading() as reader:
            damage = reader.damage()
            moments = [_moment(reader, pool.pool_id) for pool in reader.pools()]
        found = _comparison(store.reading, moments, damage)
        with store.reading() as reader:
            if all(moment.is_still(reader) for moment in moments):
                return found
    with store.reading() as reader:
        moments = [_moment(reader, pool.pool_id) for pool in reader.pools()]
        return _comparison(lambda: nullcontext(reader), moments, damage)


def _moment(reader: StoreReader, pool_id: str) -> _Moment:
    reset_times = reader.reset_times(pool_id)
    late = Counters()
    for views in reader.late_views(pool_id):
        late = add_counters(late, count_late(views, reset_times))
    stored, purged = reader.counters(pool_id), reader.purged(pool_id)
    return _Moment(pool_id, stored, purged, late, reader.progress(), reset_times)


def _comparison(reading: Reading, moments: Sequence[_Moment], damage: str) -> Verification:
    n_decisions, compared = 0, []
    for moment in moments:
        recounted, n_views = _recount(reading, moment)
        n_decisions += n_views
        compared += list(_compare(moment.pool_id, moment.stored, recounted))
    return Verification(
        n_pools=len(moments),
        n_decisions=n_decisions,
        n_counters=len(compared),
        mismatches=tuple(item for item in compared if item.stored != item.recomputed),
        damage=damage,
    )


def _recount(reading: Reading, moment: _Moment) -> tuple[Counters, int]:
    """Return a pool's counters recomputed from its raw rows, and the number of decisions."""
    counters, n_views, last = add_counters(moment.purged, moment.late), 0, 0
    while True:
        with reading() as reader:
            batch = reader.views_after(moment.pool_id, 0, None, last, _CHUNK)
        if not batch.views:
            return counters, n_views
        last = batch.last
        n_views += len(batch.views)
        for level in LEVELS:
            folded_to = moment.progress.folded.get((moment.pool_id, level), FOLD_START)
            settled = [
                view
                for view in batch.views
                if view.decision.learned and fold_position(view, level) <= folded_to
            ]
            floors = moment.stored.delivered
            since_us = compared_since(moment.stored)
            counted = count_settled(settled, level, moment.reset_times, floors, since_us)
            counters = add_counters(counters, counted)


def _compare(pool_id: str, stored: Counters, recomputed: Counters) -> Iterator[Mismatch]:
    """Yield all counters, equal or not."""
    for field in COUNTED:
        ours, theirs = getattr(stored, field), getattr(recomputed, field)
        for key in sorted(ours.keys() | theirs.keys()):
            first, second = ours.get(key), theirs.get(key)
            group, place = _place(field, *counter_columns(field, key))
            for name in (first or second).__struct_fields__:
                yield Mismatch(
                    pool_id=pool_id,
                    group=group,
                    link_id=place,
                    counter=name,
                    stored=getattr(first, name, 0),
                    recomputed=getattr(second, name, 0),
                )


def _place(field: str, *columns: Any) -> tuple[str, str]:
    """Return the group of a counter, and its link or visitors."""
    if field == "delivered":
        feature, value, clicks, *_ = columns
        visitors = f"{feature}={value} " if feature else ""
        return "policy", f"{visitors}under the floor {clicks:g}"
    if field == "compared":
        _, chosen, own, group = columns
        return group, f"with {chosen:g} chosen and {own:g} own pages"
    *names, group = columns
    return group, "=".join(names)
