"""Fold closed windows into the counters, in a fixed order and exactly once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from slotwise.service.counting.counters import count_settled
from slotwise.service.counting.views import LEVELS, Level
from slotwise.service.learning.policy_run import PolicyRun
from slotwise.service.learning.replay import RoundPosition, settled_rounds
from slotwise.service.storage.commands import FOLD_START, ApplyFold, Operation, Progress
from slotwise.service.storage.contract import Store
from slotwise.service.storage.verify import fold_position

__all__ = ["MAX_FED_ROUNDS", "feed_rounds", "fold_pool"]

FOLD_SIZE = 2_000
"""Views of one fold: bounds how long the writing thread is busy with it."""
MAX_FED_ROUNDS = 20_000
"""Rounds fed to a policy before the next version: a long replay publishes as it goes."""


def fold_pool(
    store: Store,
    commit: Callable[[Operation], object],
    pool_id: str,
    progress: Progress,
) -> int:
    """Fold everything of a pool that closed by `progress.closed_until_us`.

    Returns how many outcomes were folded. A fold that a reset of statistics overtook is
    refused by the store and left for the next time.
    """
    return sum(_fold_level(store, commit, pool_id, level, progress) for level in LEVELS)


def _fold_level(
    store: Store,
    commit: Callable[[Operation], object],
    pool_id: str,
    level: Level,
    progress: Progress,
) -> int:
    position = progress.folded.get((pool_id, level), FOLD_START)
    n_folded = 0
    while True:
        until_us = progress.closed_until_us
        with store.reading() as reader:
            views = reader.closed_views(pool_id, level, position, until_us, FOLD_SIZE)
            # Read after `n_resets` was: at worst newer than it, and then the fold is refused.
            reset_times = reader.reset_times(pool_id)
        if not views:
            return n_folded
        fold = ApplyFold(
            pool_id=pool_id,
            level=level,
            after=position,
            until=fold_position(views[-1], level),
            n_resets=progress.n_resets,
            increment=count_settled(views, level, reset_times),
        )
        if not commit(fold):
            return n_folded
        position = fold.until
        n_folded += len(views)


def feed_rounds(
    store: Store, run: PolicyRun, pool_id: str, after: RoundPosition, until_us: int
) -> tuple[RoundPosition, int]:
    """Feed the next settled outcomes to a policy; return how far it came and how many it took."""
    n_fed = 0
    for position, view in islice(settled_rounds(store, pool_id, after, until_us), MAX_FED_ROUNDS):
        run.learn_view(view, position.level)
        after = position
        n_fed += 1
    return after, n_fed
