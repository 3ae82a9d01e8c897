"""What is learned of one pool: its counters, the policy's state and the views still open."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from threading import Lock, RLock
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from slotwise.errors import UnsupportedState
from slotwise.service.counting.rates import LinkCounts, LinkRates, estimate_rates
from slotwise.service.counting.views import Counters, View
from slotwise.service.learning.delivered import Delivered, DeliveredPages, Segment
from slotwise.service.learning.open_views import OpenViews
from slotwise.service.learning.policy_run import (
    PolicyRun,
    needs_only_counts,
)
from slotwise.service.learning.pool_counts import pool_counts
from slotwise.service.learning.replay import Round, RoundPosition
from slotwise.service.learning.run_of_pool import (
    moved_run,
    problem_of_run,
    restored_run,
    slots_of,
    started_run,
    stored_run,
    subject_of,
)
from slotwise.service.learning.visitor_run import ForVisitors, VisitorRun
from slotwise.service.pool import Pool
from slotwise.service.published import Published, Shown, Version
from slotwise.service.storage.commands import Learned
from slotwise.service.storage.contract import StoreReader

_log = logging.getLogger(__name__)

__all__ = ["Draft", "PoolRun"]


class Draft(NamedTuple):
    """What the next version is made of."""

    pool: Pool
    counters: Counters
    run: PolicyRun | None
    """The policy fed round by round; None for one that is rebuilt from counts."""
    state: bytes
    open_views: NDArray[np.float64] | None
    """By level and link, for a policy whose pages depend on them."""
    version: int
    delivered: Mapping[Segment, Delivered]
    visitors: ForVisitors | None = None
    """Where pages depend on the visitor; `run` is then None."""
    exposure: LinkCounts | None = None
    """Counts of links weighted by slot, where slots differ."""
    slot_clicks: tuple[float, ...] = ()


class PoolRun:
    """The knowledge about one pool, and what makes the next version from it.

    `pool` may be replaced at any time, by any thread; everything else is guarded by `lock`.
    """

    def __init__(self, pool: Pool, seed: np.random.SeedSequence) -> None:
        self.pool = pool
        self.pool_id = pool.settings.pool_id
        self.lock = RLock()
        self.publishing = Lock()
        """Held while a version is made: one at a time."""
        self.were_reset = False
        """Whether the counters must be read again."""
        self.rng = np.random.default_rng(seed)
        self.counters = Counters()
        self.fed_to = RoundPosition()
        """The last round that the policy was fed."""
        self.version = 0
        self.published: Version | None = None
        """The last version that was published."""
        self.n_failures = 0
        self.failure = ""
        """What failed when the pool was last learned or published; empty when nothing did."""
        self.shown_to: int | None = None
        """The place in the store up to which shown links are counted."""
        self.learned_us = 0
        """When learning last came to its end without a failure."""
        self._known: Pool | None = None
        """The pool that the policy's state is about."""
        self._fed_run: PolicyRun | None = None
        self._stored_state = b""
        self._open_views = OpenViews()
        self.knows_open_views = True
        """False after a start, until `recall_open_views` has read them."""
        self._delivered = DeliveredPages(pool.settings)

    @classmethod
    def load(cls, reader: StoreReader, pool: Pool, seed: np.random.SeedSequence) -> PoolRun:
        """Return what the store knows of a pool."""
        run = cls(pool, seed)
        run.knows_open_views = False
        run.counters = reader.counters(run.pool_id)
        learned = reader.learned(run.pool_id)
        if learned is not None:
            run.version, run._stored_state = learned.version, learned.state
            try:
                published = Published.decode(learned.published)
            except (msgspec.MsgspecError, UnsupportedState):
                _log.exception(
                    "the version of pool %s cannot be read; it is made anew", run.pool_id
                )
                return run
            run._delivered = DeliveredPages.stored(published, pool.settings)
            made_for = (published.link_ids, published.pool_changed_us)
            if made_for == (pool.active, pool.settings.changed_us):
                run.published = Version(pool, published, None)
        return run

    @property
    def is_stale(self) -> bool:
        """Whether the pool changed since the last version was published."""
        return self.published is None or self.published.pool is not self.pool

    @property
    def counts_open_views(self) -> bool:
        """Whether the policy's pages depend on views whose windows are open."""
        return self.pool.policy().moves_each_round

    def needs_rounds(self) -> bool:
        """Say whether the policy is fed round by round."""
        with self.lock:
            return self._round_run() is not None

    def feed(self, rounds: Sequence[Round], after: RoundPosition) -> bool:
        """Feed the policy rounds that come next after a place; say whether they did."""
        with self.lock:
            run = self._round_run()
            if run is None or self.fed_to != after:
                return False
            run.learn_rounds((view, position.level) for position, view in rounds)
            self.fed_to = rounds[-1].position
            return True

    def count_delivered(self, views: Sequence[View], counted: Counters) -> None:
        """Count the clicks of settled pages that were shown under the present floors.

        `counted` are the clicks of all `views`.
        """
        with self.lock:
            self._delivered.count(views, counted, self.pool.settings)

    def recall_open_views(self, reader: StoreReader, closed_until_us: int) -> None:
        """Count the views that are open, by what the store has of them."""
        with self.lock:
            self.knows_open_views = True
            run = self._round_run()
            if run is not None and run.policy.moves_each_round:
                self._open_views = OpenViews.stored(reader, self.pool.settings, closed_until_us)

    def draft(self, shown: Shown, now_us: int) -> Draft:
        """Return all that the next version is made of, to be worked on without the lock."""
        with self.lock:
            run, pool = self._round_run(), self._pool_of_run()
            open_views = None
            if run is not None and run.policy.moves_each_round:
                self._open_views.add(shown.links, now_us)
                open_views = self._open_views.views(pool.active, pool.settings, now_us)
            visitors = None
            if isinstance(run, VisitorRun) and open_views is not None:
                run.note_shown(shown.views, pool.settings, now_us)
                visitors = run.for_visitors(open_views, self._rates(run, pool))
            slots = None if run is None else run.slots
            return Draft(
                pool=pool,
                counters=self.counters,
                run=None if run is None or visitors is not None else run.copy(),
                state=b"" if run is None else stored_run(run, self._pool_of_run(), self.fed_to),
                open_views=open_views,
                version=self.version + 1,
                delivered=self._delivered.under(pool.settings),
                visitors=visitors,
                exposure=None if slots is None else slots.moved(np.arange(len(pool.active))).counts,
                slot_clicks=() if slots is None else slots.clicks,
            )

    def last_version(self) -> Version | None:
        """Return the last version with its pages for visitors; None where those are not known.

        What is stored of a version has their prices; the rest is in the state of the policy.
        """
        with self.lock:
            last = self.published
            if last is None or last.visitors is not None or not last.published.prices:
                return last
            run = self._round_run()
            if not isinstance(run, VisitorRun) or self.fed_to == RoundPosition():
                return None
            pages = run.pages_at(np.frombuffer(last.published.prices))
            self.published = last._replace(visitors=pages)
            return self.published

    def _rates(self, run: PolicyRun, pool: Pool) -> LinkRates:
        if run.slots is not None:
            return estimate_rates(run.slots.counts)
        return estimate_rates(pool_counts(pool, self.counters))

    def take(self, draft: Draft, version: Version) -> Learned:
        """Take over a version that was made from a draft; return what to store."""
        with self.lock:
            self.version = draft.version
            self.published = version
        return Learned(
            pool_id=self.pool_id,
            version=draft.version,
            published=msgspec.msgpack.encode(version.published),
            state=draft.state,
        )

    def _round_run(self) -> PolicyRun | None:
        """Return the run to feed with rounds, or None for a policy that needs only counts."""
        known, pool = self._known, self.pool
        if known is not None and subject_of(known) != subject_of(pool):
            self._fed_run, self.fed_to, self._stored_state = None, RoundPosition(), b""
        self._known = pool
        if not pool.active:
            return None
        policy = pool.policy()
        if needs_only_counts(policy) and not slots_of(pool):
            return None
        if (
            self._fed_run is not None
            and known is not pool
            and problem_of_run(self._fed_run, pool) is None
        ):
            self._fed_run, self.fed_to = None, RoundPosition()
        if self._fed_run is None:
            restored = restored_run(self._stored_state, pool)
            if restored is None:
                self._fed_run = started_run(policy, pool)
            else:
                self._fed_run, self.fed_to = restored
            self._stored_state = b""  # it may be large, and is not needed again
        elif known is not pool:
            assert known is not None
            starts = {link_id: link.counted_from_us for link_id, link in known.links.items()}
            self._fed_run = moved_run(self._fed_run, pool, starts)
        return self._fed_run

    def _pool_of_run(self) -> Pool:
        """Return the pool that `_round_run` was about; it may have been replaced since."""
        assert self._known is not None
        return self._known
