"""Decisions that are found by their id: in memory, in progress, or in the store.

Used by `decider`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Lock

from slotwise.errors import InvalidInput
from slotwise.service.limits import ID_RULE, is_id
from slotwise.service.records import DecisionRecord
from slotwise.service.refusals import StoreUnavailable
from slotwise.service.storage.contract import Store
from slotwise.service.storage.group_commit import GroupCommitter

N_THREADS = 4
MAX_RECENT = 50_000
"""Decisions that are cached for a second request."""


class DecisionsById:
    """Finds decisions in memory, in progress, and in the store.

    A store that does not answer within `LOOK_UP_S` is not read again for `REST_S`. A decision made
    meanwhile is *unconfirmed*: another replica may have stored another decision with its id. It is
    looked up again at its next request, and a stored decision takes precedence.
    """

    LOOK_UP_S = 0.1
    REST_S = 1.0

    def __init__(self, store: Store, committer: GroupCommitter) -> None:
        self._store = store
        self._committer = committer
        self._lock = Lock()
        self._recent: dict[str, DecisionRecord] = {}
        self._unconfirmed: set[str] = set()
        self._deciding: dict[str, Future[DecisionRecord]] = {}
        """The ids that are being decided."""
        self._threads = ThreadPoolExecutor(N_THREADS, thread_name_prefix="slotwise-look-up")
        self._rests_until_s = 0.0

    @property
    def store_hangs(self) -> bool:
        """Whether the store did not answer the last look-up in time. Quick."""
        return time.monotonic() < self._rests_until_s

    def recent(self, decision_id: str) -> DecisionRecord | None:
        """Return a decision that is in memory and confirmed. Quick."""
        return None if decision_id in self._unconfirmed else self._recent.get(decision_id)

    def has(self, decision_id: str) -> bool:
        """Return whether a decision is in memory. Quick."""
        return decision_id in self._recent

    def remember(self, decision: DecisionRecord) -> None:
        """Cache a decision; the oldest one is evicted. Quick."""
        with self._lock:
            while len(self._recent) >= MAX_RECENT:
                oldest = next(iter(self._recent))
                del self._recent[oldest]
                self._unconfirmed.discard(oldest)
            self._recent[decision.decision_id] = decision

    def find_or_make(self, decision_id: str, make: Callable[[], DecisionRecord]) -> DecisionRecord:
        """Return the decision of an id; if there is none, `make` one and cache it. Reading.

        Concurrent calls with the same id share one decision.
        """
        if not is_id(decision_id):
            raise InvalidInput.of("decision_id", ID_RULE, decision_id)
        decision: Future[DecisionRecord] = Future()
        with self._lock:
            known = self._recent.get(decision_id)
            if known is not None and decision_id not in self._unconfirmed:
                return known
            decision = self._deciding.setdefault(decision_id, mine := decision)
        if decision is mine:
            self._find_or_make_first(decision, decision_id, known, make)
        return decision.result()

    def close(self) -> None:
        """Abandon look-ups that the store does not answer."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _find_or_make_first(
        self,
        deciding: Future[DecisionRecord],
        decision_id: str,
        known: DecisionRecord | None,
        make: Callable[[], DecisionRecord],
    ) -> None:
        """Give `deciding` its result: the stored decision, else the known one, else a new one."""
        try:
            stored, is_confirmed = None, False
            with suppress(StoreUnavailable):
                stored = self._in_time(self._look_up, decision_id)
                if stored is None:
                    known = known or make()
                    if self._store.sharing is not None:  # another replica may have decided it
                        stored = self._in_time(self._flush_and_look_up, decision_id)
                is_confirmed = True
            decision = stored or known or make()
            if stored is not None:
                self.remember(stored)
            with self._lock:
                (self._unconfirmed.discard if is_confirmed else self._unconfirmed.add)(decision_id)
            deciding.set_result(decision)
        except Exception as error:  # noqa: BLE001
            deciding.set_exception(error)
        finally:
            with self._lock:
                del self._deciding[decision_id]

    def _look_up(self, decision_id: str) -> DecisionRecord | None:
        with self._store.reading() as reader:
            return reader.decision(decision_id)

    def _flush_and_look_up(self, decision_id: str) -> DecisionRecord | None:
        self._committer.commit(())  # waits for everything queued before
        return self._look_up(decision_id)

    def _in_time(
        self, read: Callable[[str], DecisionRecord | None], decision_id: str
    ) -> DecisionRecord | None:
        """Read in another thread; raise `StoreUnavailable` if the store blocks it."""
        if self.store_hangs:
            raise StoreUnavailable("the store does not answer")
        reading = self._threads.submit(read, decision_id)
        try:
            return reading.result(self.LOOK_UP_S)
        except TimeoutError:
            reading.cancel()
            self._rests_until_s = time.monotonic() + self.REST_S
            raise StoreUnavailable("the store does not answer") from None
