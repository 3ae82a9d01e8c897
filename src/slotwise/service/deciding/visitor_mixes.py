"""The pages of a version for visitors with features: each is solved when its visitor comes.

Used by `installed_version` and `reporting`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from slotwise.arrays import Floats, Links
from slotwise.player.rules_in_force import RuledPage
from slotwise.player.slots import SlotPositions
from slotwise.service.deciding.page_mix import (
    Logging,
    PageGroups,
    PageMix,
    Placing,
    explored_within,
)
from slotwise.service.pool_version import PagesForVisitors
from slotwise.service.records import FloorState, PoolSettings

MANY_LINKS = 2_000
"""A page with more links than this takes too long for an event loop."""


class VisitorPage(NamedTuple):
    """The page of a visitor, and each link's expected outcomes per view for this visitor."""

    probabilities: Floats
    value: Floats
    clicks: Floats


class VisitorMixes:
    """Makes the pages of one version for its visitors; thread-safe."""

    def __init__(
        self,
        pages: PagesForVisitors,
        link_ids: Sequence[str],
        pool: PoolSettings,
        floor: FloorState,
        order: SlotPositions | None,
        groups: PageGroups,
    ) -> None:
        self._pages = pages
        self._groups = groups
        self._order = order
        self._link_ids = link_ids
        self._pool = pool
        self._floor = floor
        self._solving = Lock()
        self._places = {link_id: place for place, link_id in enumerate(link_ids)}
        self.all_links = pages.links
        # a policy of another package chooses for every visitor
        self.is_quick = len(link_ids) <= MANY_LINKS and pages.has_prices

    def page(
        self,
        visitor: Sequence[int],
        links: Links,
        n_slots: int,
        pinned: Mapping[int, str],
        ruled: RuledPage | None,
    ) -> PageMix:
        """Return the page of a visitor with `n_slots` of these links and the pinned ones."""
        places = np.array(visitor, np.int64)
        with self._solving:
            if ruled is None:
                probabilities, expected = self._pages.page(places, links, n_slots)
                known = [self._places[one] for one in pinned.values() if one in self._places]
                expected += float(self._pages.rate[0, known].sum())
            else:
                whole, expected = self._pages.page_within(places, ruled.rules)
                probabilities = whole[links]
            scores, rate = self._pages.scores(links), self._pages.rate[0, links]
            random = None if ruled is None else ruled.at_random[links]
            probabilities = explored_within(probabilities, self._pool.explore, random)
            own = self._groups.own_page(links, probabilities, n_slots, ruled)
        holdout = self._groups.shares.random
        by_chance = np.full(len(links), n_slots / len(links)) if random is None else random
        propensities = self._groups.mixed(probabilities, own, by_chance if holdout else None)
        can_show_all = len(links) + len(pinned) >= len(self._link_ids)
        least = float(propensities.min(initial=1.0)) if can_show_all else 0.0
        is_held = probabilities > 0.0
        if random is not None and holdout:  # the holdout's probabilities differ between links
            is_held |= random > 0.0
        if own is not None:
            is_held |= own[0] > 0.0
        shown = np.flatnonzero(is_held)
        held = [self._link_ids[place] for place in links[shown].tolist()]
        floor = replace(self._floor, expected=expected)
        others = holdout * n_slots / len(links) if random is None else 0.0
        groups = None if ruled is None else ruled.groups[links[shown]]
        placing = Placing(scores[shown], pinned, self._order, groups)
        logging = Logging(propensities[shown], max(least, 0.0), others)
        page = PageMix(held, probabilities[shown], floor, placing, logging)
        if own is not None:
            clicks = expected + float((own[0] - probabilities) @ rate)
            placing = placing._replace(scores=own[1][shown], order=None)
            owed = replace(floor, expected=clicks)
            page.own_page = PageMix(held, own[0][shown], owed, placing, logging)
        return page

    def rates(self, visitor: Sequence[int], ruled: RuledPage | None) -> VisitorPage:
        """Return every link's expected outcomes for a visitor, and the page without constraints."""
        n_slots = min(self._pool.slots, len(self._link_ids))
        places = np.array(visitor, np.int64)
        with self._solving:
            if ruled is None:
                probabilities, _ = self._pages.page(places, self.all_links, n_slots)
            else:
                probabilities, _ = self._pages.page_within(places, ruled.rules)
            rates = self._pages.rate
            value, clicks = self._pages.rewards @ rates, rates[0].copy()
        random = None if ruled is None else ruled.at_random
        return VisitorPage(
            explored_within(probabilities, self._pool.explore, random), value, clicks
        )
