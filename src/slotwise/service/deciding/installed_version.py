"""The pages of one version: those of every visitor and those with constraints.

Used by `averaged_version`, `decider` and `reporting`.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from threading import Lock, RLock
from typing import NamedTuple

import numpy as np

from slotwise.arrays import Floats, Links, Places
from slotwise.compile import switching
from slotwise.player.link_pool import LinkPool
from slotwise.player.rules_in_force import RuledPage, RulesInForce
from slotwise.player.slots import SlotPositions
from slotwise.policies import Estimates
from slotwise.policies.rest_of_page import Rest, solve_rest
from slotwise.problem import Rule
from slotwise.selection.page_rules import PageRules
from slotwise.selection.page_within_rules import solve_within
from slotwise.selection.promise import Shares
from slotwise.service.counting.rates import floor_report
from slotwise.service.deciding.page_mix import (
    HoldoutMix,
    KnownVisitors,
    Logging,
    PageGroups,
    PageMix,
    Placing,
    explored_within,
)
from slotwise.service.deciding.page_request import NO_CONSTRAINTS, PageConstraints
from slotwise.service.deciding.visitor_mixes import VisitorMixes, VisitorPage
from slotwise.service.pool import slot_weights_of, slots_of_pool
from slotwise.service.pool_version import EMPTY_POOL, POLICY_FAILED, Version, group_shares
from slotwise.service.records import SECOND_US, FloorState, ShownLink

_log = logging.getLogger(__name__)

MIN_CACHED_CONSTRAINTS, MAX_CACHED_CONSTRAINTS = 16, 256
"""Pages with constraints that a version caches: in between by the number of links."""
MAX_CACHED_VISITORS = 2_048
"""Pages of visitors that a version caches."""
CACHED_LINKS = 500_000
"""Maximum total number of links of the pages with constraints that a version caches."""
NEVER = 2**63
"""A time in microseconds that does not come."""


class _Rest(NamedTuple):
    """What may fill the slots of a page that its pins leave free."""

    links: list[str]
    places: Links
    n_slots: int
    pinned: dict[int, str]
    ruled: RuledPage | None
    """None where there are no rules, or no free slots."""

    @property
    def groups(self) -> Places | None:
        """The group of each link, for pages that are drawn group by group."""
        return None if self.ruled is None else self.ruled.groups[self.places]

    def at_random(self, n_slots: int) -> Floats:
        """Return the probabilities of random links, within the rules."""
        if self.ruled is None:
            return np.full(len(self.links), n_slots / len(self.links))
        return self.ruled.at_random[self.places]


class HardBudget(NamedTuple):
    """A rule with a hard budget, and how many slots its links may have in total."""

    name: str
    links: frozenset[str]
    slots: int


class _Available(NamedTuple):
    """Which links pages may show at a time."""

    until_us: int
    """When a link next starts or ends."""
    hard: list[HardBudget]
    """Rules whose hard budget is not spent."""
    off: set[str]
    """Links outside their dates or without a budget."""
    pins: list[tuple[int, str]]
    """The pool's own pins of links that may be shown, by position."""


def _available(
    version: Version, rules: Sequence[Rule], now_us: int, spent: frozenset[str]
) -> _Available:
    """Return what may be shown at a time if the budgets of the rules in `spent` are used up."""
    pool, declared = version.pool, version.pool.settings.rules
    budgets = [
        HardBudget(one.name, frozenset(rule.links), version.quotas.get(one.name, 0))
        for one, rule in zip(declared, rules, strict=True)
        if one.budget is not None and one.budget.hard and now_us < one.budget.until_us
    ]
    hard = [one for one in budgets if one.slots > 0 and one.name not in spent]
    without = {link for one in budgets for link in one.links}
    without -= {link for one in hard for link in one.links}
    link_ids = set(version.stored.link_ids)
    off = link_ids & (pool.off_at(now_us) | without)
    pins = [(pin.position, pin.link_id) for pin in pool.settings.pins]
    standing = sorted(pin for pin in pins if pin[1] in link_ids - off)
    return _Available(pool.next_date(now_us) or NEVER, hard, off, standing)


class _PageCache:
    """Pages with constraints, solved at their first use; the oldest one is evicted."""

    def __init__(self, n_links: int) -> None:
        self._n_links = n_links
        self._pages: dict[PageConstraints, PageMix] = {}
        self._evicting = Lock()

    def __len__(self) -> int:
        return len(self._pages)

    def __contains__(self, constraints: PageConstraints) -> bool:
        return constraints in self._pages

    def page(
        self,
        constraints: PageConstraints,
        solve: Callable[[PageConstraints], PageMix],
        solving: AbstractContextManager[object],
    ) -> PageMix:
        """Return the page with given constraints; `solving` is held while it is solved."""
        page = self._pages.get(constraints)
        if page is None:
            with solving:
                page = solve(constraints)
            page = self.add(constraints, page)
        return page

    def add(self, constraints: PageConstraints, page: PageMix) -> PageMix:
        """Cache a page, and return the one that is cached: two threads may have solved it."""
        with self._evicting:
            if len(self._pages) > self._most(page):
                del self._pages[next(key for key in self._pages if key != NO_CONSTRAINTS)]
            return self._pages.setdefault(constraints, page)

    def _most(self, page: PageMix) -> int:
        is_of_visitor = page.others is not None
        n_links = page.n_links + 1 if is_of_visitor else max(self._n_links, 1)
        most = MAX_CACHED_VISITORS if is_of_visitor else MAX_CACHED_CONSTRAINTS
        return min(most, max(MIN_CACHED_CONSTRAINTS, CACHED_LINKS // n_links))


class InstalledVersion:
    """The probabilities of all links of one version, and pages for callers with constraints.

    Any thread may get a page; only one thread at a time may draw from it.
    """

    def __init__(
        self,
        version: Version,
        before: InstalledVersion | None = None,
        now_us: int | None = None,
        spent: Iterable[str] = (),
    ) -> None:
        """Make the pages for a time; links of the rules in `spent` are left out."""
        self.pool, self.stored, self._solver, visitors, _ = self.made_of = version
        stored = self.stored
        now_us = stored.published_us if now_us is None else now_us
        self.version = stored.version
        self.policy = stored.policy
        self.link_ids = stored.link_ids
        self.pool_key = zlib.crc32("\n".join(self.link_ids).encode())
        self.probabilities = np.frombuffer(stored.probabilities)
        self.rates = stored.rates()
        self._pool = self.pool.settings
        click_us = self._pool.click_window_s * SECOND_US
        revenue_us = self._pool.revenue_window_s * SECOND_US
        self.windows_us = click_us, revenue_us, max(click_us, revenue_us)
        """How long clicks, sales, and either of both count after a view."""
        self._places = {link_id: place for place, link_id in enumerate(self.link_ids)}
        self.groups = PageGroups(
            group_shares(self._pool, stored.promise),
            self._places_of([one for one in self._pool.own_page if one in self._places]),
            len(self.link_ids),
        )
        self._scores = self.rates.revenue + (stored.shadow_price or 0.0) * self.rates.clicks
        rules = self.pool.rules(stored.paced_rules)
        self.spent = frozenset(spent)
        available = _available(version, rules, now_us, self.spent)
        self.until_us = available.until_us
        """When a link next starts or ends: the version must then be installed again."""
        self.hard, self.off, self._standing = available.hard, available.off, available.pins
        self._in_force: RulesInForce | None = None
        self._ruling: AbstractContextManager[object] = nullcontext()
        """Held while `_in_force` and its buffers are used."""
        self._ruled_by = (rules, self.link_ids, self._pool.slots)
        self._set_rules(before)
        self.order, self._random_order = self._slot_orders()
        self._visitors = None
        if visitors is not None and not stored.fallback:
            page_parts = (self.link_ids, self._pool, stored.floor, self.order, self.groups)
            self._visitors = VisitorMixes(visitors, *page_parts)
        encoder = before.known_visitors if before else None
        self.known_visitors: KnownVisitors = KnownVisitors.of(self._pool, stored.words, encoder)
        self._open_caches(now_us)

    def _open_caches(self, now_us: int) -> None:
        """Cache the page of most callers, which needs all that `__init__` has set before."""
        self._pages = _PageCache(len(self.link_ids))
        self._holdout_pages = _PageCache(len(self.link_ids))
        self._usual_constraints = self._completed(NO_CONSTRAINTS)
        with self._ruling:
            usual = self._make_usual_page(now_us)
        self._usual_page = self._pages.add(self._usual_constraints, usual)
        if self.groups.shares.random:  # the first visitor of the holdout must not wait for it
            self.holdout_page(NO_CONSTRAINTS)

    def _make_usual_page(self, now_us: int) -> PageMix:
        """Return the page without constraints: the version's own if no link or rule changed."""
        stored, rest = self.stored, self._rest(self._usual_constraints)
        if stored.fallback:
            return self._fallback_page(rest, stored.fallback)
        has_same_rules = stored.rules_key == self.pool.rules_key(now_us, stored.paced_rules)
        if not has_same_rules or self.off != self.pool.off_at(now_us) & self._places.keys():
            return self._solve(self._usual_constraints)
        if rest.ruled is not None or self._in_force is None:
            random = None if rest.ruled is None else rest.ruled.at_random
            self.probabilities = explored_within(self.probabilities, self._pool.explore, random)
        if rest.pinned or not rest.n_slots:
            return self._solve(self._usual_constraints)
        places = rest.places
        page = (self.probabilities[places], stored.floor, self._scores[places])
        return self._logged_page(rest, *page)

    def has_pages_for(self, constraints: PageConstraints) -> bool:
        """Return whether the pages with given constraints are already solved. Quick."""
        if constraints is NO_CONSTRAINTS or constraints == NO_CONSTRAINTS:
            return True
        constraints = self._completed(constraints)
        if constraints.visitor:
            is_quick = self._visitors is not None and self._visitors.is_quick
            return (is_quick and self._in_force is None) or constraints in self._pages
        return constraints in self._pages and (
            not self.groups.shares.random or constraints in self._holdout_pages
        )

    @property
    def depends_on_visitors(self) -> bool:
        """Whether its pages differ from visitor to visitor."""
        return self._visitors is not None

    def page(self, constraints: PageConstraints) -> PageMix:
        """Return the page with given constraints; solved at its first use, then cached."""
        if constraints is NO_CONSTRAINTS or constraints == NO_CONSTRAINTS:
            return self._usual_page
        return self._pages.page(self._completed(constraints), self._solve, self._ruling)

    def holdout_page(self, constraints: PageConstraints) -> PageMix | HoldoutMix:
        """Return the uniformly random page with given constraints for a holdout visitor."""
        if constraints.visitor:
            of_visitor = self.page(constraints)
            if of_visitor.others is not None:
                return HoldoutMix(self.holdout_page(constraints._replace(visitor=())), of_visitor)
            return of_visitor
        constraints = self._completed(constraints)
        return self._holdout_pages.page(constraints, self._uniform_page, self._ruling)

    def shown_probabilities(self) -> Floats:
        """Return the probability of each link to be on a page without constraints."""
        constraints = self._usual_constraints
        if constraints == NO_CONSTRAINTS and self._in_force is None:
            return self.probabilities
        probabilities = np.zeros(len(self.link_ids))
        probabilities[self._rest(constraints).places] = self._usual_page.probabilities
        probabilities[[self._places[link_id] for _, link_id in constraints.pinned]] = 1.0
        return probabilities

    def probabilities_for(self, visitor: Mapping[str, str]) -> Floats:
        """Return the probability of each link for a visitor with these feature values."""
        if self._visitors is None:
            return self.shown_probabilities()
        with self._ruling:
            ruled = self._rest(self._usual_constraints).ruled
            return self._visitors.rates(self.known_visitors.places(visitor), ruled).probabilities

    def rates_of_kinds(self, n_kinds: int) -> list[tuple[float, VisitorPage]]:
        """Return the share and the rates of the version's most frequent kinds of visitors."""
        if self._visitors is None:
            return []
        kinds = sorted(self.stored.kinds, key=lambda one: -one.share)[:n_kinds]
        with self._ruling:
            ruled, rates = self._rest(self._usual_constraints).ruled, self._visitors.rates
            return [(one.share, rates(one.places, ruled)) for one in kinds]

    def page_rules(self, left_out: str = "") -> PageRules | None:
        """Return all that bounds a page without constraints: rules, pins and links that are off.

        None if nothing does. The rule named `left_out` does not count. The caller owns the buffers.
        """
        rules, link_ids, n_slots = self._ruled_by
        rules = tuple(rule for rule in rules if rule.name != left_out)
        pinned = self._places_of([link for _, link in self._usual_constraints.pinned])
        n_slots = min(n_slots, len(link_ids) - len(self.off))
        if not n_slots or not (rules or self.off or len(pinned)):
            return None
        in_force = RulesInForce(rules, LinkPool(link_ids), n_slots)
        return in_force.for_places(pinned[:n_slots], self._places_of(sorted(self.off))).rules

    def sample_pages(self, n_pages: int) -> list[tuple[ShownLink, ...]]:
        """Draw pages for visitors like the latest ones, in slot order; they are not decisions."""
        rng = np.random.default_rng(0)
        kinds = self.stored.kinds if self._visitors is not None else ()
        with self._ruling:
            completed = [self._completed(PageConstraints(visitor=one.places)) for one in kinds]
            mixes, rest = [*map(self._solve, completed)], self._rest(self._usual_constraints)
        if not mixes:
            usual, scores = self._usual_page, self._scores[rest.places]
            placing = Placing(scores, rest.pinned, self.order, rest.groups)
            mixes = [PageMix(rest.links, usual.probabilities, usual.floor, placing)]
        chances = [one.share for one in kinds] or [1.0]
        drawn = (mixes[k] for k in rng.choice(len(mixes), n_pages, p=chances).tolist())
        return [mix.draw(rng)[0] for mix in drawn]

    def shares(self) -> dict[str, float]:
        """Return these probabilities by link."""
        return dict(zip(self.link_ids, self.shown_probabilities().tolist(), strict=True))

    def _completed(self, constraints: PageConstraints) -> PageConstraints:
        """Add the pool's own pins where the caller has none, and exclude links that are off.

        A link outside its dates is only on pages whose caller pins it.
        """
        if not (self._standing or self.off):
            return constraints
        slots = self._pool.slots if constraints.slots is None else constraints.slots
        pinned = dict(constraints.pinned)
        exclude = constraints.exclude | (self.off - {*pinned.values()})
        taken = {*exclude, *pinned.values()}
        for position, link_id in self._standing:
            if position <= slots and position not in pinned and link_id not in taken:
                pinned[position] = link_id
        return constraints._replace(exclude=exclude, pinned=tuple(sorted(pinned.items())))

    def _slot_orders(self) -> tuple[SlotPositions | None, SlotPositions | None]:
        """Return the order of chosen and of random pages; None where slots are alike."""
        if not slot_weights_of(self._pool) or self.stored.fallback:
            return None, None
        slots = slots_of_pool(self._pool, self.stored.slot_clicks)
        return SlotPositions(slots), SlotPositions(slots, at_random=True)

    def _set_rules(self, before: InstalledVersion | None) -> None:
        """Put the rules in force; the same rules keep the buffers of the version before."""
        rules = self._ruled_by[0]
        if before is not None and before._in_force and before._ruled_by == self._ruled_by:
            self._in_force, self._ruling = before._in_force, before._ruling
        elif self.link_ids and (rules or self.off):
            self._in_force = self.pool.rules_in_force(
                self.link_ids, self._pool.slots, self.stored.paced_rules
            )
            self._ruling = RLock()

    def _places_of(self, link_ids: Sequence[str]) -> Links:
        return np.array([self._places[link_id] for link_id in link_ids], dtype=np.int64)

    def _rest(self, constraints: PageConstraints) -> _Rest:
        """Return what may fill the free slots of a page with completed constraints."""
        pinned = dict(constraints.pinned)
        taken = {*constraints.exclude, *pinned.values()}
        links = [link_id for link_id in self.link_ids if link_id not in taken]
        places = self._places_of(links)
        slots = self._pool.slots if constraints.slots is None else constraints.slots
        n_slots, ruled = min(max(slots - len(pinned), 0), len(links)), None
        if self._in_force is not None and n_slots:
            known = self._places_of([one for one in pinned.values() if one in self._places])
            excluded = np.setdiff1d(np.arange(len(self.link_ids)), places)
            excluded = np.setdiff1d(excluded, known)
            with self._ruling:
                ruled = self._in_force.for_places(known, excluded, n_slots + len(known))
        return _Rest(links, places, n_slots, pinned, ruled)

    def _uniform_page(self, constraints: PageConstraints) -> PageMix:
        rest = self._rest(constraints)
        if not rest.links:
            return self._solve(constraints)
        probabilities = rest.at_random(rest.n_slots)
        floor, page = self._floor_report(rest, probabilities), self.page(constraints)
        placing = Placing(None, rest.pinned, self._random_order, rest.groups)
        logging = Logging(page.logged, page.min_propensity)
        return PageMix(rest.links, probabilities, floor, placing, logging)

    def _logged_page(
        self,
        rest: _Rest,
        probabilities: Floats,
        floor: FloorState,
        scores: Floats | None,
        fallback: str = "",
    ) -> PageMix:
        """Return a page that logs the propensities of all groups together, with its own page.

        The group of a page is random, so a link's propensity is the weighted average over chosen,
        own and random pages, on a page of any group.
        """
        own = random = None
        if rest.links:
            n_slots = round(float(probabilities.sum()))
            own = self.groups.own_page(rest.places, probabilities, n_slots, rest.ruled)
            random = rest.at_random(n_slots) if self.groups.shares.random else None
        propensities = self.groups.mixed(probabilities, own, random)
        n_pinned = len(set(rest.pinned.values()) & set(self._places))
        can_show_all = len(rest.links) + n_pinned == len(self.link_ids)
        least = max(float(propensities.min(initial=1.0)) if can_show_all else 0.0, 0.0)
        placing = Placing(scores, rest.pinned, None if fallback else self.order, rest.groups)
        logging = Logging(propensities, least, fallback=fallback)
        page = PageMix(rest.links, probabilities, floor, placing, logging)
        if own is not None:
            placing = placing._replace(scores=own[1], order=None)
            logging = logging._replace(fallback="")
            owed = self._floor_report(rest, own[0])
            page.own_page = PageMix(rest.links, own[0], owed, placing, logging)
        return page

    def _solve(self, constraints: PageConstraints) -> PageMix:
        """Solve the program again for the rest of the page; the caller holds `_ruling`."""
        if self._visitors is not None and constraints.is_of_visitor_only:
            n_slots = min(self._pool.slots, len(self.link_ids))
            ruled = None if self._in_force is None else self._rest(constraints).ruled
            all_links = self._visitors.all_links
            return self._visitors.page(constraints.visitor, all_links, n_slots, {}, ruled)
        rest = self._rest(constraints)
        places, n_slots, pinned, ruled = rest.places, rest.n_slots, rest.pinned, rest.ruled
        if n_slots and constraints.visitor and self._visitors is not None:
            return self._visitors.page(constraints.visitor, places, n_slots, pinned, ruled)
        if n_slots == 0:
            probabilities = np.zeros(len(rest.links))
            fallback = "" if pinned else EMPTY_POOL
            floor = self._floor_report(rest, probabilities)
            placing, logging = Placing(pinned=pinned), Logging(fallback=fallback)
            return PageMix(rest.links, probabilities, floor, placing, logging)
        if self.stored.fallback:
            return self._fallback_page(rest, self.stored.fallback)
        try:
            if ruled is None:
                known = [self._places[link] for link in pinned.values() if link in self._places]
                pins = np.array(known, dtype=np.int64)
                probabilities = self._probabilities_of(places, n_slots, pins)
            else:
                probabilities = self._probabilities_within(ruled.rules)[places]
        except Exception:  # noqa: BLE001
            _log.exception("policy %s failed for a page with constraints", self.policy)
            return self._fallback_page(rest, POLICY_FAILED)
        random = None if ruled is None else ruled.at_random[places]
        probabilities = explored_within(probabilities, self._pool.explore, random)
        floor = self._floor_report(rest, probabilities)
        return self._logged_page(rest, probabilities, floor, self._scores[places])

    def _probabilities_of(self, free: Links, n_slots: int, pinned: Links) -> Floats:
        if self._solver is not None:
            return self._solver.page_probabilities(free, n_slots, pinned, self.rates)
        estimates = Estimates.of(self.rates.revenue, self.rates.clicks)
        return solve_rest(estimates, self.pool.problem(), Rest(free, n_slots, pinned))

    def _probabilities_within(self, rules: PageRules) -> Floats:
        if self._solver is not None:
            return self._solver.page_within(rules, self.rates)
        value = np.minimum(self.rates.revenue * rules.boost, 1.0)
        switching(solve_within)(rules, value, self.rates.clicks, self._pool.click_floor)
        return rules.probabilities.copy()

    def _floor_report(self, rest: _Rest, probabilities: Floats) -> FloorState:
        whole = np.zeros(len(self.link_ids))
        whole[rest.places] = probabilities
        for link_id in rest.pinned.values():
            if link_id in self._places:
                whole[self._places[link_id]] = 1.0
        n_slots = round(float(whole.sum()))
        rules = None if rest.ruled is None else rest.ruled.rules
        return floor_report(self.rates, whole, n_slots, self._pool.click_floor, rules=rules)

    def _fallback_page(self, rest: _Rest, reason: str) -> PageMix:
        """Return the pool's own page, completed in the order of registration."""
        registered = 1.0 - np.arange(len(rest.links)) / max(len(rest.links), 1)
        own = self.groups._replace(shares=Shares.of(0.0)).own_page(
            rest.places, registered, rest.n_slots, rest.ruled
        )
        assert own is not None
        probabilities, scores = own
        floor = self._floor_report(rest, probabilities)
        return self._logged_page(rest, probabilities, floor, scores, reason)
