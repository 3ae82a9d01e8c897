"""Decide: draw a page from the present version and queue it for the next commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import RLock
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
from msgspec.structs import replace

from slotwise.service.deciding.averages import AveragedVersion, VersionAverages
from slotwise.service.deciding.decision_ids import DecisionIds
from slotwise.service.deciding.decisions_by_id import DecisionsById
from slotwise.service.deciding.page_mix import PageMix
from slotwise.service.deciding.shown_since import MAX_LATEST, ShownSince
from slotwise.service.deciding.snapshot import Snapshot
from slotwise.service.deciding.visitor_mixes import HoldoutMix
from slotwise.service.deciding.wishes import NO_WISH, Wish, canonical_wish, checked_wish
from slotwise.service.errors import Conflict, UnknownPool
from slotwise.service.published import Published, Shown, Version
from slotwise.service.records import SECOND_US, DecisionRecord, Pin
from slotwise.service.storage.commands import AppendDecision
from slotwise.service.storage.contract import Store
from slotwise.service.storage.group_commit import GroupCommitter
from slotwise.service.visitors import NOBODY, NOTHING_SAID, KnownVisitor

__all__ = ["Decider"]

N_THREADS = 4

_Pages = tuple[PageMix, PageMix | HoldoutMix]
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class _Asked(NamedTuple):
    """What is asked of a page: a version, the wish, the wish as a text, and for whom.

    `pages` are those to draw from, where they are known already.
    """

    snapshot: Snapshot
    wish: Wish
    text: str
    known: KnownVisitor = NOBODY
    key_id: str = ""
    pages: _Pages | None = None


class Decider:
    """Draws the pages of all pools from the versions that are installed."""

    def __init__(self, store: Store, committer: GroupCommitter, rng: np.random.Generator) -> None:
        self._committer = committer
        self._rng = rng
        self._lock = RLock()
        self._snapshots: dict[str, Snapshot] = {}
        self._averages: dict[str, VersionAverages] = {}
        self._shown: dict[str, ShownSince] = {}
        """By pool."""
        self._asked_last: dict[str, _Asked] = {}
        """By key, what was asked last, where that was a page without wishes: most often again."""
        self._ids = DecisionIds()
        self._by_id = DecisionsById(store, committer)
        self._threads = ThreadPoolExecutor(N_THREADS, thread_name_prefix="slotwise-deciding")

    def install(self, version: Version) -> None:
        """Draw the pool's next pages from this version."""
        pool_id = version.pool.settings.pool_id
        snapshot = Snapshot(version, self._snapshots.get(pool_id))
        self._snapshots[pool_id] = snapshot
        self._asked_last = {}
        averages = self._averages.get(pool_id)
        if averages is None:
            self._averages[pool_id] = VersionAverages(snapshot)
        else:
            averages.add(snapshot)

    def take_shown(self, pool_id: str) -> Shown:
        """Return what a pool has shown since the last call."""
        with self._lock:
            shown = self._shown.pop(pool_id, None)
            if shown is not None:
                shown.take_counts()
        return Shown({}) if shown is None else shown.sum()

    def snapshot(self, pool_id: str) -> Snapshot:
        """Return the version that a pool draws from, or raise `UnknownPool`. Quick."""
        snapshot = self._snapshots.get(pool_id)
        if snapshot is None:
            raise UnknownPool(f"there is no pool {pool_id!r}")
        return snapshot

    def averages(self, pool_id: str) -> AveragedVersion:
        """Return the latest versions of a pool as one, the same for a minute. Quick."""
        self.snapshot(pool_id)
        return self._averages[pool_id].kept

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
        visitor: Mapping[str, Any] = NOTHING_SAID,
        key_id: str = "",
    ) -> DecisionRecord:
        """Choose a page from the present version and queue it for the next commit. Reading.

        The same `decision_id` asked again for the same page gets the same answer, also when both
        ask at once; asked for something else it raises `Conflict`.
        Unknown ids in `exclude` are ignored: a page may know links that are gone.
        Raises `UnknownPool` (also for an archived pool), `UnknownLink` for a pin,
        `InvalidInput` for positions, slots and what is said of the visitor.
        """
        asked = self._asked(pool_id, exclude, pin, slots, visitor, key_id)
        if decision_id is None:
            return self._decide(asked, now_us, None)
        made = self._by_id.find_or_make(
            decision_id, lambda: self._decide(asked, now_us, decision_id)
        )
        return self._same(made, asked)

    def decide_at_once(
        self,
        pool_id: str,
        now_us: int,
        exclude: Sequence[str] = (),
        pin: Sequence[Pin] = (),
        slots: int | None = None,
        decision_id: str | None = None,
        visitor: Mapping[str, Any] = NOTHING_SAID,
        key_id: str = "",
    ) -> DecisionRecord | None:
        """Decide as `decide` does, or return None where that takes more than memory. Quick.

        It takes more to look an id up in the store and to solve the page of a new wish.
        """
        if decision_id is None and slots is None and not (exclude or pin or visitor):
            last = self._asked_last.get(key_id)
            if last is not None and last.snapshot is self._snapshots.get(pool_id):
                return self._decide(last, now_us, None)
        asked = self._asked(pool_id, exclude, pin, slots, visitor, key_id)
        if decision_id is not None:
            known = self._by_id.recent(decision_id)
            return None if known is None else self._same(known, asked)
        if not asked.snapshot.has_pages_for(asked.wish):
            return None
        return self._decide(asked, now_us, None)

    def beside(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **rest: Arguments.kwargs
    ) -> Future[Result]:
        """Call `decide` or `propose` in a thread that is kept for them."""
        return self._threads.submit(function, *args, **rest)

    def close(self) -> None:
        """Finish what is decided beside."""
        self._threads.shutdown()

    def propose(
        self,
        pool_id: str,
        now_us: int,
        slots: int | None = None,
        visitor: Mapping[str, Any] = NOTHING_SAID,
    ) -> DecisionRecord:
        """Choose a page that becomes a view only when `record_view` is called.

        Reading, unless `proposes_at_once`.
        """
        asked = self._asked(pool_id, (), (), slots, visitor)
        pages = self._pages(asked)
        with self._lock:
            return self._draw(asked, pages, now_us, None)

    def proposes_at_once(
        self, pool_id: str, slots: int | None, visitor: Mapping[str, Any] = NOTHING_SAID
    ) -> bool:
        """Say whether `propose` takes no more than memory. Quick."""
        asked = self._asked(pool_id, (), (), slots, visitor)
        return slots is None and asked.snapshot.has_pages_for(asked.wish)

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
            if self._by_id.recent(seen.decision_id) is None:
                self._count_shown(seen)
                self._by_id.remember(seen)
        self._committer.append(AppendDecision(decision=seen))

    def _asked(
        self,
        pool_id: str,
        exclude: Sequence[str],
        pin: Sequence[Pin],
        slots: int | None,
        visitor: Mapping[str, Any],
        key_id: str = "",
    ) -> _Asked:
        """Check what is asked of a page."""
        snapshot = self.snapshot(pool_id)
        if snapshot.pool.settings.archived:
            raise UnknownPool(f"the pool {pool_id!r} is archived")
        has_features = bool(snapshot.pool.settings.features)
        known = snapshot.guests.know(visitor) if visitor or has_features else NOBODY
        wish, text = NO_WISH, ""
        if exclude or pin or slots is not None:
            wish = checked_wish(snapshot.pool, exclude, pin, slots)
            text = canonical_wish(exclude, pin, slots)
        if snapshot.depends_on_visitors:
            wish = Wish(wish.exclude, wish.pinned, wish.slots, known.places)
        asked = _Asked(snapshot, wish, text, known, key_id)
        if wish is NO_WISH and not has_features:
            asked = asked._replace(pages=self._pages(asked))
            self._asked_last[key_id] = asked
        return asked

    def _decide(self, asked: _Asked, now_us: int, decision_id: str | None) -> DecisionRecord:
        pages = asked.pages or self._pages(asked)
        with self._lock:
            decision = self._draw(asked, pages, now_us, decision_id)
            self._count_shown(decision, pages[decision.holdout])
            if decision_id is not None:
                self._by_id.remember(decision)
        self._committer.append(AppendDecision(decision))
        return decision

    @staticmethod
    def _same(known: DecisionRecord, asked: _Asked) -> DecisionRecord:
        """Return the decision of an id, unless it was made for something else."""
        pool_id = asked.snapshot.pool.settings.pool_id
        this_request = (pool_id, asked.text, asked.known.values)
        if (known.pool_id, known.asked, known.visitor) != this_request:
            raise Conflict(f"the decision {known.decision_id!r} was made for another request")
        return known

    @staticmethod
    def _pages(asked: _Asked) -> _Pages:
        """Return the pages to draw from: the policy's, and one at random for the holdout."""
        snapshot, wish = asked.snapshot, asked.wish
        page = snapshot.page(wish)
        return page, snapshot.holdout_page(wish) if snapshot.pool.settings.holdout else page

    def _draw(
        self, asked: _Asked, pages: _Pages, now_us: int, decision_id: str | None
    ) -> DecisionRecord:
        """Draw a page; the caller has the lock."""
        snapshot, _, text, known, key_id, _ = asked
        pool = snapshot.pool.settings
        holdout = pool.holdout > 0 and self._rng.random() < pool.holdout
        page = pages[holdout]
        shown, random_order = page.draw(self._rng), False
        if snapshot.slots is not None and not page.fallback:
            shown, random_order = snapshot.slots.arrange(
                shown, page.pinned, self._rng, at_random=holdout
            )
        new_id = decision_id or self._ids.new(now_us)
        click_closes_us = now_us + pool.click_window_s * SECOND_US
        revenue_until_us = now_us + pool.revenue_window_s * SECOND_US
        # By position, in the order of the fields: by name it would take six times as long.
        return DecisionRecord(
            new_id,
            pool.pool_id,
            now_us,
            click_closes_us,
            revenue_until_us,
            max(click_closes_us, revenue_until_us),  # revenue_closes_us
            pool.currency,
            pool.max_revenue_micros,
            snapshot.policy,
            snapshot.version,
            page.floor,
            shown,
            page.min_propensity,
            snapshot.pool_key,
            known.values,
            known.segment,
            random_order,
            holdout,
            page.fallback,
            text,  # asked
            0,  # stored_us
            True,  # learned
            key_id,
        )

    def _count_shown(
        self, decision: DecisionRecord, page: PageMix | HoldoutMix | None = None
    ) -> None:
        """Count a page, in the mix that it was just drawn from where that can count it."""
        shown = self._shown.get(decision.pool_id)
        if shown is None:
            shown = self._shown[decision.pool_id] = ShownSince()
        if isinstance(page, PageMix) and not decision.segment and page.count_drawn():
            shown.mixes.add(page)
            return
        shown.latest.append(decision)
        if len(shown.latest) >= MAX_LATEST:
            shown.count()
