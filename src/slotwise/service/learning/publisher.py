"""Make the versions of all pools, hand them to the decider and store them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import NamedTuple

import numpy as np

from slotwise.service.errors import StoreUnavailable, Superseded
from slotwise.service.learning.compiling import PolicyCompiler, WarmUp, compiled_name
from slotwise.service.learning.pool_run import PoolRun
from slotwise.service.learning.publishing import publish as next_version
from slotwise.service.learning.publishing import stand_in
from slotwise.service.options import ServiceOptions
from slotwise.service.pool import Pool
from slotwise.service.published import (
    LEARNING_FAILED,
    POLICY_COMPILING,
    POLICY_FAILED,
    Shown,
    VersionUser,
)
from slotwise.service.records import PoolSettings
from slotwise.service.storage.commands import SaveLearned
from slotwise.service.storage.contract import Store
from slotwise.service.storage.group_commit import GroupCommitter

__all__ = ["LearningState", "Publisher"]

_log = logging.getLogger(__name__)

MAX_FAILURE_CHARS = 300


class LearningState(NamedTuple):
    """The state of learning in one pool."""

    pool_id: str
    n_failures: int
    failure: str
    """Empty unless the last attempt failed."""
    learned_us: int


class Publisher:
    """Knows the run of every pool and publishes its next version.

    A changed pool is published at once, in a thread of its own. A pool that fails shows its
    fallback order and keeps no other from learning.
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
        self.runs: dict[str, PoolRun] = {}
        """By pool."""
        self.changing = Lock()
        """Guards which run a pool has, and the pool of a run."""
        self._publisher = ThreadPoolExecutor(1, thread_name_prefix="slotwise-publishing")
        self._waiting: dict[str, Future[None]] = {}
        self._compiler = PolicyCompiler(warm_up, self._publish_compiled)
        self._sharing = store.sharing
        self.first_compiled: Sequence[Future[None]] = ()
        """What must be done before the service is ready."""
        self.closed_until_us = 0
        """Windows are closed up to this time."""

    def new_seed(self) -> np.random.SeedSequence:
        """Return a seed for the run of a pool."""
        return self._seed.spawn(1)[0]

    def close(self) -> None:
        """Publish changed pools, then stop."""
        self._publisher.shutdown()

    def states(self) -> list[LearningState]:
        """Return the state of learning in each pool, by pool. Quick."""
        return [
            LearningState(pool_id, run.n_failures, run.failure, run.learned_us)
            for pool_id, run in sorted(self.runs.items())
        ]

    @contextmanager
    def guarding(self, run: PoolRun, now_us: int) -> Iterator[None]:
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

    def change(self, pool: Pool, now_us: int, were_reset: bool = False) -> Future[None]:
        """Take over a new or changed pool; done when its pages are drawn from a new version.

        `were_reset` says that statistics of its links were reset. With a policy that is not
        compiled yet the version is a stand-in, or the future waits for the compiler.
        """
        pool_id = pool.settings.pool_id
        self._compiler.compile(pool.settings)
        with self.changing:
            run = self.runs.get(pool_id)
            if run is None:
                run = self.runs[pool_id] = PoolRun(pool, self.new_seed())
            run.pool = pool
            run.were_reset |= were_reset
            waiting = self._waiting.get(pool_id)
            if waiting is None:
                waiting = self._publisher.submit(self._publish_change, pool_id, now_us)
                self._waiting[pool_id] = waiting
            return waiting

    def compile_policies(self, default: PoolSettings) -> None:
        """Compile a default policy and those of all pools, beside everything else. Quick."""
        running = [run.pool.settings for run in self.runs.values()]
        policies = {compiled_name(pool): pool for pool in running if not pool.archived}
        policies.setdefault(compiled_name(default), default)
        self.first_compiled = [self._compiler.compile(pool) for pool in policies.values()]

    @property
    def compiling(self) -> tuple[str, ...]:
        """The policies that are being compiled. Quick."""
        return self._compiler.waiting

    def is_compiling(self, run: PoolRun) -> bool:
        """Say whether the pool shows its fallback order until its policy is compiled. Quick."""
        beside = self._options.compile_beside
        return beside and not self._compiler.is_ready(compiled_name(run.pool.settings))

    def read_counters(self, run: PoolRun) -> None:
        """Read the counters of a pool again."""
        with self._store.reading() as reader, run.lock:
            run.counters = reader.counters(run.pool_id)

    def _publish_change(self, pool_id: str, now_us: int) -> None:
        if not self._options.compile_beside:
            self._compiler.compile(self.runs[pool_id].pool.settings).result()
        with self.changing:
            self._waiting.pop(pool_id, None)
            run = self.runs[pool_id]  # by now perhaps one that was loaded from the store
            were_reset, run.were_reset = run.were_reset, False
        with self.guarding(run, now_us):
            if were_reset:
                self.read_counters(run)
            self.install(run, now_us)

    def _publish_compiled(self, policy: str) -> None:
        """Let the pools of a policy that is compiled now draw from it."""
        if self._options.compile_beside:
            for run in list(self.runs.values()):
                if compiled_name(run.pool.settings) == policy:
                    now_us = max(self.closed_until_us, run.pool.settings.changed_us)
                    with self.guarding(run, now_us):
                        self.install(run, now_us)

    def install(self, run: PoolRun, now_us: int) -> None:
        """Install the version of a pool as it stands: the last one, a new one or a stand-in."""
        if self.is_compiling(run):
            pool, version = run.pool, run.version
            self._decider.install(stand_in(pool, run.counters, version, now_us, POLICY_COMPILING))
        else:
            last = None if run.is_stale else run.last_version()
            if last is not None:
                self._decider.install(last)
            else:
                self.publish(run, now_us)

    def publish(self, run: PoolRun, now_us: int) -> None:
        """Make the next version beside the decisions, switch to it and store it."""
        with run.publishing:
            draft = run.draft(self._take_shown(run), now_us)
            version = next_version(draft, now_us, run.rng)
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

    def drop_shown(self, run: PoolRun) -> None:
        """Leave out of the next version what was shown until now."""
        self._decider.take_shown(run.pool_id)

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
