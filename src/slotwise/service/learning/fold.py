"""Fold closed windows into the counters and feed them to the policy: once, in a fixed order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from slotwise.service.counting.counters import count_settled
from slotwise.service.counting.views import CLICKS, LEVELS, Level, View
from slotwise.service.learning.pool_run import PoolRun
from slotwise.service.learning.replay import Round, latest_round, settled_rounds, starts_after
from slotwise.service.storage.commands import FOLD_START, ApplyFold, FoldPosition, Progress
from slotwise.service.storage.contract import Store
from slotwise.service.storage.group_commit import GroupCommitter

__all__ = ["MAX_FED_ROUNDS", "feed_missing", "fold_pool"]

FOLD_SIZE = 1_000
"""Rounds of one fold: bounds how long the writing thread is busy with it, and how long requests
wait while its rows are freed."""
MAX_FED_ROUNDS = 20_000
"""Rounds fed to a policy before the next version: a long replay publishes as it goes."""


def fold_pool(
    store: Store, committer: GroupCommitter, run: PoolRun, progress: Progress, *, feeds: bool
) -> int:
    """Fold everything of a pool that closed by `progress.closed_until_us`.

    Returns how many rounds were folded. If `feeds`, a policy that was fed everything before them
    is fed them as well; otherwise `feed_missing` does so later. A fold that a reset of statistics
    overtook is refused by the store and left for the next time.
    """
    pool_id = run.pool_id
    folded = {level: progress.folded.get((pool_id, level), FOLD_START) for level in LEVELS}
    rounds = settled_rounds(store, pool_id, folded, progress.closed_until_us)
    n_folded = 0
    while batch := list(islice(rounds, FOLD_SIZE)):
        with store.reading() as reader:
            # Read after `n_resets` was: at worst newer than it, and then the fold is refused.
            reset_times = reader.reset_times(pool_id)
        by_level = _by_level(batch)
        folds = [
            ApplyFold(
                pool_id=pool_id,
                level=level,
                after=folded[level],
                until=_until(of_level),
                n_resets=progress.n_resets,
                increment=count_settled(_views(of_level), level, reset_times),
            )
            for level, of_level in by_level.items()
        ]
        if not all(committer.commit(folds)):
            break
        if feeds:
            run.feed(batch, after=latest_round(folded))
        for fold in folds:
            if fold.level == CLICKS:
                run.count_delivered(_views(by_level[CLICKS]), fold.increment)
        folded |= {fold.level: fold.until for fold in folds}
        n_folded += len(batch)
    return n_folded


def feed_missing(store: Store, run: PoolRun, until_us: int) -> int:
    """Feed the policy the rounds it has not seen yet; return how many it took.

    That is the whole log for another policy, and after a restart what came after its state was
    stored.
    """
    if not run.needs_rounds():
        return 0
    fed_to = run.fed_to
    missing = settled_rounds(store, run.pool_id, starts_after(fed_to), until_us)
    rounds, n_fed = islice(missing, MAX_FED_ROUNDS), 0
    while batch := list(islice(rounds, FOLD_SIZE)):
        if not run.feed(batch, after=fed_to):
            break
        fed_to = batch[-1].position
        n_fed += len(batch)
    return n_fed


def _by_level(batch: Sequence[Round]) -> Mapping[Level, list[Round]]:
    levels: dict[Level, list[Round]] = {}
    for one in batch:
        levels.setdefault(one.position.level, []).append(one)
    return levels


def _views(rounds: Sequence[Round]) -> list[View]:
    return [one.view for one in rounds]


def _until(of_level: Sequence[Round]) -> FoldPosition:
    last = of_level[-1].position
    return FoldPosition(closes_us=last.closes_us, decision_id=last.decision_id)
