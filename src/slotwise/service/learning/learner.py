"""Learn: close windows, fold them, feed the policies and publish the next versions."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, Lock, RLock, Thread
from typing import NamedTuple

import numpy as np

from slotwise.service.clock import SteadyClock
from slotwise.service.errors import StoreUnavailable, Superseded
from slotwise.service.learning.compiling import PolicyCompiler, WarmUp, compiled_name
from slotwise.service.learning.fold import feed_missing, fold_pool
from slotwise.service.learning.pool_run import PoolRun
from slotwise.service.learning.publishing import publish, stand_in
from slotwise.service.options import ServiceOptions
from slotwise.service.pool import Pool
from slotwise.service.published import (
    LEARNING_FAILED,
    POLICY_COMPILING,
    POLICY_FAILED,
    Shown,
    VersionUser,
)
from slotwise.service.records import DAY_US, SECOND_US, PoolSettings
from slotwise.service.storage.commands import CloseWindows, Progress, SaveLearned
from slotwise.service.storage.contract import Store
from slotwise.service.storage.group_commit import GroupCommitter
from slotwise.service.storage.purge import purge

__all__ = ["Learner", "LearningState"]

_log = logging.getLogger(__name__)

_PURGE_EVERY_US = 60 * SECOND_US
MAX_FAILURE_CHARS = 300


class LearningState(NamedTuple):
    """The state of learning in one pool."""

    pool_id: str
    n_failures: int
    failure: str
    """Empty unless the last attempt failed."""
    learned_us: int


class Learner:
    """Makes the versions of all pools and hands them to the decider.

    A changed pool is published at once, in a thread of its own; all others after the windows
    that `learn` closes. Of several processes on one store one learns; the others `follow` its
    versions, and make one of their own, which is not stored, only for a pool that was changed
    since.
    """

    def __init__(
        self,
        store: Store,
        committer: GroupCommitter,
        decider: VersionUser,
        warm_up: WarmUp,
        options: ServiceOptions,
    ) -> None:
        self._store = store
        self._committer = committer
        self._decider = decider
        self._options = options
        self._seed = np.random.SeedSequence(options.seed, spawn_key=(1,))
        self._runs: dict[str, PoolRun] = {}
        self._learning = RLock()
        self._changing = Lock()
        self._publisher = ThreadPoolExecutor(1, thread_name_prefix="slotwise-publishing")
        self._waiting: dict[str, Future[None]] = {}
        self._compiler = PolicyCompiler(warm_up, self._publish_compiled)
        self._stopping = Event()
        self._thread: Thread | None = None
        self._purge_at_us = 0
        self._sharing = store.sharing
        self._epoch: int | None = None
        """The epoch that everything known was read in; None while another process learns."""
        self._followed: dict[str, int] = {}
        """By pool, the version of another process that was installed last."""
        self._n_resets = 0
        self.first_compiled: Sequence[Future[None]] = ()
        """What must be done before the service is ready."""
        self.clock_jump_us = 0
        """How far the system's time of day jumped ahead of the service's."""
        self.store_ahead_us = 0
        """How far the latest time in the store lies ahead: feedback until then is late."""
        with store.reading() as reader:
            progress = reader.progress()
        self.closed_until_us, self._n_resets = progress.closed_until_us, progress.n_resets

    def load(self, pools: Iterable[Pool]) -> None:
        """Take over pools as the store has them; the last version is drawn from at once."""
        for pool in pools:
            with self._store.reading() as reader:
                run = PoolRun.load(reader, pool, self._seed.spawn(1)[0])
            self._runs[run.pool_id] = run
            now_us = max(self.closed_until_us, pool.settings.changed_us)
            with self._guarding(run, now_us):
                self._install(run, now_us)

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
        self._publisher.shutdown()

    def learn(self, now_us: int) -> None:
        """Close windows up to now, fold them and publish new versions. Reading, and longer.

        What the learning thread does; a test calls it itself. Raises `StoreUnavailable` when
        the store is away; nothing is lost, the next call goes on.
        """
        with self._learning:
            if not self._leads():
                return
            self._committer.commit([CloseWindows(until_us=now_us)])
            with self._store.reading() as reader:
                progress = reader.progress()
            if progress.n_resets != self._n_resets:  # perhaps by another process
                self._n_resets = progress.n_resets
                self._read_again()
                for run in self._runs.values():
                    run.published = None  # with other counters it would be another version
            self.closed_until_us = progress.closed_until_us
            latest_us = max(progress.closed_until_us, progress.latest_us)
            self.store_ahead_us = max(latest_us - now_us, 0)
            for _, run in sorted(self._runs.items()):
                if self._stopping.is_set():  # the rest is learned after the next start
                    return
                with self._guarding(run, now_us):
                    self._learn_pool(run, progress, now_us)
                    run.learned_us = now_us
            self._purge()

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
                self.closed_until_us = reader.progress().closed_until_us
            for pool_id, version in versions.items():
                if version != self._followed.get(pool_id) and pool_id in self._runs:
                    self._load_again(pool_id)
                    self._followed[pool_id] = version
            for run in self._runs.values():
                run.learned_us = self.closed_until_us

    def _leads(self) -> bool:
        """Say whether this process learns; one that has just taken over reads everything again."""
        if self._sharing is None:
            return True
        epoch = self._sharing.epoch
        if epoch is not None and epoch != self._epoch:
            self._sharing.used_epoch = epoch
            self._read_again()
        self._epoch = epoch
        return epoch is not None

    def _read_again(self) -> None:
        for pool_id in sorted(self._runs):
            self._load_again(pool_id)

    def _load_again(self, pool_id: str) -> None:
        """Replace what is known of a pool by what the store has."""
        known = self._runs[pool_id]
        pool = known.pool
        with self._store.reading() as reader:
            run = PoolRun.load(reader, pool, self._seed.spawn(1)[0])
        with self._changing:
            run.pool = known.pool  # it may have changed meanwhile
            run.n_failures, run.failure = known.n_failures, ""
            self._runs[pool_id] = run
        now_us = max(self.closed_until_us, pool.settings.changed_us)
        with self._guarding(run, now_us):
            self._install(run, now_us)

    def states(self) -> list[LearningState]:
        """Return the state of learning in each pool, by pool. Quick."""
        return [
            LearningState(pool_id, run.n_failures, run.failure, run.learned_us)
            for pool_id, run in sorted(self._runs.items())
        ]

    @contextmanager
    def _guarding(self, run: PoolRun, now_us: int) -> Iterator[None]:
        """Keep the failure of one pool from all others; its pages come in the fallback order.

        The store being away is no failure of a pool.
        """
        try:
            yield
        except (StoreUnavailable, Superseded):
            raise
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"[:MAX_FAILURE_CHARS]
            if failure != run.failure:  # not once a second
                _log.exception("pool %s cannot be learned, shows its fallback order", run.pool_id)
            run.n_failures += 1
            run.failure, run.published = failure, None
            failed = stand_in(run.pool, run.counters, run.version, now_us, LEARNING_FAILED)
            self._decider.install(failed)

    def read_clock(self, clock: SteadyClock) -> None:
        """Compare the clock with the system's time of day and keep the difference. Quick."""
        clock.compare()
        if clock.jump_us and not self.clock_jump_us:
            _log.warning(
                "the time of day jumped by %.0f s; it is not followed", clock.jump_us / 1e6
            )
        self.clock_jump_us = clock.jump_us

    def change(self, pool: Pool, now_us: int, were_reset: bool = False) -> Future[None]:
        """Take over a new or changed pool; done when its pages are drawn from a new version.

        `were_reset` says that statistics of its links were reset. With a policy that is not
        compiled yet the version is a stand-in, or the future waits for the compiler.
        """
        pool_id = pool.settings.pool_id
        self._compiler.compile(pool.settings)
        with self._changing:
            run = self._runs.get(pool_id)
            if run is None:
                run = self._runs[pool_id] = PoolRun(pool, self._seed.spawn(1)[0])
            run.pool = pool
            run.were_reset |= were_reset
            waiting = self._waiting.get(pool_id)
            if waiting is None:
                waiting = self._publisher.submit(self._publish_change, run, now_us)
                self._waiting[pool_id] = waiting
            return waiting

    def compile_policies(self, default: PoolSettings) -> None:
        """Compile a default policy and those of all pools, beside everything else. Quick."""
        running = [run.pool.settings for run in self._runs.values()]
        policies = {compiled_name(pool): pool for pool in running if not pool.archived}
        policies.setdefault(compiled_name(default), default)
        self.first_compiled = [self._compiler.compile(pool) for pool in policies.values()]

    @property
    def compiling(self) -> tuple[str, ...]:
        """The policies that are being compiled. Quick."""
        return self._compiler.waiting

    def _is_compiling(self, run: PoolRun) -> bool:
        beside = self._options.compile_beside
        return beside and not self._compiler.is_ready(compiled_name(run.pool.settings))

    def _learn_pool(self, run: PoolRun, progress: Progress, now_us: int) -> None:
        if not run.knows_open_views:
            self._decider.take_shown(run.pool_id)  # they are stored already
            with self._store.reading() as reader:
                run.recall_open_views(reader, progress.closed_until_us)
        n_folded = fold_pool(self._store, self._committer, run, progress)
        if n_folded:
            self._read_counters(run)
        if self._is_compiling(run):
            return
        n_fed = feed_missing(self._store, run, progress.closed_until_us)
        if n_folded or n_fed or run.is_stale:
            self._publish(run, now_us)

    def _purge(self) -> None:
        """Drop raw rows that are older than they need be, now and then.

        Windows decide how late it is, not the clock: they do not close when it jumps ahead.
        """
        if self._options.retention_days and self.closed_until_us >= self._purge_at_us:
            self._purge_at_us = self.closed_until_us + _PURGE_EVERY_US
            before_us = self.closed_until_us - self._options.retention_days * DAY_US
            purge(self._store.reading, lambda one: self._committer.commit([one])[0], before_us)

    def _read_counters(self, run: PoolRun) -> None:
        with self._store.reading() as reader, run.lock:
            run.counters = reader.counters(run.pool_id)

    def _publish_change(self, run: PoolRun, now_us: int) -> None:
        if not self._options.compile_beside:
            self._compiler.compile(run.pool.settings).result()
        with self._changing:
            self._waiting.pop(run.pool_id, None)
            were_reset, run.were_reset = run.were_reset, False
        with self._guarding(run, now_us):
            if were_reset:
                self._read_counters(run)
            self._install(run, now_us)

    def _publish_compiled(self, policy: str) -> None:
        """Let the pools of a policy that is compiled now draw from it."""
        if self._options.compile_beside:
            for run in list(self._runs.values()):
                if compiled_name(run.pool.settings) == policy:
                    now_us = max(self.closed_until_us, run.pool.settings.changed_us)
                    with self._guarding(run, now_us):
                        self._install(run, now_us)

    def _install(self, run: PoolRun, now_us: int) -> None:
        """Install the version of a pool as it stands: the last one, a new one or a stand-in."""
        if self._is_compiling(run):
            pool, version = run.pool, run.version
            self._decider.install(stand_in(pool, run.counters, version, now_us, POLICY_COMPILING))
        else:
            last = None if run.is_stale else run.last_version()
            if last is not None:
                self._decider.install(last)
            else:
                self._publish(run, now_us)

    def _publish(self, run: PoolRun, now_us: int) -> None:
        """Make the next version beside the decisions, switch to it and store it."""
        with run.publishing:
            draft = run.draft(self._take_shown(run), now_us)
            version = publish(draft, now_us, run.rng)
            learned = run.take(draft, version)
            has_failed = version.published.fallback == POLICY_FAILED
            run.n_failures += has_failed
            run.failure = POLICY_FAILED if has_failed else ""
            if self._may_store():
                try:  # queued before any decision that is drawn from it
                    self._committer.submit([SaveLearned(learned=learned)])
                except StoreUnavailable:
                    _log.info("version %d of pool %s is not stored", learned.version, run.pool_id)
            self._decider.install(version)

    def _take_shown(self, run: PoolRun) -> Shown:
        """Return what was shown since the last version; its links count by all processes."""
        shown = self._decider.take_shown(run.pool_id)
        if not self._may_store() or self._sharing is None or not run.counts_open_views:
            return shown
        try:
            with self._store.reading() as reader:
                after, run.shown_to = run.shown_to, reader.shown_since(run.pool_id, 2**62)[0]
                links = {} if after is None else reader.shown_since(run.pool_id, after)[1]
                return shown._replace(links=links)
        except StoreUnavailable:
            return shown

    def _may_store(self) -> bool:
        """Say whether versions are stored: by the process that learns, once it has read all."""
        sharing = self._sharing
        return sharing is None or (
            sharing.epoch is not None and sharing.epoch == sharing.used_epoch
        )

    def _run(self, clock_us: Callable[[], int]) -> None:
        rest_s = self._options.fold_every_s
        while not self._stopping.wait(rest_s):
            started = time.perf_counter()
            if isinstance(clock_us, SteadyClock):
                self.read_clock(clock_us)
            try:
                self.learn(clock_us())
            except (StoreUnavailable, Superseded) as error:
                _log.info("learning waits: %s", error)
            except Exception:
                _log.exception("learning failed; it is tried again")
            # A pool that takes long to publish must not keep a core busy all the time.
            took_s = time.perf_counter() - started
            rest_s = max(self._options.fold_every_s, 3 * took_s)
