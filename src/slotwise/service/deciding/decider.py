"""Decide: draw a page from the present version and queue it for the next commit.

Used by `api`, `reporting` and `service`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock, RLock
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from slotwise.features import KnownVisitor
from slotwise.player.own_page import visitor_number
from slotwise.selection.promise import GROUPS, OWN, RANDOM
from slotwise.service.deciding.averaged_version import AveragedVersion, VersionAverages
from slotwise.service.deciding.decisions_by_id import N_THREADS, DecisionsById
from slotwise.service.deciding.installed_version import InstalledVersion
from slotwise.service.deciding.page_mix import HoldoutMix, PageMix
from slotwise.service.deciding.page_request import (
    ANY_PAGE,
    NO_CONSTRAINTS,
    PageConstraints,
    PageRequest,
    canonical_constraints,
    checked_constraints,
)
from slotwise.service.pool_version import (
    MAX_LATEST,
    Shown,
    ShownSince,
    StoredVersion,
    Version,
)
from slotwise.service.records import DAY_US, SECOND_US, DecisionRecord, Pin
from slotwise.service.refusals import Conflict, UnknownPool
from slotwise.service.storage.contract import AppendDecision, Store
from slotwise.service.storage.group_commit import GroupCommitter

NOBODY = KnownVisitor((), {}, {})
"""The visitor of every page of a pool without features."""


_RANDOM_BYTES, _RANDOM_AHEAD = 8, 256
_random_texts: list[str] = []
"""Made ahead: a call of the system for each id would take as long as the rest of it."""
os.register_at_fork(after_in_child=_random_texts.clear)


def new_decision_id(now_us: int) -> str:
    """Return an id made of a time and 64 random bits.

    >>> first, second = new_decision_id(1), new_decision_id(1)
    >>> len(first), first[:13], first != second
    (29, '0000000000001', True)
    """
    try:
        random = _random_texts.pop()
    except IndexError:
        made = os.urandom(_RANDOM_BYTES * _RANDOM_AHEAD).hex()
        length = 2 * _RANDOM_BYTES
        _random_texts.extend(made[k : k + length] for k in range(length, len(made), length))
        random = made[:length]
    return f"{now_us:013x}{random}"


PROPOSED_US = DAY_US
"""How long after its proposal a page may still become a view."""
HELD_US = 600 * SECOND_US
"""How long a proposed page reserves clicks of a hard budget. Pages are seen within seconds, and the
holder of a page's public key could otherwise reserve a whole budget with unseen pages."""


_Pages = tuple[PageMix, PageMix, PageMix | HoldoutMix]
"""A chosen page, the own page and a random one; where a group has no pages, another page."""


class _Draw(NamedTuple):
    """A checked request: version, constraints, constraints as text, visitor and key.

    `pages` are those to draw from, if already solved.
    """

    installed: InstalledVersion
    constraints: PageConstraints
    text: str
    known: KnownVisitor = NOBODY
    key_id: str = ""
    pages: _Pages | None = None


class Decider:
    """Draws the pages of all pools from the installed versions."""

    def __init__(self, store: Store, committer: GroupCommitter, rng: np.random.Generator) -> None:
        self._committer = committer
        self._rng = rng
        self._lock = RLock()
        self._installed: dict[str, InstalledVersion] = {}
        self._averages: dict[str, VersionAverages] = {}
        self._shown: dict[str, ShownSince] = {}
        """By pool."""
        self._any_page: dict[tuple[str, str], _Draw] = {}
        """The request for any page, by pool and key: what most callers request."""
        self.by_id = DecisionsById(store, committer)
        self.group_secret: Callable[[str], bytes] = str.encode
        """Returns the secret from which the groups of a pool's visitors follow."""
        self._secrets: dict[str, bytes] = {}
        self._renewing = Lock()
        self._hard_shown: dict[str, Counter[str]] = {}
        """By pool and rule with a hard budget, the slots of its links since the start."""
        self._proposed: dict[str, dict[str, tuple[int, dict[str, int]]]] = {}
        """By pool and id, when a page with such links was proposed; removed when it is seen."""
        self.threads = ThreadPoolExecutor(N_THREADS, thread_name_prefix="slotwise-deciding")
        """For calls of `decide` without an id and of `propose` that must solve a page."""
        self.id_threads = ThreadPoolExecutor(N_THREADS, thread_name_prefix="slotwise-ids")
        """For pages with an id: they may wait for the store, which other pages must not."""

    def install(self, version: Version) -> None:
        """Draw the pool's next pages from this version."""
        pool_id = version.pool.settings.pool_id
        installed = InstalledVersion(version, self._installed.get(pool_id))
        self._installed[pool_id] = installed
        self._any_page = {}
        averages = self._averages.get(pool_id)
        if averages is None:
            self._averages[pool_id] = VersionAverages(installed)
        else:
            averages.add(installed)

    def renew(self, pool_id: str, now_us: int) -> None:
        """Install the same version with other links once one of them starts or ends."""
        if now_us < self.installed(pool_id).until_us:
            return
        with self._renewing:
            last = self.installed(pool_id)
            if now_us >= last.until_us:
                self._install_again(last, now_us)

    def take_shown(self, pool_id: str) -> Shown:
        """Return what a pool has shown since the last call."""
        with self._lock:
            shown = self._shown.pop(pool_id, None)
        return Shown({}) if shown is None else shown.sum()

    def installed(self, pool_id: str) -> InstalledVersion:
        """Return the version that a pool draws from, or raise `UnknownPool`. Quick."""
        installed = self._installed.get(pool_id)
        if installed is None:
            raise UnknownPool(f"there is no pool {pool_id!r}")
        return installed

    def averages(self, pool_id: str) -> AveragedVersion:
        """Return the average of a pool's latest versions, renewed once a minute. Quick."""
        self.installed(pool_id)
        return self._averages[pool_id].kept

    def stored_versions(self) -> list[tuple[str, StoredVersion]]:
        """Return the version that each pool draws from, by pool. Quick."""
        all_installed = sorted(self._installed.items())
        return [(pool_id, installed.stored) for pool_id, installed in all_installed]

    def decide(  # noqa: PLR0913
        self,
        pool_id: str,
        now_us: int,
        exclude: Sequence[str] = (),
        pin: Sequence[Pin] = (),
        slots: int | None = None,
        decision_id: str | None = None,
        visitor: Mapping[str, object] = ANY_PAGE.visitor,
        key_id: str = "",
        visitor_key: str | None = None,
    ) -> DecisionRecord:
        """Answer the request with these fields. Reading."""
        request = PageRequest(exclude, pin, slots, decision_id, visitor, visitor_key)
        return self.answer(pool_id, now_us, request, key_id)

    def answer(
        self, pool_id: str, now_us: int, request: PageRequest, key_id: str
    ) -> DecisionRecord:
        """Choose a page from the present version and queue it for the next commit. Reading.

        A repeated request with the same `decision_id` gets the same page, also when both are
        concurrent; a different request with that id raises `Conflict`. Raises `UnknownPool` (also
        for an archived pool), `UnknownLink` for a pin, `InvalidInput` for exclusions, positions,
        slots and the visitor's features.
        """
        self.renew(pool_id, now_us)
        draw = self._checked(pool_id, request, key_id)
        number = self._number(pool_id, request.visitor_key)
        decision_id = request.decision_id
        if decision_id is None:
            return self._decide(draw, now_us, None, number)
        made = self.by_id.find_or_make(
            decision_id, lambda: self._decide(draw, now_us, decision_id, number)
        )
        return self._same(made, draw)

    def answer_at_once(
        self, pool_id: str, now_us: int, request: PageRequest, key_id: str
    ) -> DecisionRecord | None:
        """Answer as `answer` does, or return None where memory alone is not enough. Quick.

        It is not enough to look up an id in the store, and to solve a page with new constraints or
        after a link has started or ended.
        """
        installed = self.installed(pool_id)
        if now_us >= installed.until_us:
            return None
        if request is ANY_PAGE or request.is_for_any_page:
            known = self._any_page.get((pool_id, key_id))
            if known is not None and known.installed is installed:
                return self._decide(known, now_us, None, self._number(pool_id, request.visitor_key))
        draw = self._checked(pool_id, request, key_id)
        if request.decision_id is not None:
            made = self.by_id.recent(request.decision_id)
            return None if made is None else self._same(made, draw)
        if not draw.installed.has_pages_for(draw.constraints):
            return None
        return self._decide(draw, now_us, None, self._number(pool_id, request.visitor_key))

    def _number(self, pool_id: str, visitor_key: str | None) -> float | None:
        """Return the number that decides the group of a visitor; None to draw one."""
        if visitor_key is None:
            return None
        secret = self._secrets.get(pool_id)
        if secret is None:
            secret = self._secrets[pool_id] = self.group_secret(pool_id)
        return visitor_number(secret, visitor_key)

    def renew_secrets(self) -> None:
        """Derive the secrets of pools again, after a key of the store changed."""
        self._secrets = {}

    def close(self) -> None:
        """Finish the decisions of other threads."""
        self.threads.shutdown()
        self.id_threads.shutdown()
        self.by_id.close()

    def propose(
        self,
        pool_id: str,
        now_us: int,
        slots: int | None = None,
        visitor: Mapping[str, object] = ANY_PAGE.visitor,
        visitor_key: str | None = None,
    ) -> DecisionRecord:
        """Choose a page that becomes a view only when `record_view` is called.

        Reading, unless `proposes_at_once`.
        """
        self.renew(pool_id, now_us)
        request = PageRequest(slots=slots, visitor=visitor)
        draw, number = self._checked(pool_id, request), self._number(pool_id, visitor_key)
        pages = draw.pages or self._pages(draw)
        with self._lock:
            decision = self._draw_within_budget(draw, pages, now_us, None, number)
            slots_of = self._hard_slots(draw.installed, decision)
            if any(slots_of.values()):
                waiting = self._proposed.setdefault(pool_id, {})
                waiting[decision.decision_id] = (now_us, slots_of)
            return decision

    def proposes_at_once(
        self, pool_id: str, slots: int | None, visitor: Mapping[str, object] = ANY_PAGE.visitor
    ) -> bool:
        """Return whether `propose` needs only memory. Quick."""
        draw = self._checked(pool_id, PageRequest(slots=slots, visitor=visitor))
        return slots is None and draw.installed.has_pages_for(draw.constraints)

    def record_view(self, proposed: DecisionRecord, now_us: int) -> None:
        """Queue a proposed page that was seen; its windows start now. Quick.

        A second call for the same page changes nothing.
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
            if not self.by_id.has(seen.decision_id):
                known = self._proposed.get(seen.pool_id, {}).pop(seen.decision_id, None)
                installed = self._installed.get(seen.pool_id)
                if (
                    known is None and installed is not None
                ):  # proposed before a restart, or long ago
                    slots_of = self._hard_slots(installed, seen)
                    self._hard_shown.setdefault(seen.pool_id, Counter()).update(slots_of)
                self._count_shown(seen)
                self.by_id.remember(seen)
        self._committer.append(AppendDecision(decision=seen))

    def _checked(self, pool_id: str, request: PageRequest, key_id: str = "") -> _Draw:
        """Check a request for a page."""
        installed = self.installed(pool_id)
        if installed.pool.settings.archived:
            raise UnknownPool(f"the pool {pool_id!r} is archived")
        exclude, pin, slots, _, visitor, _ = request
        has_features = bool(installed.pool.settings.features)
        known = installed.known_visitors.know(visitor) if visitor or has_features else NOBODY
        constraints, text = NO_CONSTRAINTS, ""
        if exclude or pin or slots is not None:
            constraints = checked_constraints(installed.pool, exclude, pin, slots)
            text = canonical_constraints(exclude, pin, slots)
        if installed.depends_on_visitors:
            constraints = PageConstraints(
                constraints.exclude, constraints.pinned, constraints.slots, known.places
            )
        draw = _Draw(installed, constraints, text, known, key_id)
        if constraints is NO_CONSTRAINTS and not has_features:
            draw = draw._replace(pages=self._pages(draw))
            self._any_page[pool_id, key_id] = draw
        return draw

    def _decide(
        self, draw: _Draw, now_us: int, decision_id: str | None, number: float | None
    ) -> DecisionRecord:
        pages = draw.pages or self._pages(draw)
        with self._lock:
            decision = self._draw_within_budget(draw, pages, now_us, decision_id, number)
            self._count_shown(decision)
            if decision_id is not None:
                self.by_id.remember(decision)
        self._committer.append(AppendDecision(decision))
        return decision

    def _draw_within_budget(
        self,
        draw: _Draw,
        pages: _Pages,
        now_us: int,
        decision_id: str | None,
        number: float | None,
    ) -> DecisionRecord:
        """Draw a page within the hard budgets, and count it; the caller has the lock."""
        decision = self._draw(draw, pages, now_us, decision_id, number)
        while draw.installed.hard and (spent := self._spent(draw.installed, decision)):
            # Rare: the budget of a rule is spent, and its links are left out from now on.
            draw = draw._replace(installed=self._install_again(draw.installed, now_us, spent))
            pages = self._pages(draw)
            decision = self._draw(draw, pages, now_us, decision_id, number)
        return decision

    @staticmethod
    def _hard_slots(installed: InstalledVersion, decision: DecisionRecord) -> dict[str, int]:
        """Return the slots of a page whose links have a hard budget, by rule."""
        return {
            budget.name: sum(one.link_id in budget.links for one in decision.shown)
            for budget in installed.hard
        }

    def _spent(self, installed: InstalledVersion, decision: DecisionRecord) -> set[str]:
        """Return the rules whose hard budget is too small for a page; if none, count it."""
        shown = self._hard_shown.setdefault(decision.pool_id, Counter())
        slots = self._hard_slots(installed, decision)
        spent = {
            budget.name
            for budget in installed.hard
            if shown[budget.name] + slots[budget.name] > budget.slots
        }
        if not spent:
            shown.update(slots)
        return spent

    def _install_again(
        self, last: InstalledVersion, now_us: int, spent: Collection[str] = ()
    ) -> InstalledVersion:
        """Install the same version at another time, also without the links of rules in `spent`."""
        again = InstalledVersion(last.made_of, last, now_us, last.spent.union(spent))
        pool_id = last.pool.settings.pool_id
        if self._installed.get(pool_id) is last:  # otherwise a new version was installed
            self._installed[pool_id] = again
            self._any_page = {}
        return again

    def hard_shown(self, pool_id: str, now_us: int) -> Mapping[str, int]:
        """Return the total slots that links of rules with a hard budget have had, by rule.

        Proposed pages that may still be seen are not included: they are in no store.
        """
        with self._lock:
            shown = Counter(self._hard_shown.get(pool_id, {}))
            waiting = self._proposed.get(pool_id, {})
            for decision_id, (issued_us, slots) in list(waiting.items()):
                if now_us - issued_us >= HELD_US:
                    del waiting[decision_id]
                else:
                    shown.subtract(slots)
            return dict(shown)

    @staticmethod
    def _same(known: DecisionRecord, draw: _Draw) -> DecisionRecord:
        """Return the decision of an id, or raise `Conflict` if it was made for another request."""
        pool_id = draw.installed.pool.settings.pool_id
        this_request = (pool_id, draw.text, draw.known.values)
        if (known.pool_id, known.asked, known.visitor) != this_request:
            raise Conflict(f"the decision {known.decision_id!r} was made for another request")
        return known

    @staticmethod
    def _pages(draw: _Draw) -> _Pages:
        """Return the pages of each group to draw from."""
        installed, constraints = draw.installed, draw.constraints
        page, has_random = installed.page(constraints), installed.groups.shares.random > 0.0
        random = installed.holdout_page(constraints) if has_random else page
        return page, page.own_page or page, random

    def _draw(
        self,
        draw: _Draw,
        pages: _Pages,
        now_us: int,
        decision_id: str | None,
        number: float | None,
    ) -> DecisionRecord:
        """Draw a page; the caller has the lock."""
        installed, _, text, known, key_id, _ = draw
        pool = installed.pool.settings
        click_us, revenue_us, closed_us = installed.windows_us
        chosen_share, own_share, _ = installed.groups.shares
        group = 0
        if chosen_share < 1.0:
            number = 1.0 - self._rng.random() if number is None else number
            group = GROUPS.index(installed.groups.shares.group(number))
        page = pages[group]
        shown, random_order = page.draw(self._rng)
        # By position, in the order of the fields: by name it would take six times as long.
        return DecisionRecord(
            decision_id or new_decision_id(now_us),
            pool.pool_id,
            now_us,
            now_us + click_us,  # click_closes_us
            now_us + revenue_us,  # revenue_until_us
            now_us + closed_us,  # revenue_closes_us
            pool.currency,
            pool.max_revenue_micros,
            installed.policy,
            installed.version,
            page.floor,
            shown,
            page.min_propensity,
            installed.pool_key,
            known.values,
            known.segment,
            random_order,
            group == RANDOM,  # holdout
            page.fallback,
            text,  # asked
            0,  # stored_us
            True,  # learned
            key_id,
            group == OWN,  # is_own
            chosen_share,
            own_share,
        )

    def _count_shown(self, decision: DecisionRecord) -> None:
        shown = self._shown.get(decision.pool_id)
        if shown is None:
            shown = self._shown[decision.pool_id] = ShownSince()
        shown.latest.append(decision)
        if len(shown.latest) >= MAX_LATEST:
            shown.count()
