"""Learn: close windows, fold them, feed the policies and publish the next versions.

Used by `service`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from threading import Event, RLock, Thread

from slotwise.service.clock import SteadyClock
from slotwise.service.counting.attribution import (
    CLICKS,
    FOLD_START,
    LEVELS,
    Counters,
    FloorKey,
    FoldPosition,
    Level,
    View,
    fold_position,
)
from slotwise.service.counting.counters import add_counters, count_settled
from slotwise.service.giving_way import give_way, in_background
from slotwise.service.learning.pool_run import MAX_FED_ROUNDS, PoolRun
from slotwise.service.learning.publisher import Publisher
from slotwise.service.learning.settled_rounds import (
    Round,
    latest_round,
    settled_rounds,
    starts_after,
)
from slotwise.service.pool import Pool
from slotwise.service.records import DAY_US, SECOND_US
from slotwise.service.refusals import StoreUnavailable, Superseded
from slotwise.service.settings import ServiceOptions
from slotwise.service.storage.contract import ApplyFold, CloseWindows, Progress, Store
from slotwise.service.storage.group_commit import GroupCommitter
from slotwise.service.storage.maintenance import purge

FOLD_SIZE = 1_000
"""Rounds of one fold. Limits how long it occupies the writing thread, and how long requests wait
while its rows are freed."""


def fold_pool(store: Store, committer: GroupCommitter, run: PoolRun, progress: Progress) -> int:
    """Fold everything of a pool that closed by `progress.closed_until_us`.

    Returns how many rounds were folded. A policy that has been fed all earlier rounds is fed these,
    too. If statistics are reset during a fold, the store refuses it and the next call repeats it.
    """
    pool_id = run.pool_id
    folded = {level: progress.folded.get((pool_id, level), FOLD_START) for level in LEVELS}
    floors, uncounted = run.floors()
    compared_us = run.pool.settings.own_page_us
    rounds = settled_rounds(store, pool_id, folded, progress.closed_until_us)
    n_folded = 0
    while batch := list(islice(rounds, FOLD_SIZE)):
        with store.reading() as reader:
            # Read after `n_resets`: if a reset came between the two, the fold is refused.
            reset_times = reader.reset_times(pool_id)
        by_level = _by_level(batch)
        if uncounted and CLICKS in by_level:
            before = _count_delivered(store, pool_id, uncounted, folded[CLICKS])
        else:
            before = Counters()
        folds = [
            ApplyFold(
                pool_id=pool_id,
                level=level,
                after=folded[level],
                until=fold_position(of_level[-1], level),
                n_resets=progress.n_resets,
                compared_us=compared_us,
                increment=add_counters(
                    count_settled(of_level, level, reset_times, floors, compared_us or None),
                    before if level == CLICKS else Counters(),
                ),
            )
            for level, of_level in by_level.items()
        ]
        if not all(committer.commit(folds)):
            break
        for fold in folds:
            if fold.level == CLICKS:
                run.take_delivered(fold.increment)
                uncounted = []
        for level, of_level in by_level.items():
            run.early.learn_settled(of_level, level)
        # last, since a policy may raise; it is then fed again later
        run.feed(batch, after=latest_round(folded))
        folded |= {fold.level: fold.until for fold in folds}
        n_folded += len(batch)
    return n_folded


def _count_delivered(
    store: Store, pool_id: str, floors: Sequence[FloorKey], until: FoldPosition
) -> Counters:
    """Count from the rows the clicks delivered under floors that the store has no counters for.

    These are floors that were just set, and all floors of a store of an earlier release.
    """
    since_us = min(since_us for *_, since_us in floors)
    counted, last = Counters(), 0
    while True:
        with store.reading() as reader:
            batch = reader.views_after(pool_id, since_us, None, last, FOLD_SIZE)
        if not batch.views:
            return Counters(delivered=counted.delivered)
        last = batch.last
        settled = [
            view
            for view in batch.views
            if view.decision.learned and fold_position(view, CLICKS) <= until
        ]
        counted = add_counters(counted, count_settled(settled, CLICKS, {}, floors))


def feed_missing(store: Store, run: PoolRun, until_us: int) -> int:
    """Feed the policy the rounds it has not seen yet; return how many there were.

    These are all rounds for a new policy, and after a restart those since its state was stored.
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


def _by_level(batch: Sequence[Round]) -> Mapping[Level, list[View]]:
    levels: dict[Level, list[View]] = {}
    for one in batch:
        levels.setdefault(one.position.level, []).append(one.view)
    return levels


_log = logging.getLogger(__name__)

_PURGE_EVERY_US = 60 * SECOND_US


class Learner:
    """Closes windows and updates every pool with their feedback.

    A changed pool is published at once, all others after `learn` has closed windows. If several
    processes share a store, one of them learns; the others `follow` its versions. They make a
    version themselves, which is not stored, only for a pool that was changed since.
    """

    def __init__(
        self, store: Store, committer: GroupCommitter, publisher: Publisher, options: ServiceOptions
    ) -> None:
        self._store = store
        self._committer = committer
        self._publisher = publisher
        self._runs = publisher.runs
        self._options = options
        self._learning = RLock()
        self._stopping = Event()
        self._thread: Thread | None = None
        self._purge_at_us = 0
        self._sharing = store.sharing
        self._epoch: int | None = None
        """The epoch in which the pools were read; None while another process learns."""
        self._followed: dict[str, int] = {}
        """By pool, the version of another process that was installed last."""
        self._n_resets = 0
        self.clock_jump_us = 0
        """How far the system's time of day jumped ahead of the service's."""
        self.store_ahead_us = 0
        """How far the latest time in the store is ahead; feedback until then counts as late."""
        with store.reading() as reader:
            progress = reader.progress()
        publisher.closed_until_us, self._n_resets = progress.closed_until_us, progress.n_resets

    def load(self, pools: Iterable[Pool]) -> None:
        """Load pools from the store; their last versions are installed at once."""
        for pool in pools:
            with self._store.reading() as reader:
                run = PoolRun.load(reader, pool, self._publisher.new_seed())
            self._runs[run.pool_id] = run
            now_us = max(self.closed_until_us, pool.settings.changed_us)
            with self._publisher.guarding(run, now_us):
                self._publisher.install(run, now_us)

    def start(self, clock_us: Callable[[], int]) -> None:
        """Start the thread that learns every `fold_every_s`."""
        if self._thread is None:
            self._thread = Thread(
                target=self._run, args=(clock_us,), name="slotwise-learning", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """Stop the thread that learns; changed pools are still published."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def close(self) -> None:
        """Publish changed pools, then stop."""
        self.stop()
        self._publisher.close()

    def learn(self, now_us: int) -> None:
        """Close windows up to now, fold them and publish new versions. Reading, and slow.

        The learning thread calls it; tests call it directly. Raises `StoreUnavailable` when the
        store is unavailable; nothing is lost, the next call continues.
        """
        with self._learning:
            if not self._leads():
                return
            self._committer.commit([CloseWindows(until_us=now_us)])
            with self._store.reading() as reader:
                progress = reader.progress()
            if progress.n_resets != self._n_resets:  # perhaps by another process
                self._n_resets = progress.n_resets
                self._read_reset()
            self._publisher.closed_until_us = progress.closed_until_us
            latest_us = max(progress.closed_until_us, progress.latest_us)
            self.store_ahead_us = max(latest_us - now_us, 0)
            for pool_id, run in sorted(self._runs.items()):
                if self._stopping.is_set():  # the rest follows after the next start
                    return
                if run.must_reload:  # its player may have learned a part of a batch
                    run = self._load_again(pool_id)
                with self._publisher.guarding(run, now_us):
                    self._learn_pool(run, progress, now_us)
                    run.learned_us = now_us
            self._purge()

    @property
    def closed_until_us(self) -> int:
        """Windows are closed up to this time. Quick."""
        return self._publisher.closed_until_us

    @property
    def is_learning(self) -> bool:
        """Whether this process is the one that learns. Quick."""
        return self._sharing is None or self._epoch is not None

    def follow(self) -> None:
        """Install the versions of the process that learns. Reading."""
        if self._sharing is None or self._sharing.epoch is not None:
            return
        with self._learning:
            self._epoch = None
            with self._store.reading() as reader:
                versions = reader.learned_versions()
                self._publisher.closed_until_us = reader.progress().closed_until_us
            for pool_id, version in versions.items():
                if version != self._followed.get(pool_id) and pool_id in self._runs:
                    self._load_again(pool_id)
                    self._followed[pool_id] = version
            for run in self._runs.values():
                run.learned_us = self.closed_until_us

    def _leads(self) -> bool:
        """Return whether this process learns; after taking over, read everything again."""
        if self._sharing is None:
            return True
        before, epoch = self._epoch, self._sharing.epoch
        if epoch is not None and epoch != before:
            self._sharing.used_epoch = epoch
            self._read_again()
        self._epoch = epoch
        if epoch is not None and epoch != before:
            _log.info("this process learns all pools from now on, epoch %d", epoch)
        return epoch is not None

    def _read_again(self) -> None:
        for pool_id in sorted(self._runs):
            self._load_again(pool_id)

    def _read_reset(self) -> None:
        """Reload the pools whose statistics were reset; they show their last versions meanwhile."""
        with self._store.reading() as reader:
            resets = reader.pool_resets()
        for pool_id, run in sorted(self._runs.items()):
            if resets.get(pool_id, 0) != run.n_resets:
                self._load_again(pool_id)
                self._runs[pool_id].latest = None  # it was made from other counters

    def _load_again(self, pool_id: str) -> PoolRun:
        """Reload a pool from the store."""
        known = self._runs[pool_id]
        pool = known.pool
        with self._store.reading() as reader:
            run = PoolRun.load(reader, pool, self._publisher.new_seed())
        with self._publisher.changing:
            run.pool = known.pool  # it may have changed since
            run.n_failures = known.n_failures
            run.failure = known.failure if known.must_reload else ""
            self._runs[pool_id] = run
        now_us = max(self.closed_until_us, pool.settings.changed_us)
        with self._publisher.guarding(run, now_us):
            self._publisher.install(run, now_us)
        return run

    def read_clock(self, clock: SteadyClock) -> None:
        """Compare the clock with the system's time of day and record the difference. Quick."""
        clock.compare()
        if clock.jump_us and not self.clock_jump_us:
            _log.warning(
                "the time of day jumped by %.0f s; the service ignores it", clock.jump_us / 1e6
            )
        self.clock_jump_us = clock.jump_us

    def _learn_pool(self, run: PoolRun, progress: Progress, now_us: int) -> None:
        n_folded = fold_pool(self._store, self._committer, run, progress)
        give_way()
        if n_folded:
            self._publisher.read_counters(run)
        if not run.knows_open_views:
            self._publisher.drop_shown(run)  # what was shown is stored already
            with self._store.reading() as reader:
                run.recall_open_views(reader, progress.closed_until_us)
        n_fed = feed_missing(self._store, run, progress.closed_until_us)
        run.closed_until_us = progress.closed_until_us
        with self._store.reading() as reader:
            has_early = run.read_early(reader, now_us)
        give_way()
        is_due = run.is_stale or run.has_goals or run.has_dates_since(now_us)
        if run.catches_up(n_fed, now_us):
            if is_due:
                self._publisher.install(run, now_us)
            return
        if n_folded or n_fed or has_early or is_due:
            self._publisher.publish(run, now_us)

    def _purge(self) -> None:
        """Delete raw rows whose retention has ended, from time to time.

        Closed windows define the age, not the clock: they do not close when it jumps ahead.
        """
        if self._options.retention_days and self.closed_until_us >= self._purge_at_us:
            self._purge_at_us = self.closed_until_us + _PURGE_EVERY_US
            before_us = self.closed_until_us - self._options.retention_days * DAY_US
            purge(self._store.reading, lambda one: self._committer.commit([one])[0], before_us)

    def _run(self, clock_us: Callable[[], int]) -> None:
        wait_s = self._options.fold_every_s
        while not self._stopping.wait(wait_s):
            started = time.thread_time()
            if isinstance(clock_us, SteadyClock):
                self.read_clock(clock_us)
            with in_background() as background:
                self._learn_or_log(clock_us())
            # A pool that takes long to publish must not keep a core busy all the time.
            took_s = time.thread_time() - started
            wait_s = max(self._options.fold_every_s, 3 * took_s) - background.rested_s

    def _learn_or_log(self, now_us: int) -> None:
        try:
            self.learn(now_us)
        except (StoreUnavailable, Superseded) as error:
            _log.info("learning waits: %s", error)
        except Exception:  # noqa: BLE001
            _log.exception("learning failed; it will be tried again")
