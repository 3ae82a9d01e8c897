"""The service below HTTP: one object that the request handlers call.

    handler ── decide ──▶ deciding: a page of the installed version    (microseconds, no disk)
                                          └─▶ queue ─▶ group commit
    handler ── submit_events ──▶ queue ─▶ group commit ─▶ outcomes     (after the commit)
    learning ── learn ──▶ close windows ─▶ fold ─▶ publish ─▶ deciding: the next version

It only composes: a `directory` of pools, links and keys, a `decider`, a publisher, a `learner`, a
`reporter` and the `committer` of their writes. Which of their calls may run on an event loop:

- *quick* calls touch memory only
- calls that return a `Future` only queue: `await asyncio.wrap_future(directory.put_pool(...))`;
  its result is set after the commit, or it fails with `StoreUnavailable`
- *reading* calls query the store and belong in a worker thread (`asyncio.to_thread`);
  `decide` does so for a new id or new constraints, so a handler calls `answer_at_once` first

Used by `api`, `cli`, `opening` and `server`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from threading import Event as Signal, Thread
from typing import TYPE_CHECKING

import numpy as np

from slotwise.player.player import PlayerKnowledge
from slotwise.service.access.keys import group_secret
from slotwise.service.clock import SteadyClock
from slotwise.service.deciding.decider import Decider
from slotwise.service.ended_sessions import SignedOut
from slotwise.service.learning.learner import Learner
from slotwise.service.learning.publisher import Publisher
from slotwise.service.pool_directory import PoolDirectory
from slotwise.service.pool_notes import Notes
from slotwise.service.refusals import StoreUnavailable
from slotwise.service.reporting.health import Health, PoolHealth
from slotwise.service.reporting.reporter import Reporter
from slotwise.service.settings import ServiceOptions
from slotwise.service.storage.contract import Store
from slotwise.service.storage.group_commit import GroupCommitter, then

if TYPE_CHECKING:
    from slotwise.service.storage.postgresql import PostgresqlSharing

_log = logging.getLogger(__name__)


class Replica:
    """One of several processes on a store: it loads what the others change and publish.

    It does so after a notification, and every `POLL_S` in case one is lost.
    """

    POLL_S = 1.0

    def __init__(
        self,
        sharing: PostgresqlSharing,
        directory: PoolDirectory,
        learner: Learner,
        signed_out: SignedOut,
    ) -> None:
        self._sharing = sharing
        self._signed_out = signed_out
        self._directory = directory
        self._learner = learner
        self._told = Signal()
        self._stopping = False
        self._thread = Thread(target=self._run, name="slotwise-replica", daemon=True)

    def start(self) -> None:
        """Take part in the election and follow the others."""
        self._sharing.start(self._told.set)
        self._thread.start()

    def stop(self) -> None:
        """Stop following the others; safe to call twice, and without a start."""
        self._stopping = True
        self._told.set()
        if self._thread.is_alive():
            self._thread.join()

    def catch_up(self) -> None:
        """Load everything that others have committed. Reading."""
        self._directory.refresh()
        self._signed_out.read()
        self._learner.follow()

    def _run(self) -> None:
        while not self._stopping:
            self._told.wait(self.POLL_S)
            self._told.clear()
            try:
                self.catch_up()
            except StoreUnavailable as error:
                _log.debug("cannot follow other replicas: %s", error)
            except Exception:  # noqa: BLE001
                _log.exception("cannot follow other replicas; it will be tried again")


class Service:
    """Pools, decisions and feedback over one store.

    `now_us` is always an argument: the caller's clock, microseconds since the epoch. Every
    method may be called from any thread. Writes are committed from the start; windows close,
    and the service learns, when `learn` is called, which `start` does every `fold_every_s`.
    """

    def __init__(self, store: Store, options: ServiceOptions | None = None) -> None:
        """Read settings, keys and the last versions; no decision is read."""
        self.store = store
        self._options = options = options or ServiceOptions()
        self.committer = committer = GroupCommitter(
            store, options.commit_every_ms / 1000, options.max_waiting, options.commit_by_hand
        )
        self._closed = False
        rng = np.random.default_rng(np.random.SeedSequence(options.seed, spawn_key=(0,)))
        self.decider = decider = Decider(store, committer, rng)
        self.publisher = publisher = Publisher(store, committer, decider, options)
        self.learner = learner = Learner(store, committer, publisher, options)
        self.directory = directory = PoolDirectory(store, committer, options, publisher.change)
        decider.group_secret = lambda pool_id: group_secret(directory.keys(), pool_id)
        self.signed_out = SignedOut(store, committer)
        self.notes = Notes(store, committer)
        self.reporter = Reporter(store, directory, decider, self.notes)
        self._replica = (
            Replica(store.sharing, directory, learner, self.signed_out) if store.sharing else None
        )
        learner.load(directory.all_pools())

    def start(self, clock_us: Callable[[], int] | None = None) -> None:
        """Start the thread that learns every `fold_every_s` by a clock, the system's by default."""
        if self._replica is not None:
            self._replica.start()
        self.learner.start(clock_us or self.clock())

    def clock(self) -> SteadyClock:
        """Return a clock of the time of day: the system's, or the one that replicas share."""
        sharing = self.store.sharing
        return SteadyClock() if sharing is None else SteadyClock(sharing.wall_us)

    def take_turns(self) -> AbstractContextManager[None]:
        """Block first starts of other replicas while this one creates what is missing."""
        sharing = self.store.sharing
        return nullcontext() if sharing is None else sharing.starting()

    def catch_up(self) -> None:
        """Load what other replicas have committed. Reading."""
        if self._replica is not None:
            self._replica.catch_up()

    def close(self) -> None:
        """Commit what is queued, stop the threads and close the store."""
        self._closed = True
        if self._replica is not None:
            self._replica.stop()
        self.learner.stop()
        self.decider.close()
        self.committer.close()
        self.learner.close()
        self.store.close()

    def flush(self) -> Future[None]:
        """Finish when everything queued before is committed: `durability = "strict"`."""
        return then(self.committer.submit(()), lambda _: None)

    def knowledge(self, pool_id: str) -> PlayerKnowledge | None:
        """Return a copy of what a pool's policy has learned; None if it learns from counters."""
        return self.publisher.runs[pool_id].knowledge()

    def health(self) -> Health:
        """Report whether the service decides, stores and learns. Quick."""
        learner = self.learner
        runs = self.publisher.runs
        pools = [
            PoolHealth(
                pool_id=pool_id,
                policy_version=stored.version,
                published_us=stored.published_us,
                floor_status=stored.floor.status,
                fallback=stored.fallback,
                n_failures=runs[pool_id].n_failures,
                failure=runs[pool_id].failure,
                learned_us=runs[pool_id].learned_us,
                unreadable=runs[pool_id].unreadable,
                segment_floors=stored.segment_floors,
            )
            for pool_id, stored in self.decider.stored_versions()
        ]
        return Health(
            ready=not self._closed,
            store_available=self.committer.answers and not self.decider.by_id.store_hangs,
            is_learner=learner.is_learning,
            n_waiting=self.committer.n_waiting,
            n_lost_decisions=self.committer.n_lost_decisions,
            n_lost_clicks=self.committer.n_lost_clicks,
            closed_until_us=learner.closed_until_us,
            clock_jump_us=learner.clock_jump_us,
            store_ahead_us=learner.store_ahead_us,
            pools=tuple(pools),
        )
