"""Drop raw rows that are no longer needed, in small steps; the counters stay."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from slotwise.service.storage.commands import Operation, PurgeViews
from slotwise.service.storage.contract import StoreReader

__all__ = ["MAX_STEPS", "STEP", "purge"]

STEP = 500
"""Views of one commit: bounds how long other writes wait for it."""
MAX_STEPS = 100
"""Commits for one pool at once: the rest goes the next time."""


def purge(
    reading: Callable[[], AbstractContextManager[StoreReader]],
    commit: Callable[[Operation], object],
    before_us: int,
    max_steps: int = MAX_STEPS,
) -> int:
    """Drop what closed before a time, at most `max_steps` commits for each pool.

    Returns how many views and waiting events went.
    """
    with reading() as reader:
        pool_ids = [pool.pool_id for pool in reader.pools()]
    n_purged = 0
    for pool_id in pool_ids:
        for _ in range(max_steps):
            answer = commit(PurgeViews(pool_id=pool_id, before_us=before_us, limit=STEP))
            assert isinstance(answer, int)
            n_purged += answer
            if answer < STEP:
                break
    return n_purged
