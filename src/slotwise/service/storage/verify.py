"""Recompute every counter from the raw rows and demand equality."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from slotwise.service.counting.counters import add_counters, count_late, count_settled
from slotwise.service.counting.views import (
    CLICKS,
    LEVELS,
    Counters,
    Level,
    LinkCounters,
    PageCounters,
    View,
)
from slotwise.service.storage.commands import (
    FOLD_START,
    FoldPosition,
    Progress,
)
from slotwise.service.storage.contract import Store, StoreReader

__all__ = ["Mismatch", "Verification", "fold_position", "recount", "verify"]

_CHUNK = 5_000


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """A counter that differs from its raw rows."""

    pool_id: str
    group: str
    link_id: str
    """Empty for a counter of pages."""
    counter: str
    stored: int
    recomputed: int

    def __str__(self) -> str:
        """Say where and how much."""
        where = "/".join(part for part in (self.pool_id, self.link_id) if part)
        return (
            f"{where} ({self.group}): {self.counter} is {self.stored}, "
            f"the rows say {self.recomputed}"
        )


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What was looked at, and every difference found."""

    n_pools: int
    n_decisions: int
    n_counters: int
    mismatches: tuple[Mismatch, ...]


def verify(store: Store) -> Verification:
    """Compare all counters of a store with its rows, at one moment; the store may be in use."""
    n_pools = n_decisions = n_counters = 0
    mismatches: list[Mismatch] = []
    with store.reading() as reader:
        progress = reader.progress()
        for pool in reader.pools():
            stored = reader.counters(pool.pool_id)
            recomputed, n_views = recount(reader, pool.pool_id, progress)
            n_pools += 1
            n_decisions += n_views
            for mismatch in _compare(pool.pool_id, stored, recomputed):
                n_counters += 1
                if mismatch.stored != mismatch.recomputed:
                    mismatches.append(mismatch)
    return Verification(
        n_pools=n_pools,
        n_decisions=n_decisions,
        n_counters=n_counters,
        mismatches=tuple(mismatches),
    )


def recount(reader: StoreReader, pool_id: str, progress: Progress) -> tuple[Counters, int]:
    """Return a pool's counters as its raw rows give them, and how many decisions there are."""
    reset_times = reader.reset_times(pool_id)
    counters, n_views = Counters(), 0
    batch = reader.views_after(pool_id, 0, None, 0, _CHUNK)
    while views := batch.views:
        n_views += len(views)
        counters = add_counters(counters, count_late(views, reset_times))
        for level in LEVELS:
            folded_to = progress.folded.get((pool_id, level), FOLD_START)
            settled = [
                view
                for view in views
                if view.decision.learned and fold_position(view, level) <= folded_to
            ]
            counters = add_counters(counters, count_settled(settled, level, reset_times))
        batch = reader.views_after(pool_id, 0, None, batch.last, _CHUNK)
    return counters, n_views


def fold_position(view: View, level: Level) -> FoldPosition:
    """Return the place of a view in the folding order of a level."""
    decision = view.decision
    closes_us = decision.click_closes_us if level == CLICKS else decision.revenue_closes_us
    return FoldPosition(closes_us=closes_us, decision_id=decision.decision_id)


def _compare(pool_id: str, stored: Counters, recomputed: Counters) -> Iterator[Mismatch]:
    """Go through all counters, equal or not."""
    for group, link_id in sorted(stored.links.keys() | recomputed.links.keys()):
        first = stored.links.get((group, link_id), LinkCounters())
        second = recomputed.links.get((group, link_id), LinkCounters())
        for name in LinkCounters.__struct_fields__:
            yield Mismatch(
                pool_id=pool_id,
                group=group,
                link_id=link_id,
                counter=name,
                stored=getattr(first, name),
                recomputed=getattr(second, name),
            )
    for group in sorted(stored.pages.keys() | recomputed.pages.keys()):
        page, recounted = stored.pages.get(group), recomputed.pages.get(group)
        for name in PageCounters.__struct_fields__:
            yield Mismatch(
                pool_id=pool_id,
                group=group,
                link_id="",
                counter=name,
                stored=getattr(page or PageCounters(), name),
                recomputed=getattr(recounted or PageCounters(), name),
            )
