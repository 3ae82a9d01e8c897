"""Which views are to be forgotten, and what they have added to the counters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from slotwise.service.counting.counters import add_counters, count_settled
from slotwise.service.counting.views import LEVELS, Counters
from slotwise.service.storage.commands import FOLD_START, ForgetViews
from slotwise.service.storage.contract import StoreReader
from slotwise.service.storage.verify import fold_position

__all__ = ["Forgotten", "views_to_forget"]

_CHUNK = 5_000


class Forgotten(NamedTuple):
    """The views of one pool that count no more."""

    pool_id: str
    decision_ids: list[str]
    counted: Counters
    """What they have added to the counters; late feedback stays reported."""


def views_to_forget(reader: StoreReader, operation: ForgetViews) -> Iterator[Forgotten]:
    """Go through the pools with views to forget."""
    folded = reader.progress().folded
    for pool_id in [pool.pool_id for pool in reader.pools()]:
        reset_times = reader.reset_times(pool_id)
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
                counted = add_counters(counted, count_settled(settled, level, reset_times))
        if decision_ids:
            yield Forgotten(pool_id, decision_ids, counted)
