"""The rules of a problem for the links of a player, and what they cost.

Used by `own_page`, `player`, `selector`, `service` and `simulation`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from slotwise.arrays import Floats, Links
from slotwise.compile import switching
from slotwise.player.link_pool import LinkPool
from slotwise.player.pages import Constraints
from slotwise.problem import Rule
from slotwise.rounds import Link
from slotwise.selection.page_rules import PageRules
from slotwise.selection.page_within_rules import best_within, project_within
from slotwise.selection.rules import SlotRule, settle_rules, solve_rules

MAX_CACHED = 64
"""Combinations of pins and exclusions whose rules are cached."""

N_RANDOM_PAGES = 16
"""Pages that are averaged for a random page where groups cross."""

VIOLATED = 1e-6
"""A rule that misses more of a slot than this is violated."""


class RuledPage(NamedTuple):
    """Rules for pages with the same pins, exclusions and slots, and a random page within them."""

    rules: PageRules
    granted: tuple[SlotRule, ...]
    at_random: Floats

    @property
    def groups(self) -> Links:
        """The group of each link: pages are drawn group by group."""
        groups = np.zeros(len(self.at_random), np.int64)
        ends = self.rules.ends
        groups[self.rules.links] = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
        return groups


@dataclass(frozen=True)
class RuleReport:
    """One rule: its bounds, what is delivered, and what it costs.

    `slots_now` is the share of slots of its links on the next page, `slots_delivered` the mean over
    the page views since the rules were set (0 before the first). `price` is the revenue that a
    page view would gain if the rule were one slot looser, at the margin, and `cost` what it would
    gain without the rule: both by the present estimates, in your currency. The cost is infinite
    where pages miss the click floor because of the rule. `violated` means that
    earlier rules, pins or the number of slots contradict it; `granted` is what holds instead.
    """

    name: str
    at_least: float
    at_most: float | None
    boost: float
    slots_now: float
    slots_delivered: float
    price: float
    cost: float
    violated: bool
    granted: str = ""


class RulesInForce:
    """The rules of a problem, by the places of links. Links that have left the pool do not count.

    >>> pool = LinkPool(["a", "b", "c"])
    >>> in_force = RulesInForce([Rule("one", ["a", "b"], at_most=1)], pool, n_slots=2)
    >>> in_force.for_page(None).at_random.round(6).tolist()
    [0.5, 0.5, 1.0]
    """

    def __init__(self, rules: Sequence[Rule], pool: LinkPool, n_slots: int) -> None:
        self._rules, self._n_links, self._n_slots = rules, len(pool), n_slots
        self._places = [
            np.array([pool.place_of[link] for link in rule.links if link in pool], np.int64)
            for rule in rules
        ]
        self._cached: dict[tuple[bytes, bytes, int], RuledPage] = {}
        self._usual: RuledPage | None = None

    def for_page(self, constraints: Constraints | None) -> RuledPage:
        """Return the rules for pages with these pins and exclusions."""
        if constraints is None:
            if self._usual is None:
                self._usual = self.for_places(np.zeros(0, np.int64), np.zeros(0, np.int64))
            return self._usual
        is_out = ~constraints.is_free
        is_out[constraints.pinned] = False
        return self.for_places(constraints.pinned, np.flatnonzero(is_out))

    def for_places(self, pinned: Links, excluded: Links, n_slots: int | None = None) -> RuledPage:
        """Return the rules for pages with these pins, exclusions and slots."""
        pinned, excluded = np.sort(pinned), np.sort(excluded)
        slots = self._n_slots if n_slots is None else n_slots
        key = pinned.tobytes(), excluded.tobytes(), slots
        if key not in self._cached:
            if len(self._cached) >= MAX_CACHED:
                self._cached.pop(next(iter(self._cached)))
            self._cached[key] = self._settle(pinned, excluded, slots)
        return self._cached[key]

    def _settle(self, pinned: Links, excluded: Links, n_slots: int) -> RuledPage:
        declared = self.slot_rules()
        some = [rule for rule in declared if len(rule.links)]
        settled = settle_rules(some, self._n_links, n_slots, pinned, excluded)
        for rule, places in zip(self._rules, self._places, strict=True):
            settled.rules.boost[places] *= 1.0 + rule.boost
        at_random = self._random_page(settled.rules)
        granted = iter(settled.granted)
        kept = [next(granted) if len(one.links) else one._replace(least=0.0) for one in declared]
        return RuledPage(settled.rules, tuple(kept), at_random)

    def _random_page(self, rules: PageRules) -> Floats:
        """Return the probabilities of random links: as equal as the rules allow.

        Where groups cross, they are those of the average best page at random scores.
        """
        if not len(rules.crossing.x):
            switching(project_within)(rules, np.ones(self._n_links))
            return rules.probabilities.copy()
        rng, total = np.random.default_rng(0), np.zeros(self._n_links)
        for _ in range(N_RANDOM_PAGES):
            scores = rng.random(self._n_links)
            switching(best_within)(rules, scores, scores)
            total += rules.probabilities
        return total / N_RANDOM_PAGES

    def slot_rules(self) -> list[SlotRule]:
        """Return the rules by places; one without a link in the pool has no places."""
        return [
            SlotRule(places, rule.at_least, _most(rule, len(places)))
            for rule, places in zip(self._rules, self._places, strict=True)
        ]

    def report(
        self,
        page: Floats,
        delivered: Floats,
        rates: tuple[Floats, Floats],
        floor: float,
        money: float,
        ruled: RuledPage | None = None,
    ) -> tuple[RuleReport, ...]:
        """Return a row for each rule; `rates` are value and clicks of links, as estimated.

        `ruled` is what pins leave of the rules, where there are some.
        """
        declared, granted = self.slot_rules(), (ruled or self.for_page(None)).granted
        kept = [k for k, rule in enumerate(declared) if len(rule.links)]
        boost = self.for_page(None).rules.boost
        boosted = np.minimum(1.0, rates[0] * boost)
        best = solve_rules(boosted, rates[1], self._n_slots, floor, [declared[k] for k in kept])
        prices = dict(zip(kept, best.prices.tolist(), strict=True))
        rows = []
        for place, rule in enumerate(self._rules):
            without = [declared[k] for k in kept if k != place]
            links = self._places[place]
            plain = boosted.copy()
            plain[links] = np.minimum(1.0, rates[0][links] * boost[links] / (1.0 + rule.boost))
            other = solve_rules(plain, rates[1], self._n_slots, floor, without)
            cost = cost_of_rules(rates, floor, other.probabilities, best.probabilities)
            least, most = granted[place].least, granted[place].most
            is_violated = least < rule.at_least - VIOLATED or most > declared[place].most + VIOLATED
            rows.append(
                RuleReport(
                    name=rule.name,
                    at_least=rule.at_least,
                    at_most=rule.at_most,
                    boost=rule.boost,
                    slots_now=float(page[links].sum()),
                    slots_delivered=float(delivered[place]),
                    price=prices.get(place, 0.0) * money,
                    cost=cost * money,
                    violated=is_violated,
                    granted=_granted(rule, least, most, declared[place].most)
                    if is_violated
                    else "",
                )
            )
        return tuple(rows)


def cost_of_rules(rates: tuple[Floats, Floats], floor: float, free: Floats, page: Floats) -> float:
    """Return the value that `page` gives up, given the best page without some rules.

    It is infinite where `page` misses clicks of the floor that `free` has, as is the price of a
    floor that no page reaches.
    """
    value, clicks = rates
    missing = min(floor, float(free @ clicks)) - float(page @ clicks)
    if missing > VIOLATED * floor:
        return math.inf
    return max(0.0, float(value @ (free - page)))


def _most(rule: Rule, n_links: int) -> float:
    return float(n_links) if rule.at_most is None else min(rule.at_most, float(n_links))


def _granted(rule: Rule, least: float, most: float, declared_most: float) -> str:
    """Return in words what a violated rule has instead of what it requires."""
    if least < rule.at_least - VIOLATED:
        return f"at least {least:g} instead of {rule.at_least:g}"
    return f"at most {most:g} instead of {declared_most:g}"


def check_links(rules: Sequence[Rule], pool: LinkPool) -> None:
    """Refuse rules for links that are not in the pool."""
    for rule in rules:
        for link in rule.links:
            if link not in pool:
                raise rule.error("links", "links of the pool", link)


MAX_UNCOUNTED = 250
"""Pages that are counted at once, which takes a fifth of the time."""


class RuleCounts:
    """How many slots the links of each rule have had since the rules were set."""

    def __init__(
        self, rules: Sequence[Rule], n_pages: float = 0.0, slots: Floats | None = None
    ) -> None:
        self._rules, self._n_pages = rules, n_pages
        self._slots = np.zeros(len(rules)) if slots is None else slots.copy()
        self._uncounted: list[Sequence[Link]] = []

    def count(self, shown: Sequence[Link]) -> None:
        """Count a page."""
        self._uncounted.append(shown)
        if len(self._uncounted) >= MAX_UNCOUNTED:
            self.totals()

    def totals(self) -> tuple[float, Floats]:
        """Return the number of pages, and the slots of each rule on all of them."""
        pages, self._uncounted = self._uncounted, []
        shown = Counter(chain.from_iterable(pages))
        self._n_pages += len(pages)
        self._slots += [sum(shown[link] for link in rule.links) for rule in self._rules]
        return self._n_pages, self._slots

    @property
    def means(self) -> Floats:
        """Slots per page of each rule."""
        n_pages, slots = self.totals()
        return slots / max(1.0, n_pages)
