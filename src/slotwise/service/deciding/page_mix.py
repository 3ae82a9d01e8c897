"""Draw pages with fixed inclusion probabilities, for visitors whose features it encodes.

A call for a page draws here; `visitor_mixes` makes the pages of visitors with features. Used by
`decider`, `installed_version` and `visitor_mixes`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from operator import getitem
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from slotwise.arrays import Floats, Links, Places
from slotwise.compile import compiled, switching
from slotwise.features import Features, KnownVisitor
from slotwise.frequent_words import MAX_LENGTH
from slotwise.player.own_page import mixed, own_probabilities
from slotwise.player.rules_in_force import RuledPage
from slotwise.player.slots import SlotPositions
from slotwise.selection.mix import INTEGRAL, Mix, explored, new_places, new_sums
from slotwise.selection.promise import Shares
from slotwise.selection.rounding import draw_by_groups, draw_page
from slotwise.service.records import FloorState, PoolSettings, ShownLink

MAX_AHEAD = 128
"""Pages that are drawn at once, at most."""


@compiled
def draw_pages(
    mix: Mix, rng: np.random.Generator, pages: NDArray[np.int64], buffer: Floats
) -> None:
    """Draw as many pages as `pages` has rows."""
    for page in pages:
        draw_page(mix, rng, page, buffer)


@compiled
def draw_grouped_pages(
    probabilities: Floats,
    links: Places,
    ends: Places,
    rng: np.random.Generator,
    pages: NDArray[np.int64],
    buffers: tuple[Floats, Floats],
) -> None:
    """Draw as many pages as `pages` has rows, group by group."""
    for page in pages:
        draw_by_groups(probabilities, links, ends, buffers[0], rng, page, buffers[1])


class _Groups:
    """Draws pages group by group, so that integer rules hold on every page."""

    def __init__(self, probabilities: Floats, groups: Places, n_free: int) -> None:
        self._places = np.flatnonzero(probabilities > 0.0)
        self._probabilities = probabilities[self._places]
        of_group = groups[self._places]
        self._links = np.argsort(of_group, kind="stable")
        self._ends = np.cumsum(np.bincount(of_group))
        self._buffers = np.zeros(len(self._places)), np.zeros(n_free)

    def draw(self, rng: np.random.Generator, n_pages: int, n_free: int) -> Places:
        """Draw pages, one a row, each in a random order."""
        pages = np.zeros((n_pages, n_free), np.int64)
        drawn_from = (self._probabilities, self._links, self._ends)
        switching(draw_grouped_pages)(*drawn_from, rng, pages, self._buffers)
        return rng.permuted(self._places[pages], axis=1)


class PageGroups(NamedTuple):
    """The groups of pages of one version, and the links of its own page."""

    shares: Shares
    own: Links
    """Places of the own page's links in the version, in their order."""
    n_links: int

    def own_page(
        self, links: Links, chosen: Floats, n_slots: int, ruled: RuledPage | None
    ) -> tuple[Floats, Floats] | None:
        """Return probabilities and scores of the own page; None where no page is an own page.

        `links` are the places of those that may fill `n_slots` slots, and `chosen` their
        probabilities by the policy. Scores are in the order of the own page.
        """
        if not self.shares.own:
            return None
        place_of = np.full(self.n_links, -1)
        place_of[links] = np.arange(len(links))
        own = place_of[self.own]
        own = own[own >= 0]
        scores = chosen.copy()
        scores[own] = 3.0 - np.arange(len(own)) / max(len(own), 1)
        if ruled is None:
            return own_probabilities(own, chosen, n_slots), scores
        whole = np.zeros(self.n_links)
        whole[links] = chosen
        return own_probabilities(self.own, whole, n_slots, ruled=ruled)[links], scores

    def mixed(
        self, chosen: Floats, own: tuple[Floats, Floats] | None, random: Floats | None
    ) -> Floats:
        """Return the inclusion probabilities of a page of any group."""
        if own is None and random is None:
            return chosen
        return mixed(self.shares, chosen, chosen if own is None else own[0], random)


DrawnPage = tuple[tuple[ShownLink, ...], bool]
"""A page, and whether its links are in random order."""


class Placing(NamedTuple):
    """How the links of a page are placed.

    Links are placed by falling `scores`, or in the order they were drawn if there are none.
    `pinned` gives positions (1 is the first) to links that are on every page. `order` puts the
    links that are not pinned into slot order. `groups` has a number for each link where rules are
    about groups of links.
    """

    scores: Floats | None = None
    pinned: Mapping[int, str] = {}
    order: SlotPositions | None = None
    groups: Places | None = None


class Logging(NamedTuple):
    """What is logged of a page: by default the probabilities with which it is drawn.

    `propensities` are the overall probabilities where this page is one of two that a visitor may
    get, and `least` is the smallest one of the pool. The page of a visitor holds only the links
    that can be on it; `others` is what is logged for any other link. `fallback` is why no policy
    chose the page.
    """

    propensities: Floats | None = None
    least: float = 0.0
    others: float | None = None
    fallback: str = ""


class PageMix:
    """The inclusion probabilities of one page, arranged for quick draws.

    The cost of a draw grows with the slots, not with the links. `probabilities` has one entry for
    each of `link_ids` and sums to the free slots.

    Pages are drawn in batches that grow with demand: a call of compiled code costs several times
    as much as a draw. Drawing uses buffers, so only one thread may draw at a time.
    """

    def __init__(
        self,
        link_ids: Sequence[str],
        probabilities: Floats,
        floor: FloorState,
        placing: Placing | None = None,
        logging: Logging | None = None,
    ) -> None:
        placing, logging = placing or Placing(), logging or Logging()
        self.floor = floor
        self.others = logging.others
        self.own_page: PageMix | None = None
        """The own page of the same request, where some pages are own pages."""
        self.n_links = len(link_ids)
        self.min_propensity = logging.least
        self.fallback = logging.fallback
        self._link_ids = link_ids
        self._drawn_with = probabilities
        logged = probabilities if logging.propensities is None else logging.propensities
        self._logged: list[float] = logged.tolist()
        self._pinned = dict(placing.pinned)
        scores, groups = placing.scores, placing.groups
        self._n_free = round(float(probabilities.sum()))
        self._by_score = None if scores is None else np.argsort(-scores, kind="stable")
        self._ranks = None if self._by_score is None else np.argsort(self._by_score)
        self._shown = [
            _LinksAt(position, link_ids, self._logged) for position in range(1, self._n_free + 1)
        ]
        self._mix = _arrange(probabilities, self._n_free)
        n_sure, n_open, n_tied, _ = self._mix.sizes.tolist()
        self._n_ahead = 1
        self._ahead: list[DrawnPage] = []
        self._drawn = np.zeros(max(self._n_free, 1))
        positions = range(1, self._n_free + len(self._pinned) + 1)
        self._free = [one for one in positions if one not in self._pinned][: self._n_free]
        self._order = placing.order if self._n_free else None
        self._certain = None
        if self._order is None and n_open == 0 and (n_tied == 0 or self._n_free == 0):
            [places] = self._in_page_order(self._mix.sure[None, :n_sure])
            self._certain = self._arrange_page(places.tolist()), False
        self._groups = None
        if groups is not None and self._certain is None and self._n_free:
            self._groups = _Groups(probabilities, groups, self._n_free)

    @property
    def probabilities(self) -> Floats:
        """The probability of each link, pinned ones not included."""
        return self._drawn_with.copy()

    @property
    def logged(self) -> Floats:
        """What is logged for each link, pinned ones not included."""
        return np.array(self._logged)

    @functools.cached_property
    def propensities(self) -> Mapping[str, float]:
        """What is logged for each link of the page."""
        logged = dict(zip(self._link_ids, self._logged, strict=True))
        return logged | dict.fromkeys(self._pinned.values(), 1.0)

    def draw(self, rng: np.random.Generator) -> DrawnPage:
        """Draw a page, in page order."""
        if self._certain is not None:
            return self._certain
        if not self._ahead:
            if self._groups is None:
                pages = np.zeros((self._n_ahead, len(self._drawn)), np.int64)
                switching(draw_pages)(self._mix, rng, pages, self._drawn)
            else:
                pages = self._groups.draw(rng, self._n_ahead, self._n_free)
            pages, is_random = self._in_page_order(pages), [False] * len(pages)
            if self._order is not None:
                pages, is_random = self._order.assign(self._free, pages, rng)
            if self._pinned:  # slot weights are learned from pages without pins
                is_random = [False] * len(pages)
            arranged = map(self._arrange_page, pages.tolist())
            self._ahead = list(zip(arranged, is_random, strict=True))
            self._n_ahead = min(2 * self._n_ahead, MAX_AHEAD)
        return self._ahead.pop()

    def _in_page_order(self, pages: Places) -> Places:
        """Return the links of each page, one page a row, in page order."""
        if self._ranks is not None and self._by_score is not None:
            return self._by_score[np.sort(self._ranks[pages], axis=1)]
        return pages

    def _arrange_page(self, places: list[int]) -> tuple[ShownLink, ...]:
        if not self._pinned:
            return tuple(map(getitem, self._shown, places))
        link_ids, logged = self._link_ids, self._logged
        page = []
        rest, pins = iter(places), dict(self._pinned)
        for position in range(1, len(places) + len(pins) + 1):
            free = None if position in pins else next(rest, None)
            if free is not None:
                page.append(ShownLink(link_ids[free], position, logged[free]))
            else:
                # On a page shorter than requested, the last pins move up.
                link_id = pins.pop(position if position in pins else min(pins))
                page.append(ShownLink(link_id, position, 1.0))
        return tuple(page)


class _LinksAt(dict[int, ShownLink]):
    """The links at one position of a page, by index; each is made at its first use."""

    def __init__(self, position: int, link_ids: Sequence[str], logged: Sequence[float]) -> None:
        self._position = position
        self._link_ids = link_ids
        self._logged = logged

    def __missing__(self, place: int) -> ShownLink:
        shown = ShownLink(self._link_ids[place], self._position, self._logged[place])
        self[place] = shown
        return shown


def _arrange(probabilities: Floats, n_slots: int) -> Mix:
    """Sort the links into the parts of a mix; links with equal probabilities form a tied group."""
    sure = np.flatnonzero(probabilities >= 1.0 - INTEGRAL)
    open_links = np.flatnonzero((probabilities > INTEGRAL) & (probabilities < 1.0 - INTEGRAL))
    of_open = probabilities[open_links]
    nothing = np.zeros(0, np.int64)
    tied_slots = 0
    tied = nothing
    if len(of_open) > 0 and np.all(of_open == of_open[0]):
        tied_slots = n_slots - len(sure)
        tied, open_links, of_open = open_links, nothing, np.zeros(0)
    return Mix(
        sure=sure,
        open=open_links,
        probabilities=of_open,
        tied=tied,
        places=new_places(len(open_links) + tied_slots),
        sums=new_sums(len(open_links)),
        sizes=np.array([len(sure), len(open_links), len(tied), tied_slots]),
    )


class HoldoutMix:
    """A random page, logged with the propensities of one visitor."""

    def __init__(self, random: PageMix | HoldoutMix, of_visitor: PageMix) -> None:
        self.floor: FloorState = random.floor
        self.fallback: str = random.fallback
        self.min_propensity = of_visitor.min_propensity
        self._random = random
        self._of_visitor = of_visitor

    def draw(self, rng: np.random.Generator) -> DrawnPage:
        """Draw a page, in page order."""
        logged, others = self._of_visitor.propensities, self._of_visitor.others or 0.0
        shown, is_random = self._random.draw(rng)
        links = (replace(one, propensity=logged.get(one.link_id, others)) for one in shown)
        return tuple(links), is_random


def explored_within(probabilities: Floats, explore: float, random: Floats | None) -> Floats:
    """Return probabilities mixed with a share of random links; `random` is a page within rules."""
    if random is None:
        return explored(probabilities, explore)
    return ((1.0 - explore) * probabilities + explore * random).clip(0.0, 1.0)


MAX_CACHED = 2_048
"""Visitors that are cached before the cache is emptied."""


class KnownVisitors:
    """Encodes visitors' features for one version, with a cache."""

    def __init__(self, declared: Mapping[str, object], words: Mapping[str, Sequence[str]]) -> None:
        self._made_of = (declared, words)
        self._features = Features.of_json(declared, words)
        self.nobody = self._features.know({})
        self._cache: dict[object, KnownVisitor] = {}

    @classmethod
    def of(
        cls, pool: PoolSettings, words: Mapping[str, Sequence[str]], before: KnownVisitors | None
    ) -> KnownVisitors:
        """Return the encoder of a pool; that of its last version if nothing has changed."""
        if before is not None and before._made_of == (pool.features, words):
            return before
        return cls(pool.features, words)

    def places(self, stored: Mapping[str, str]) -> list[int]:
        """Return the places of values as they are stored."""
        return self._features.stored_places(stored, is_counted=False)

    def know(self, visitor: Mapping[str, object]) -> KnownVisitor:
        """Return the visitor, or raise `InvalidInput` for undeclared features. Quick."""
        if not visitor:
            return self.nobody
        values = visitor.values()
        # The key contains types, since 1 and True are equal but only one of them is a bool.
        key = (*visitor, *values, *map(type, values))
        try:
            known = self._cache.get(key)
        except TypeError:  # a list or an object
            return self._features.know(visitor)
        if known is None:
            known = self._features.know(visitor)
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            if all(not isinstance(value, str) or len(value) <= MAX_LENGTH for value in values):
                self._cache[key] = known
        return known
