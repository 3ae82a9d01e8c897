"""The links of a player: ids outside, dense places inside.

Used by `own_page`, `pages`, `player`, `rules_in_force`, `selector`, `service`, `simulation` and
`testing`. Knows no policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from slotwise.arrays import Floats, Links, Whole
from slotwise.errors import InvalidInput
from slotwise.rounds import Link


def listed_links(name: str, links: Iterable[Link]) -> list[Link]:
    """Return the links of a collection; `name` is the argument at fault if it is none.

    A single string is refused: it would be read as a list of letters.
    """
    if isinstance(links, str | bytes):
        raise InvalidInput.of(name, "a collection of links", links, f"write [{links!r}]")
    if hasattr(links, "columns"):
        advice = "give one column, such as links=frame['link']"
        raise InvalidInput.of(name, "a collection of links", "a data frame", advice)
    try:
        listed = list(links)
        for link in listed:
            hash(link)
    except TypeError as error:
        raise InvalidInput.of(name, "a collection of hashable links", links) from error
    return listed


class LinkPool:
    """An ordered set of links, each with a place from 0 on; never changed, only replaced.

    >>> pool = LinkPool(["a", "b"]).with_links(["c"]).without_links(["a"])
    >>> pool.links, pool.places("pin", ["c"]).tolist()
    (('b', 'c'), [1])
    """

    def __init__(self, links: Iterable[Link]) -> None:
        self.links = tuple(listed_links("links", links))
        self.place_of = {link: place for place, link in enumerate(self.links)}
        if len(self.place_of) < len(self.links):
            places = enumerate(self.links)
            repeated = next(link for place, link in places if self.place_of[link] != place)
            raise InvalidInput.of("links", "different from each other", repeated)
        if not self.links:
            raise InvalidInput.of("links", "at least one link", [])

    def __len__(self) -> int:
        return len(self.links)

    def __contains__(self, link: object) -> bool:
        return link in self.place_of

    def places(self, name: str, links: Iterable[Link]) -> Links:
        """Return the places of different links of the pool; `name` is the argument at fault."""
        found: list[int] = []
        for link in listed_links(name, links):
            if link not in self.place_of:
                hint = "what is known of a visitor is given as visitor={...}"
                advice = hint if isinstance(links, Mapping) else ""
                raise InvalidInput.of(name, "links of the pool", link, advice)
            found.append(self.place_of[link])
        if len(set(found)) < len(found):
            repeated = next(place for i, place in enumerate(found) if place in found[:i])
            raise InvalidInput.of(name, "different from each other", self.links[repeated])
        return np.array(found, dtype=np.int64)

    def known(
        self, links: Sequence[Link], probabilities: Sequence[float]
    ) -> tuple[Sequence[int], Sequence[Link], Whole, Floats]:
        """Return indexes, ids, places and probabilities of the links that are still here."""
        places = [self.place_of.get(link, -1) for link in links]
        if -1 not in places:
            return range(len(links)), links, np.array(places, np.int64), np.array(probabilities)
        kept = [slot for slot, place in enumerate(places) if place >= 0]
        still = np.array([places[slot] for slot in kept], np.int64)
        return kept, [links[slot] for slot in kept], still, np.array(probabilities)[kept]

    def places_in(self, other: LinkPool, forgotten: Iterable[Link] = ()) -> Links:
        """Return for each link its place in another pool, or -1; `forgotten` links get -1."""
        before = {**other.place_of, **dict.fromkeys(forgotten, -1)} if forgotten else other.place_of
        return np.array([before.get(link, -1) for link in self.links], dtype=np.int64)

    def with_links(self, links: Iterable[Link]) -> LinkPool:
        """Return the pool with more links at its end."""
        joining = listed_links("links", links)
        for link in joining:
            if link in self.place_of:
                raise InvalidInput.of("links", "new to the pool", link)
        return LinkPool((*self.links, *joining))

    def without_links(self, links: Iterable[Link], n_needed: int = 1) -> LinkPool:
        """Return the pool without these links; at least `n_needed` must stay."""
        leaving = set(self.places("links", links).tolist())
        if len(self) - len(leaving) < n_needed:
            rule = f"few enough to leave {n_needed} of {len(self)} for the page"
            raise InvalidInput.of("links", rule, len(leaving))
        return LinkPool(link for place, link in enumerate(self.links) if place not in leaving)
