"""Decide: draw a page from the present version and queue it for the next commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import RLock

import numpy as np
from msgspec.structs import replace

from slotwise.errors import InvalidInput
from slotwise.service.deciding.decision_ids import DecisionIds
from slotwise.service.deciding.shown_views import ShownViews
from slotwise.service.deciding.snapshot import Snapshot
from slotwise.service.deciding.wishes import NO_WISH, Wish, canonical_wish, checked_wish
from slotwise.service.errors import Conflict, StoreUnavailable, UnknownPool
from slotwise.service.limits import ID_RULE, is_id
from slotwise.service.published import Published, Version
from slotwise.service.records import SECOND_US, DecisionRecord, Pin
from slotwise.service.storage.commands import AppendDecision
from slotwise.service.storage.contract import Store
from slotwise.service.storage.group_commit import GroupCommitter

__all__ = ["Decider"]

MAX_RECENT = 50_000
"""Decisions with an id of the caller's that are kept in memory for a second request."""


class Decider:
    """Draws the pages of all pools from the versions that are installed."""

    def __init__(self, store: Store, committer: GroupCommitter, rng: np.random.Generator) -> None:
        self._store = store
        self._committer = committer
        self._rng = rng
        self._lock = RLock()
        self._snapshots: dict[str, Snapshot] = {}
        self._shown = ShownViews()
        self._ids = DecisionIds()
        self._recent: dict[str, DecisionRecord] = {}

    def install(self, version: Version) -> None:
        """Draw the pool's next pages from this version."""
        self._snapshots[version.pool.settings.pool_id] = Snapshot(version)

    def take_shown(self, pool_id: str) -> Mapping[str, int]:
        """Return how often each link of a pool was shown since the last call."""
        with self._lock:
            return self._shown.take(pool_id)

    def snapshot(self, pool_id: str) -> Snapshot:
        """Return the version that a pool draws from, or raise `UnknownPool`. Quick."""
        snapshot = self._snapshots.get(pool_id)
        if snapshot is None:
            raise UnknownPool(f"there is no pool {pool_id!r}")
        return snapshot

    def published(self) -> list[tuple[str, Published]]:
        """Return the version that each pool draws from, by pool. Quick."""
        snapshots = sorted(self._snapshots.items())
        return [(pool_id, snapshot.published) for pool_id, snapshot in snapshots]

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
        snapshot = self._running(pool_id)
        wish, asked = NO_WISH, ""
        if exclude or pin or slots is not None:
            wish = checked_wish(snapshot.pool, exclude, pin, slots)
            asked = canonical_wish(exclude, pin, slots)
        if decision_id is not None:
            known = self._known_decision(decision_id, pool_id, asked)
            if known is not None:
                return known
        decision = self._choose(snapshot, now_us, wish, asked, decision_id)
        with self._lock:
            self._shown.add(decision)
            if decision_id is not None:
                self._remember(decision)
        self._committer.append(AppendDecision(decision=decision))
        return decision

    def propose(self, pool_id: str, now_us: int, slots: int | None = None) -> DecisionRecord:
        """Choose a page that becomes a view only when `record_view` is called. Quick."""
        snapshot = self._running(pool_id)
        if slots is None:
            return self._choose(snapshot, now_us, NO_WISH, "", None)
        wish = checked_wish(snapshot.pool, (), (), slots)
        return self._choose(snapshot, now_us, wish, canonical_wish((), (), slots), None)

    def record_view(self, proposed: DecisionRecord, now_us: int) -> None:
        """Queue a proposed page that was seen; its windows start now. Quick.

        Called again for the same page, it changes nothing: the first view stays.
        """
        later_us = now_us - proposed.issued_us
        seen = replace(
            proposed,
            issued_us=now_us,
            click_closes_us=proposed.click_closes_us + later_us,
            revenue_until_us=proposed.revenue_until_us + later_us,
            revenue_closes_us=proposed.revenue_closes_us + later_us,
        )
        with self._lock:
            if seen.decision_id not in self._recent:
                self._shown.add(seen)
                self._remember(seen)
        self._committer.append(AppendDecision(decision=seen))

    def _running(self, pool_id: str) -> Snapshot:
        snapshot = self.snapshot(pool_id)
        if snapshot.pool.settings.archived:
            raise UnknownPool(f"the pool {pool_id!r} is archived")
        return snapshot

    def _choose(
        self, snapshot: Snapshot, now_us: int, wish: Wish, asked: str, decision_id: str | None
    ) -> DecisionRecord:
        pool = snapshot.pool.settings
        with self._lock:
            holdout = pool.holdout > 0 and self._rng.random() < pool.holdout
            page = snapshot.holdout_page(wish) if holdout else snapshot.page(wish)
            shown = page.draw(self._rng)
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

    def _known_decision(self, decision_id: str, pool_id: str, asked: str) -> DecisionRecord | None:
        """Return the decision that already has this id, or None."""
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
        while len(self._recent) >= MAX_RECENT:
            del self._recent[next(iter(self._recent))]
        self._recent[decision.decision_id] = decision
