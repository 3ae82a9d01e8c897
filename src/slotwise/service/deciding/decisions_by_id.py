"""Decisions whose ids the callers chose: each is made once, also when several ask at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from threading import Lock

from slotwise.errors import InvalidInput
from slotwise.service.errors import StoreUnavailable
from slotwise.service.limits import ID_RULE, is_id
from slotwise.service.records import DecisionRecord
from slotwise.service.storage.contract import Store
from slotwise.service.storage.group_commit import GroupCommitter

__all__ = ["DecisionsById"]

MAX_RECENT = 50_000
"""Decisions that are kept in memory for a second request."""


class DecisionsById:
    """Finds decisions in memory, among those that are being made, and in the store."""

    def __init__(self, store: Store, committer: GroupCommitter) -> None:
        self._store = store
        self._committer = committer
        self._lock = Lock()
        self._recent: dict[str, DecisionRecord] = {}
        self._deciding: dict[str, Future[DecisionRecord]] = {}
        """The ids that are being decided."""

    def recent(self, decision_id: str) -> DecisionRecord | None:
        """Return a decision that is kept in memory. Quick."""
        return self._recent.get(decision_id)

    def remember(self, decision: DecisionRecord) -> None:
        """Keep a decision in memory; the oldest one makes room. Quick."""
        with self._lock:
            while len(self._recent) >= MAX_RECENT:
                del self._recent[next(iter(self._recent))]
            self._recent[decision.decision_id] = decision

    def find_or_make(self, decision_id: str, make: Callable[[], DecisionRecord]) -> DecisionRecord:
        """Return the decision of an id; `make` one, and remember it, where there is none. Reading.

        Of several that ask at once one makes it and the others wait.
        """
        if not is_id(decision_id):
            raise InvalidInput.of("decision_id", ID_RULE, decision_id)
        decision: Future[DecisionRecord] = Future()
        with self._lock:
            known = self._recent.get(decision_id)
            if known is not None:
                return known
            decision = self._deciding.setdefault(decision_id, mine := decision)
        if decision is mine:
            self._find_or_make_first(decision, decision_id, make)
        return decision.result()

    def _find_or_make_first(
        self,
        deciding: Future[DecisionRecord],
        decision_id: str,
        make: Callable[[], DecisionRecord],
    ) -> None:
        try:
            stored = None
            with suppress(StoreUnavailable), self._store.reading() as reader:
                stored = reader.decision(decision_id)
            decision = stored or make()
            if stored is None and self._store.sharing is not None:
                decision = self._first_stored(decision)
            deciding.set_result(decision)
        except Exception as error:
            deciding.set_exception(error)
        finally:
            with self._lock:
                del self._deciding[decision_id]

    def _first_stored(self, decision: DecisionRecord) -> DecisionRecord:
        """Return what the store has under an id: another replica may have been asked, too."""
        with suppress(StoreUnavailable):
            self._committer.commit(())  # with it, everything that was queued before
            with self._store.reading() as reader:
                stored = reader.decision(decision.decision_id)
            if stored is not None:
                self.remember(stored)
                return stored
        return decision
