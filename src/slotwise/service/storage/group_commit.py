"""Group commit: one thread writes, and many writes share one commit.

Feedback is acknowledged after its commit. Decisions are queued without waiting: if one is lost, its
feedback is lost with it, which causes no bias. While the store is unavailable, feedback is refused,
since its sender can send it again. Decisions and clicks on links, which nobody sends again, stay in
the queue, and the commit is retried. When the queue is full, the oldest are dropped; the stored
views on which a dropped click may have been are then not learned. A store that does not answer for
long counts as unavailable. Used by `alert_receivers`, `deciding`, `ended_sessions`, `learning`,
`pool_directory`, `pool_notes` and `service`.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import chain
from operator import attrgetter
from threading import Event as Signal, Lock, RLock, Thread
from typing import Any, NamedTuple, TypeVar

from slotwise.service.records import ClickEvent, DecisionRecord, Event, Outcome, ShownLink
from slotwise.service.refusals import StoreUnavailable, Superseded
from slotwise.service.storage.contract import (
    AppendDecision,
    ExcludeViews,
    Operation,
    RecordEvent,
    ShownViews,
    Store,
)
from slotwise.service.storage.sql_reads import StoreReader
from slotwise.service.thread_priority import REQUESTS, request_priority

_log = logging.getLogger(__name__)

_settling = RLock()
"""Held to complete or to fail a write: the store may answer while the write is being refused."""

Answers = Future[list[object]]


class _Awaited(NamedTuple):
    """Operations that go into one commit together, and the future of their answers."""

    operations: Sequence[Operation]
    answers: Answers
    is_click: bool = False
    """Whether it is a click on a link, which waits for a store that is unavailable."""


_TOO_MANY = "too many writes wait for the store"
_Item = AppendDecision | _Awaited
"""An item in the queue: a decision, whose result is not awaited, or operations."""


_link_id = attrgetter("link_id")


class _PoolPages:
    """The committed pages of one pool since the last call for it."""

    def __init__(self, n_before: int) -> None:
        self.n_before = n_before
        """Number of decisions of all pools that were committed before."""
        self.n_pages = 0
        self.links: Counter[str] = Counter()


class CommittedPages:
    """Counts the links on committed pages, so that pages need not be read from the store.

    For a store that one process writes. Decisions have consecutive positions there, so the count is
    exact if the position advanced by as many as decisions were counted. Otherwise, because one of
    them was committed twice, the pages are read. A pool is counted from the first call for it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._n_committed = 0
        self._last_id = ""
        self._pools: dict[str, _PoolPages] = {}

    def add(self, decisions: Sequence[DecisionRecord]) -> None:
        """Count decisions in the order of their commit."""
        with self._lock:
            self._n_committed += len(decisions)
            self._last_id = decisions[-1].decision_id
            if not self._pools:
                return
            shown: dict[str, list[tuple[ShownLink, ...]]] = defaultdict(list)
            for decision in decisions:
                shown[decision.pool_id].append(decision.shown)
            for pool_id in self._pools.keys() & shown.keys():
                pool, pages = self._pools[pool_id], shown[pool_id]
                pool.n_pages += len(pages)
                pool.links.update(map(_link_id, chain.from_iterable(pages)))

    def shown_since(self, reader: StoreReader, pool_id: str, after: int) -> ShownViews:
        """Return the same as the reader's method of this name, usually without reading pages."""
        with self._lock:
            last_id, n_committed = self._last_id, self._n_committed
            counted = self._pools.pop(pool_id, None)
            self._pools[pool_id] = since = _PoolPages(n_committed)
        until = -1
        try:
            place = reader.place_of(last_id) if last_id else 0
            if counted is not None and place - after == n_committed - counted.n_before:
                until = place
                return ShownViews(until, counted.n_pages, counted.links)
            read = reader.shown_since(pool_id, after)
            until = read.until if read.until == place else -1
            return read
        finally:
            if until < 0:  # what is counted from here on does not begin where the answer ends
                with self._lock:
                    if self._pools.get(pool_id) is since:
                        del self._pools[pool_id]


class GroupCommitter:
    """Queues operations for a store and commits them in groups.

    `commit_every_s` is how long a write waits so that others can share its commit. With `by_hand`
    there is no thread: commits happen only in calls of `commit_waiting`, for tests.
    """

    MAX_OPERATIONS = 2_000
    """Operations of one commit; limits how long feedback waits for others."""
    DECISIONS_S = 0.05
    """How long decisions wait for others if no feedback is queued: a commit costs half a
    millisecond of CPU time, regardless of its number of decisions."""
    RETRY_S = 0.5
    """Seconds between two attempts to commit while the store is unavailable."""
    SLOW_S = 2.0
    """Seconds after which readiness reports a store that has not answered."""
    STUCK_S = 30.0
    """Seconds after which a store that has not answered counts as unavailable."""

    def __init__(
        self, store: Store, commit_every_s: float, max_waiting: int, by_hand: bool = False
    ) -> None:
        self._store = store
        self._commit_every_s = commit_every_s
        self._max_waiting = max_waiting
        self._by_hand = by_hand
        self._waiting: deque[_Item] = deque()
        self._committing = Lock()
        self._starting = Lock()
        self._wake = Signal()
        self._is_woken = False
        """Whether `_wake` is set, or about to be; quicker to read."""
        self._is_awaited = Signal()
        self._closing = Signal()
        self._thread: Thread | None = None
        self._under_way: tuple[float, list[_Item]] | None = None
        """The group whose commit is in progress, and its start."""
        self.committed = CommittedPages()
        self.available = True
        """Whether the last commit reached the store."""
        self.n_lost_decisions = 0
        self.n_lost_clicks = 0
        self._dropped: tuple[int, int] | None = None
        """The times of the first and last click that was dropped since the last commit."""

    @property
    def answers(self) -> bool:
        """Whether the last commit reached the store and the present one is not slow."""
        under_way = self._under_way
        is_slow = under_way is not None and time.monotonic() - under_way[0] > self.SLOW_S
        return self.available and not is_slow

    @property
    def n_waiting(self) -> int:
        """How many writes wait for their commit."""
        return len(self._waiting)

    def append(self, operation: AppendDecision) -> None:
        """Queue a decision; never fails and never waits."""
        waiting = self._waiting
        if len(waiting) >= self._max_waiting:
            self._drop_oldest(_TOO_MANY)
        waiting.append(operation)
        if not self._is_woken:
            self._wake_up()

    def submit(self, operations: Sequence[Operation]) -> Answers:
        """Queue operations; the future has their results after the commit.

        Raises `StoreUnavailable` at once if the store is known to be unavailable.
        """
        if self._closing.is_set():
            raise StoreUnavailable("the service is stopping")
        if not self.available:
            raise StoreUnavailable("the store is away")
        if len(self._waiting) >= self._max_waiting:
            raise StoreUnavailable(f"{self._max_waiting} writes wait for the store already")
        answers: Answers = Future()
        self._waiting.append(_Awaited(operations, answers))
        self._wake_up()
        self._is_awaited.set()
        return answers

    def submit_events(self, events: Sequence[Event], now_us: int) -> Future[list[Outcome]]:
        """Record events, one outcome each in the same order, set after their commit.

        Raises `StoreUnavailable`, at once or as the future's error: no event of the list was
        acknowledged and all of them may be sent again.
        """
        operations = [RecordEvent(event=event, received_us=now_us) for event in events]
        outcomes: Any = self.submit(operations)
        return outcomes  # type: ignore[no-any-return]

    def submit_click(self, click: ClickEvent, now_us: int) -> Answers:
        """Record a click on a link; it waits for a store that is unavailable, like a decision."""
        waiting = self._waiting
        if len(waiting) >= self._max_waiting:
            self._drop_oldest(_TOO_MANY)
        answers: Answers = Future()
        operation = RecordEvent(event=click, received_us=now_us)
        waiting.append(_Awaited((operation,), answers, is_click=True))
        self._wake_up()
        if self.available:
            self._is_awaited.set()
        return answers

    def commit(self, operations: Sequence[Operation]) -> list[object]:
        """Commit operations and wait for their results."""
        answers = self.submit(operations)
        while self._by_hand and not answers.done():
            self.commit_waiting()
        return answers.result()

    def close(self) -> None:
        """Commit all queued writes and stop; later writes are refused."""
        self._closing.set()
        self._is_awaited.set()
        self._wake.set()
        with self._starting:
            thread = self._thread
        if thread is not None:
            thread.join()
        while self._waiting and self.commit_waiting():
            pass
        while self._waiting:
            self._drop_oldest("the service stopped while the store was away")

    def commit_waiting(self) -> bool:
        """Commit one group of queued writes; return whether the store could be reached."""
        with self._committing:
            group = self._next_group()
            self._under_way = time.monotonic(), group
            try:
                self._commit(group)
            except StoreUnavailable as error:
                if self.available:
                    _log.warning("store away: %s", error)
                self.available = False
                self._waiting.extendleft(reversed([item for item in group if _is_kept(item)]))
                while len(self._waiting) > self._max_waiting:
                    self._drop_oldest(_TOO_MANY)
                for item in group:
                    if not _is_kept(item):
                        _fail(item, error)
                return False
            finally:
                self._under_way = None
            if not self.available:
                _log.warning("store back")
            self.available = True
            return True

    def refuse_if_stuck(self, now_s: float) -> None:
        """Refuse the writes of a commit that takes too long; they may be committed nevertheless.

        For a thread that does not wait for commits. `now_s` is on the clock of `time.monotonic`.
        """
        under_way = self._under_way
        if under_way is None or now_s - under_way[0] < self.STUCK_S or not self.available:
            return
        _log.warning("store away: it has not answered for %g s", self.STUCK_S)
        self.available = False
        error = StoreUnavailable(f"the store has not answered for {self.STUCK_S:g} s")
        for item in under_way[1]:
            if not _is_kept(item):
                _fail(item, error)
        for _ in range(len(self._waiting)):
            try:
                item = self._waiting.popleft()
            except IndexError:  # the store has just answered, and the rest is committed
                return
            if _is_kept(item):
                self._waiting.append(item)
            else:
                self.n_lost_decisions += _n_decisions(item)
                _fail(item, error)

    def _wake_up(self) -> None:
        """Wake the thread because the queue is not empty."""
        self._is_woken = True
        if self._by_hand:
            return
        if self._thread is None:
            self._start()
        self._wake.set()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None and not self._closing.is_set():
                self._thread = Thread(target=self._run, name="slotwise-commits", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        request_priority(REQUESTS)  # feedback waits for it
        while not self._closing.is_set():
            self._wake.wait(None if self.available else self.RETRY_S)
            self._wake.clear()
            self._is_woken = False  # all that is queued so far is in the next group
            if self.available:
                self._is_awaited.wait(self.DECISIONS_S)
            self._is_awaited.clear()
            self._closing.wait(self._commit_every_s if self.available else self.RETRY_S)
            self.commit_waiting()
            if self.available and self._waiting:
                # Decisions queued meanwhile wait for the next group, unless there are many.
                self._wake_up()
                if len(self._waiting) >= self.MAX_OPERATIONS:
                    self._is_awaited.set()

    def _next_group(self) -> list[_Item]:
        group: list[_Item] = []
        n_operations = 0
        while self._waiting and n_operations < self.MAX_OPERATIONS:
            item = self._waiting.popleft()
            n_operations += len(item.operations) if isinstance(item, _Awaited) else 1
            group.append(item)
        return group

    def _commit(self, group: list[_Item]) -> None:
        """Commit a group; if the store rejects a write, the others are still committed."""
        dropped = self._dropped
        operations: list[Operation] = []
        if dropped is not None:
            operations.append(ExcludeViews(from_us=dropped[0], until_us=dropped[1]))
        awaited: list[tuple[int, _Awaited]] = []
        for item in group:
            if isinstance(item, _Awaited):
                awaited.append((len(operations), item))
                operations += item.operations
            else:
                operations.append(item)
        try:
            answers = self._store.commit(operations)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001
            if len(group) == 1:
                if isinstance(error, Superseded):
                    _log.info("a write was refused by the store: %s", error)
                else:
                    _log.exception("a write was refused by the store")
                self.n_lost_decisions += _n_decisions(group[0])
                _fail(group[0], error)
                return
            for done, item in enumerate(group):
                try:
                    self._commit([item])
                except StoreUnavailable:
                    del group[:done]
                    raise
            return
        if self._dropped == dropped:
            self._dropped = None
        decisions = [one.decision for one in operations if isinstance(one, AppendDecision)]
        if decisions:
            self.committed.add(decisions)
        for start, item in awaited:
            _answer(item, answers[start : start + len(item.operations)])

    def _drop_oldest(self, reason: str) -> None:
        try:
            item = self._waiting.popleft()
        except IndexError:
            return
        self.n_lost_decisions += _n_decisions(item)
        if isinstance(item, _Awaited) and item.is_click:
            self.n_lost_clicks += 1
            [operation] = item.operations
            assert isinstance(operation, RecordEvent)
            first_us, last_us = self._dropped or (operation.received_us, 0)
            self._dropped = first_us, max(last_us, operation.received_us)
        _fail(item, StoreUnavailable(reason))


def _is_kept(item: _Item) -> bool:
    """Return whether an item waits for a store that is unavailable."""
    return isinstance(item, AppendDecision) or item.is_click


def _n_decisions(item: _Item) -> int:
    if isinstance(item, AppendDecision):
        return 1
    return sum(isinstance(operation, AppendDecision) for operation in item.operations)


def _answer(item: _Awaited, answers: list[object] | Exception) -> None:
    # A caller that disconnected has cancelled its future, and one that waited too long has got an
    # error; their writes are stored all the same.
    future = item.answers
    with _settling:
        if future.done() or not future.set_running_or_notify_cancel():
            return
        if isinstance(answers, Exception):
            future.set_exception(answers)
        else:
            future.set_result(answers)


def _fail(item: _Item, error: Exception) -> None:
    if isinstance(item, _Awaited):
        _answer(item, error)


First = TypeVar("First")
Second = TypeVar("Second")


def then(
    first: Future[First], function: Callable[[First], Second | Future[Second]]
) -> Future[Second]:
    """Return a future with the result of `function`, called with the result of the first future.

    If that is a future itself, its result is awaited.
    """
    second: Future[Second] = Future()

    def finish(done: Future[Any], make: Callable[[Any], Any]) -> None:
        # Committed changes are applied even if the caller no longer waits.
        try:
            result = make(done.result())
        except Exception as error:  # noqa: BLE001
            if second.set_running_or_notify_cancel():
                second.set_exception(error)
            return
        if isinstance(result, Future):
            result.add_done_callback(lambda later: finish(later, lambda value: value))
        elif second.set_running_or_notify_cancel():
            second.set_result(result)

    first.add_done_callback(lambda done: finish(done, function))
    return second
