"""One pool at run time: its settings, its links, what is known, and the version it draws from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from slotwise.problem import Problem
from slotwise.service.counting.views import Counters
from slotwise.service.deciding.snapshot import Snapshot, decode_published
from slotwise.service.learning.open_views import OpenPages
from slotwise.service.learning.policy_run import (
    PolicyRun,
    RunState,
    decode_state,
    needs_only_counts,
)
from slotwise.service.learning.publishing import publish, stand_in
from slotwise.service.learning.replay import RoundPosition
from slotwise.service.pool import policy_of, problem_of
from slotwise.service.records import LinkRecord, PoolSettings
from slotwise.service.storage.commands import Learned
from slotwise.service.storage.contract import StoreReader

__all__ = ["Draft", "PoolRuntime"]


class Draft(NamedTuple):
    """What a version is made of, and the state of the pool it was taken from."""

    pool: PoolSettings
    link_ids: tuple[str, ...]
    counters: Counters
    run: PolicyRun | None
    state: bytes
    open_views: NDArray[np.float64] | None
    version: int
    revision: int

    def publish(self, now_us: int, rng: np.random.Generator) -> Snapshot:
        """Let the policy choose the probabilities of the version."""
        return publish(
            self.pool,
            self.link_ids,
            self.counters,
            self.run,
            self.version,
            now_us,
            rng,
            self.open_views,
        )


class PoolRuntime:
    """Everything a decision needs, in memory.

    Not safe for threads by itself: the service holds its lock around every call.
    """

    def __init__(self, pool: PoolSettings) -> None:
        self.pool = pool
        self.links: dict[str, LinkRecord] = {}
        self.counters = Counters()
        self.fed_run: PolicyRun | None = None
        """The policy fed round by round; None for one that is rebuilt from counts."""
        self.fed_to = RoundPosition()
        self.is_compiling = False
        """Whether the policy is not compiled yet, so that a stand-in answers."""
        self._stand_in: Snapshot | None = None
        self._active: tuple[str, ...] | None = None
        self._stale = True
        self.revision = 0
        """Grows whenever the settings or a link are changed."""
        self._version = 0
        self._snapshot: Snapshot | None = None
        self._stored_state = b""
        self._open_pages = OpenPages()

    @classmethod
    def load(cls, reader: StoreReader, pool: PoolSettings) -> PoolRuntime:
        """Return a pool as it was left: the last version is drawn from at once."""
        runtime = cls(pool)
        runtime.set_links(reader.links(pool.pool_id))
        runtime.counters = reader.counters(pool.pool_id)
        learned = reader.learned(pool.pool_id)
        if learned is not None:
            published = decode_published(learned.published)
            runtime._version = learned.version
            runtime._stored_state = learned.state
            made_for = (published.link_ids, published.pool_changed_us)
            runtime._stale = made_for != (runtime.active, pool.changed_us)
            runtime._snapshot = Snapshot(pool, published)
        return runtime

    @property
    def active(self) -> tuple[str, ...]:
        """The links that may be shown, by place."""
        if self._active is None:
            links = sorted(self.links.values(), key=lambda link: link.place)
            self._active = tuple(link.link_id for link in links if not link.retired)
        return self._active

    @property
    def is_stale(self) -> bool:
        """Whether the pool changed since the last version was published."""
        return self._stale

    @property
    def version(self) -> int:
        """The last version that was published, 0 before the first."""
        return self._version

    @property
    def published(self) -> Snapshot | None:
        """The last version that was published, even when it is stale."""
        return self._snapshot

    def set_pool(self, pool: PoolSettings) -> None:
        """Take new settings; another policy starts over with the round log."""
        before, self.pool = self.pool, pool
        self._stand_in = None
        self._stale = True
        self.revision += 1
        if (before.policy, before.policy_settings) != (pool.policy, pool.policy_settings):
            self.fed_run, self.fed_to, self._stored_state = None, RoundPosition(), b""

    def set_links(self, links: Iterable[LinkRecord]) -> None:
        """Take new or changed links."""
        forgotten = set()
        for link in links:
            before = self.links.get(link.link_id)
            if before is not None and before.counted_from_us != link.counted_from_us:
                forgotten.add(link.link_id)
            self.links[link.link_id] = link
        self._active = None
        self._stand_in = None
        self._stale = True
        self.revision += 1
        if self.fed_run is not None and self.active:
            self.fed_run = self.fed_run.moved(self._problem(), self.active, frozenset(forgotten))

    def snapshot(self, now_us: int, rng: np.random.Generator) -> tuple[Snapshot, Learned | None]:
        """Return the version to draw from, and what to store if it is new."""
        if self.is_compiling:
            if self._stand_in is None:
                self._stand_in = stand_in(
                    self.pool, self.active, self.counters, self._version, now_us
                )
            return self._stand_in, None
        if self._snapshot is not None and not self._stale:
            return self._snapshot, None
        draft = self.draft(now_us)
        snapshot = draft.publish(now_us, rng)
        return snapshot, self.install(draft, snapshot)

    def draft(self, now_us: int) -> Draft:
        """Return all that the next version is made of, to be worked on without a lock."""
        run = self.round_run()
        return Draft(
            pool=self.pool,
            link_ids=self.active,
            counters=self.counters,
            run=None if run is None else run.copy(),
            state=b"" if run is None else self._encode_state(run),
            open_views=None if run is None else self._open_views(run, now_us),
            version=self._version + 1,
            revision=self.revision,
        )

    def _open_views(self, run: PolicyRun, now_us: int) -> NDArray[np.float64] | None:
        """Return the views under way, for a policy that reckons with them."""
        if not run.policy.moves_each_round:
            return None
        version = self._snapshot
        if version is not None and version.n_pages:
            self._open_pages.add(version.n_pages, version.link_ids, version.chances(), now_us)
            version.n_pages = 0
        return self._open_pages.views(self.active, self.pool, now_us)

    def install(self, draft: Draft, snapshot: Snapshot) -> Learned | None:
        """Switch to a version and return what to store, unless the pool changed meanwhile."""
        if (draft.version, draft.revision) != (self._version + 1, self.revision):
            return None
        self._version = draft.version
        self._snapshot = snapshot
        self._stale = False
        return Learned(
            pool_id=self.pool.pool_id,
            version=draft.version,
            published=msgspec.msgpack.encode(snapshot.published),
            state=draft.state,
        )

    def round_run(self) -> PolicyRun | None:
        """Return the run to feed with rounds, or None for a policy that needs only counts."""
        policy = policy_of(self.pool)
        if needs_only_counts(policy) or not self.active:
            return None
        if self.fed_run is None:
            self.fed_run = self._restore_state() or PolicyRun.started(
                policy, self._problem(), self.active
            )
        elif self.fed_run.problem != self._problem():
            self.fed_run = self.fed_run.moved(self._problem(), self.active)
        return self.fed_run

    def _problem(self) -> Problem:
        return problem_of(len(self.active), self.pool.slots, self.pool.click_floor)

    def _encode_state(self, run: PolicyRun) -> bytes:
        links = [self.links[link_id] for link_id in run.link_ids]
        return msgspec.msgpack.encode(
            RunState(
                policy=self.pool.policy,
                policy_settings=self.pool.policy_settings,
                link_ids=run.link_ids,
                counted_from_us=tuple(link.counted_from_us for link in links),
                closes_us=self.fed_to.closes_us,
                level=self.fed_to.level,
                decision_id=self.fed_to.decision_id,
                arrays=run.knowledge(),
            )
        )

    def _restore_state(self) -> PolicyRun | None:
        """Return the stored run, moved to the present links.

        None when it is another policy's or was written by another version of the policy: the
        run then learns from the first round again.
        """
        if not self._stored_state:
            return None
        stored = decode_state(self._stored_state)
        if stored is None or (stored.policy, stored.policy_settings) != (
            self.pool.policy,
            self.pool.policy_settings,
        ):
            return None
        policy = policy_of(self.pool)
        problem = problem_of(len(stored.link_ids), self.pool.slots, self.pool.click_floor)
        fresh = PolicyRun.started(policy, problem, stored.link_ids)
        if not fresh.has_shape_of(stored.arrays):
            return None
        run = PolicyRun.restored(policy, problem, stored.link_ids, stored.arrays)
        self.fed_to = RoundPosition(stored.closes_us, stored.level, stored.decision_id)
        if stored.link_ids == self.active:
            return run
        starts = dict(zip(stored.link_ids, stored.counted_from_us, strict=True))
        forgotten = frozenset(
            link_id
            for link_id, counted_from_us in starts.items()
            if self.links[link_id].counted_from_us != counted_from_us
        )
        return run.moved(self._problem(), self.active, forgotten)
