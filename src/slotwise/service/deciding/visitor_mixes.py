"""Pages for visitors that differ: the mix of one visitor, and the holdout's beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from slotwise.policies.visitor_pages import VisitorPages
from slotwise.selection.mix import explored
from slotwise.service.deciding.page_mix import PageMix
from slotwise.service.records import FloorReport, PoolSettings, ShownLink

__all__ = ["HoldoutMix", "VisitorMix", "VisitorMixes", "VisitorRates"]

Floats = NDArray[np.float64]
Links = NDArray[np.int64]

MANY_LINKS = 2_000
"""With more links than this a page takes too long for an event loop."""


class VisitorMix(PageMix):
    """The page of one visitor; it holds only the links that can be on it."""

    def __init__(
        self,
        link_ids: Sequence[str],
        probabilities: Floats,
        floor: FloorReport,
        scores: Floats,
        pinned: Mapping[int, str],
        propensities: Floats,
        others: float,
        min_propensity: float,
    ) -> None:
        super().__init__(
            link_ids, probabilities, floor, scores, pinned, "", propensities, min_propensity
        )
        self.n_links = len(link_ids)
        self._by_link: dict[str, float] = dict(zip(link_ids, propensities.tolist(), strict=True))
        self._by_link |= dict.fromkeys(pinned.values(), 1.0)
        self._others = others

    def propensity(self, link_id: str) -> float:
        """Return the probability that is logged for a link of the pool."""
        return self._by_link.get(link_id, self._others)


class HoldoutMix:
    """A random page, logged with the propensities of one visitor."""

    def __init__(self, random: PageMix | HoldoutMix, of_visitor: VisitorMix) -> None:
        self.floor: FloorReport = random.floor
        self.fallback: str = random.fallback
        self.min_propensity = of_visitor.min_propensity
        self.pinned: Iterable[int] = random.pinned
        self._random = random
        self._of_visitor = of_visitor

    def draw(self, rng: np.random.Generator) -> tuple[ShownLink, ...]:
        """Draw a page, in page order."""
        propensity = self._of_visitor.propensity
        return tuple(
            ShownLink(one.link_id, one.position, propensity(one.link_id))
            for one in self._random.draw(rng)
        )


class VisitorRates(NamedTuple):
    """The page of a visitor, and what each link is expected to bring of them a view."""

    probabilities: Floats
    value: Floats
    clicks: Floats


class VisitorMixes:
    """Makes the pages of one version for its visitors; any thread may ask."""

    def __init__(
        self,
        pages: VisitorPages,
        link_ids: Sequence[str],
        pool: PoolSettings,
        floor: FloorReport,
    ) -> None:
        self._pages = pages
        self._link_ids = link_ids
        self._pool = pool
        self._floor = floor
        self._solving = Lock()
        self._places = {link_id: place for place, link_id in enumerate(link_ids)}
        self.all_links = pages.links
        self.is_quick = len(link_ids) <= MANY_LINKS

    def page(
        self, visitor: Sequence[int], links: Links, n_slots: int, pinned: Mapping[int, str]
    ) -> VisitorMix:
        """Return the page of a visitor with `n_slots` of these links beside the pinned ones."""
        places = np.array(visitor, np.int64)
        with self._solving:
            probabilities, expected = self._pages.page(places, links, n_slots)
            scores = self._pages.scores(links)
            known = [self._places[one] for one in pinned.values() if one in self._places]
            expected += float(self._pages.rate[0, known].sum())
        probabilities = explored(probabilities, self._pool.explore)
        holdout = self._pool.holdout
        random_share = holdout * n_slots / len(links)
        propensities = (1.0 - holdout) * probabilities + random_share if holdout else probabilities
        can_show_all = len(links) + len(pinned) >= len(self._link_ids)
        least = float(propensities.min(initial=1.0)) if can_show_all else 0.0
        shown = np.flatnonzero(probabilities > 0.0)
        return VisitorMix(
            [self._link_ids[place] for place in links[shown].tolist()],
            probabilities[shown],
            replace(self._floor, expected=expected),
            scores[shown],
            pinned,
            propensities[shown],
            random_share,
            max(least, 0.0),
        )

    def rates(self, visitor: Sequence[int]) -> VisitorRates:
        """Return what every link brings of a visitor, and their page without wishes."""
        n_slots = min(self._pool.slots, len(self._link_ids))
        places = np.array(visitor, np.int64)
        with self._solving:
            probabilities, _ = self._pages.page(places, self.all_links, n_slots)
            rates = self._pages.rate
            value, clicks = self._pages.rewards @ rates, rates[0].copy()
        return VisitorRates(explored(probabilities, self._pool.explore), value, clicks)

    def probabilities(self, visitor: Sequence[int]) -> Floats:
        """Return the probability of every link on the page of a visitor without wishes."""
        return self.rates(visitor).probabilities
