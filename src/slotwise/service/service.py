"""The service below HTTP: one object that the request handlers call.

    handler ── decide ──▶ published probabilities ──▶ page        (microseconds, no disk)
                                          └─▶ queue ─▶ group commit
    handler ── submit_events ──▶ queue ─▶ group commit ─▶ outcomes (after the commit)
    learner ── learn ──▶ close windows ─▶ fold ─▶ publish the next version

Which calls may run on an event loop:

- *quick* calls touch memory only
- calls that return a `Future` only queue: `await asyncio.wrap_future(service.put_pool(...))`;
  its result is set after the commit, or it fails with `StoreUnavailable`
- *reading* calls query the store and belong in a worker thread (`asyncio.to_thread`)
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from threading import Event, RLock, Thread
from typing import Any

import numpy as np
from msgspec.structs import replace

from slotwise.errors import InvalidInput, UnknownDecision
from slotwise.service.deciding.decision_ids import DecisionIds
from slotwise.service.deciding.pool_runtime import PoolRuntime
from slotwise.service.deciding.snapshot import NO_WISH, Snapshot, Wish
from slotwise.service.deciding.wishes import canonical_wish, checked_wish
from slotwise.service.errors import (
    Conflict,
    StoreUnavailable,
    UnknownPool,
)
from slotwise.service.learning.fold import feed_rounds, fold_pool
from slotwise.service.limits import ID_RULE, is_id
from slotwise.service.pool_directory import Registry, ServiceOptions
from slotwise.service.records import (
    SECOND_US,
    DecisionRecord,
    Outcome,
    Pin,
)
from slotwise.service.records import (
    Event as FeedbackEvent,
)
from slotwise.service.reporting import pool_report
from slotwise.service.reporting.decision_report import report_decision, round_row
from slotwise.service.reporting.reports import (
    DecisionReport,
    Explanation,
    FrontierReport,
    Health,
    PoolHealth,
    PoolReport,
    RoundRow,
)
from slotwise.service.storage.activity import Activity
from slotwise.service.storage.commands import (
    AppendDecision,
    CloseWindows,
    Learned,
    Operation,
    RecordEvent,
    SaveLearned,
)
from slotwise.service.storage.contract import Store
from slotwise.service.storage.futures import then

__all__ = ["Service", "ServiceOptions"]

_log = logging.getLogger(__name__)

MAX_RECENT = 50_000
"""Decisions with an id of the caller's that are kept in memory for a second asking."""
EXPORT_CHUNK = 2_000


class Service(Registry):
    """Pools, decisions and feedback over one store.

    `now_us` is always an argument: the caller's clock, microseconds since the epoch. Every
    method may be called from any thread. Writes are committed from the start; windows close,
    and the service learns, when `learn` is called, which `start` does every `fold_every_s`.
    """

    def __init__(self, store: Store, options: ServiceOptions | None = None) -> None:
        """Read settings, keys and the last published versions; no decision is read."""
        super().__init__(store, options)
        self._rng, self._learning_rng = np.random.default_rng(self._options.seed).spawn(2)
        self._learning = RLock()
        self._stopping = Event()
        self._learner: Thread | None = None
        with store.reading() as reader:
            self._closed_until_us = reader.progress().closed_until_us
        self._recent: dict[str, DecisionRecord] = {}
        self._ids = DecisionIds()

    def start(self, clock_us: Callable[[], int] | None = None) -> None:
        """Start the thread that learns every `fold_every_s` by a clock, the system's by default."""
        clock = clock_us or (lambda: time.time_ns() // 1000)
        if self._learner is None:
            if self._options.compile_beside:
                self.compile_policies()
            self._learner = Thread(
                target=self._learn_on, args=(clock,), name="slotwise-learning", daemon=True
            )
            self._learner.start()

    def close(self) -> None:
        """Commit what waits, stop the threads, close the store; afterwards nothing is taken."""
        self._stopping.set()
        if self._learner is not None:
            self._learner.join()
        self._committer.close()
        self._store.close()

    def commit_waiting(self) -> bool:
        """Commit one group of what waits; return whether the store could be reached."""
        return self._committer.commit_waiting()

    # Pages and feedback

    def decide(
        self,
        pool_id: str,
        now_us: int,
        exclude: Sequence[str] = (),
        pin: Sequence[Pin] = (),
        slots: int | None = None,
        decision_id: str | None = None,
    ) -> DecisionRecord:
        """Choose a page from the present version and queue it for the next commit. Quick.

        The same `decision_id` asked again for the same page gets the same answer (looked up
        in memory, then in the store); asked for something else it raises `Conflict`.
        Unknown ids in `exclude` are ignored: a page may know links that are gone.
        Raises `UnknownPool` (also for an archived pool), `UnknownLink` for a pin,
        `InvalidInput` for positions and slots.
        """
        runtime = self._runtime(pool_id)
        pool = runtime.pool
        if pool.archived:
            raise UnknownPool(f"the pool {pool_id!r} is archived")
        wish, asked = NO_WISH, ""
        if exclude or pin or slots is not None:
            wish = checked_wish(runtime, exclude, pin, slots)
            asked = canonical_wish(exclude, pin, slots)
        if decision_id is not None:
            known = self._known_decision(decision_id, pool_id, asked)
            if known is not None:
                return known
        decision = self._choose(runtime, now_us, wish, asked, decision_id)
        if decision_id is not None:
            self._remember(decision)
        self._committer.append(AppendDecision(decision=decision))
        return decision

    def propose(self, pool_id: str, now_us: int, slots: int | None = None) -> DecisionRecord:
        """Choose a page as `decide` does, which is no view before `record_view`. Quick."""
        runtime = self._runtime(pool_id)
        if runtime.pool.archived:
            raise UnknownPool(f"the pool {pool_id!r} is archived")
        wish = NO_WISH if slots is None else checked_wish(runtime, (), (), slots)
        asked = "" if slots is None else canonical_wish((), (), slots)
        return self._choose(runtime, now_us, wish, asked, None)

    def record_view(self, proposed: DecisionRecord, now_us: int) -> None:
        """Queue a proposed page that was seen; its windows start now. Quick.

        Told again, it stays one view: the first one.
        """
        later_us = now_us - proposed.issued_us
        seen = replace(
            proposed,
            issued_us=now_us,
            click_closes_us=proposed.click_closes_us + later_us,
            revenue_until_us=proposed.revenue_until_us + later_us,
            revenue_closes_us=proposed.revenue_closes_us + later_us,
        )
        self._committer.append(AppendDecision(decision=seen))

    def _choose(
        self,
        runtime: PoolRuntime,
        now_us: int,
        wish: Wish,
        asked: str,
        decision_id: str | None,
    ) -> DecisionRecord:
        pool = runtime.pool
        with self._lock:
            snapshot = self._present(runtime, now_us)
            holdout = pool.holdout > 0 and self._rng.random() < pool.holdout
            page = snapshot.holdout_page(wish) if holdout else snapshot.page(wish)
            shown = page.draw(self._rng)
            snapshot.n_pages += 1
            new_id = decision_id or self._ids.new(now_us)
        click_closes_us = now_us + pool.click_window_s * SECOND_US
        revenue_until_us = now_us + pool.revenue_window_s * SECOND_US
        return DecisionRecord(
            decision_id=new_id,
            pool_id=pool.pool_id,
            issued_us=now_us,
            click_closes_us=click_closes_us,
            revenue_until_us=revenue_until_us,
            revenue_closes_us=max(click_closes_us, revenue_until_us),
            currency=pool.currency,
            max_revenue_micros=pool.max_revenue_micros,
            policy=snapshot.policy,
            policy_version=snapshot.version,
            floor=page.floor,
            shown=shown,
            holdout=holdout,
            fallback=page.fallback,
            asked=asked,
        )

    def flush(self) -> Future[None]:
        """Finish when everything queued before is committed: `durability = "strict"`."""
        return then(self._committer.submit(()), lambda _: None)

    def submit_events(self, events: Sequence[FeedbackEvent], now_us: int) -> Future[list[Outcome]]:
        """Record events, one outcome each in the same order, set after their commit.

        Raises `StoreUnavailable`, at once or as the future's error: nothing of the list was
        acknowledged and all of it may be sent again.
        """
        operations = [RecordEvent(event=event, received_us=now_us) for event in events]
        outcomes: Any = self._committer.submit(operations)
        return outcomes  # type: ignore[no-any-return]

    def decision(self, decision_id: str) -> DecisionReport:
        """Tell what was shown, received, counted and refused, or raise `UnknownDecision`.

        Reading.
        """
        with self._store.reading() as reader:
            view = reader.view(decision_id)
            if view is None:
                raise UnknownDecision(f"there is no decision {decision_id!r}")
            closed_until_us = reader.progress().closed_until_us
            return report_decision(view, reader.refusals(decision_id), closed_until_us)

    def pool_of_decision(self, decision_id: str) -> str | None:
        """Return the pool of a stored decision. Reading."""
        with self._store.reading() as reader:
            found = reader.decision(decision_id)
            return None if found is None else found.pool_id

    # What was learned

    def learn(self, now_us: int) -> None:
        """Close windows up to now, fold them and publish new versions. Reading, and longer.

        What the learning thread does; a test calls it itself. Raises `StoreUnavailable` when
        the store is away; nothing is lost, the next call goes on.
        """
        with self._learning:
            self._commit(CloseWindows(until_us=now_us))
            with self._store.reading() as reader:
                progress = reader.progress()
            self._closed_until_us = progress.closed_until_us
            for pool_id in sorted(self._pools):
                runtime = self._pools[pool_id]
                n_folded = fold_pool(self._store, self._commit, pool_id, progress)
                if n_folded:
                    with self._store.reading() as reader:
                        counters = reader.counters(pool_id)
                    with self._lock:
                        runtime.counters = counters
                if runtime.is_compiling:
                    continue
                n_fed = self._feed(runtime, progress.closed_until_us)
                if n_folded or n_fed or runtime.is_stale:
                    self._publish(runtime, now_us)

    def stats(self, pool_id: str) -> PoolReport:
        """Return the statistics of a pool. Reading."""
        runtime = self._runtime(pool_id)
        snapshot = self._published(runtime)
        with self._store.reading() as reader:
            return pool_report.report_pool(reader, runtime.pool, snapshot)

    def frontier(self, pool_id: str) -> FrontierReport:
        """Return the best revenue for every floor, by the present estimates. Reading."""
        runtime = self._runtime(pool_id)
        return pool_report.report_frontier(runtime.pool, self._published(runtime))

    def explain(self, pool_id: str) -> list[Explanation]:
        """Tell for each active link why it is shown as often as it is. Reading."""
        runtime = self._runtime(pool_id)
        return pool_report.explain_links(runtime.pool, self._published(runtime))

    def activity(self, pool_id: str, since_us: int, span_us: int) -> Activity:
        """Sum up what happened in a pool since a time, span by span. Reading."""
        self._runtime(pool_id)
        with self._store.reading() as reader:
            closed_until_us = reader.progress().closed_until_us
            return reader.activity(pool_id, since_us, span_us, closed_until_us)

    def export(
        self, pool_id: str, since_us: int = 0, until_us: int | None = None
    ) -> Iterator[list[RoundRow]]:
        """Go through the round log in the order it was stored, in lists of some thousand.

        Reading.
        """
        self._runtime(pool_id)
        with self._store.reading() as reader:
            closed_until_us = reader.progress().closed_until_us
        last = 0
        while True:
            # Each chunk at its own moment: a slow consumer must not hold one for minutes.
            with self._store.reading() as reader:
                batch = reader.views_after(pool_id, since_us, until_us, last, EXPORT_CHUNK)
            if not batch.views:
                return
            last = batch.last
            yield [round_row(view, closed_until_us) for view in batch.views]

    def health(self) -> Health:
        """Tell whether the service can do its work. Quick."""
        with self._lock:
            pools = tuple(
                PoolHealth(
                    pool_id=pool_id,
                    policy_version=snapshot.version,
                    published_us=snapshot.published.published_us,
                    floor_status=snapshot.published.floor.status,
                    fallback=snapshot.published.fallback,
                )
                for pool_id, snapshot in (
                    (pool_id, self._pools[pool_id].published) for pool_id in sorted(self._pools)
                )
                if snapshot is not None
            )
        return Health(
            ready=not self._stopping.is_set() and all(done.done() for done in self.first_compiled),
            store_available=self._committer.available,
            n_waiting=self._committer.n_waiting,
            n_lost_decisions=self._committer.n_lost_decisions,
            closed_until_us=self._closed_until_us,
            pools=pools,
        )

    # Inside

    def _present(self, runtime: PoolRuntime, now_us: int) -> Snapshot:
        """Return the version to draw from; a pool that was changed gets a new one at once."""
        snapshot, learned = runtime.snapshot(now_us, self._rng)
        if learned is not None:
            self._store_learned(learned)
        return snapshot

    def _published(self, runtime: PoolRuntime) -> Snapshot:
        with self._lock:
            return self._present(runtime, max(self._closed_until_us, runtime.pool.changed_us))

    def _publish(self, runtime: PoolRuntime, now_us: int) -> None:
        """Make the next version beside the decisions, and switch to it between two of them."""
        with self._lock:
            draft = runtime.draft(now_us)
        snapshot = draft.publish(now_us, self._learning_rng)
        with self._lock:
            learned = runtime.install(draft, snapshot)
            if learned is not None:
                self._store_learned(learned)

    def _store_learned(self, learned: Learned) -> None:
        """Queue a version before any decision drawn from it; without a store it still serves."""
        try:
            self._committer.submit([SaveLearned(learned=learned)])
        except StoreUnavailable:
            _log.info("version %d of pool %s is not stored", learned.version, learned.pool_id)

    def _feed(self, runtime: PoolRuntime, until_us: int) -> int:
        with self._lock:
            before = runtime.round_run()
            after = runtime.fed_to
        if before is None:
            return 0
        run = before.copy()
        fed_to, n_fed = feed_rounds(self._store, run, runtime.pool.pool_id, after, until_us)
        with self._lock:
            # A pool that was changed meanwhile has another run, and feeds that one next time.
            if runtime.fed_run is before:
                runtime.fed_run, runtime.fed_to = run, fed_to
        return n_fed

    def _commit(self, operation: Operation) -> object:
        """Commit an operation and wait for its answer."""
        answers = self._committer.submit([operation])
        while self._options.commit_by_hand and not answers.done():
            self._committer.commit_waiting()
        return answers.result()[0]

    def _learn_on(self, clock_us: Callable[[], int]) -> None:
        rest_s = self._options.fold_every_s
        while not self._stopping.wait(rest_s):
            started = time.perf_counter()
            try:
                self.learn(clock_us())
            except StoreUnavailable as error:
                _log.info("learning waits: %s", error)
            except Exception:
                _log.exception("learning failed; it is tried again")
            # A pool that takes long to publish must not keep a core busy all the time.
            took_s = time.perf_counter() - started
            rest_s = max(self._options.fold_every_s, 3 * took_s)

    def _known_decision(self, decision_id: str, pool_id: str, asked: str) -> DecisionRecord | None:
        """Return the decision that an id already stands for."""
        if not is_id(decision_id):
            raise InvalidInput.of("decision_id", ID_RULE, decision_id)
        known = self._recent.get(decision_id)
        if known is None:
            try:
                with self._store.reading() as reader:
                    known = reader.decision(decision_id)
            except StoreUnavailable:
                return None
        if known is not None and (known.pool_id, known.asked) != (pool_id, asked):
            raise Conflict(f"the decision {decision_id!r} was made for another request")
        return known

    def _remember(self, decision: DecisionRecord) -> None:
        with self._lock:
            while len(self._recent) >= MAX_RECENT:
                del self._recent[next(iter(self._recent))]
            self._recent[decision.decision_id] = decision
