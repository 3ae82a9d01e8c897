"""The pool: link ids outside, dense places inside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from slotwise.errors import InvalidInput
from slotwise.rounds import Link

__all__ = ["Pool"]


class Pool:
    """An ordered set of links, each with a place from 0 on; never changed, only replaced.

    >>> pool = Pool(["a", "b"]).with_links(["c"]).without_links(["a"])
    >>> pool.links, pool.places("pin", ["c"]).tolist()
    (('b', 'c'), [1])
    """

    def __init__(self, links: Iterable[Link]) -> None:
        if isinstance(links, str):
            raise InvalidInput.of("links", "a collection of links", links, "write [links]")
        self.links = tuple(links)
        self._place = {link: place for place, link in enumerate(self.links)}
        if len(self._place) < len(self.links):
            places = enumerate(self.links)
            repeated = next(link for place, link in places if self._place[link] != place)
            raise InvalidInput.of("links", "different from each other", repeated)
        if not self.links:
            raise InvalidInput.of("links", "at least one link", [])

    def __len__(self) -> int:
        return len(self.links)

    def links_at(self, places: Sequence[int]) -> tuple[Link, ...]:
        """Return the links at these places."""
        links = self.links
        return tuple([links[place] for place in places])

    def places(self, name: str, links: Iterable[Link]) -> NDArray[np.int64]:
        """Return the places of different links of the pool; `name` is the argument at fault."""
        found: list[int] = []
        for link in links:
            if link not in self._place:
                raise InvalidInput.of(name, "links of the pool", link)
            found.append(self._place[link])
        if len(set(found)) < len(found):
            raise InvalidInput.of(name, "different from each other", [self.links[i] for i in found])
        return np.array(found, dtype=np.int64)

    def known_places(
        self, links: Sequence[Link], chances: Sequence[float]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return places and chances of those links that are still in the pool."""
        place = self._place
        kept = [
            (place[link], chance)
            for link, chance in zip(links, chances, strict=True)
            if link in place
        ]
        return np.array([at for at, _ in kept], np.int64), np.array([chance for _, chance in kept])

    def places_in(self, other: Pool) -> NDArray[np.int64]:
        """Return for each link its place in another pool, or -1."""
        return np.array([other._place.get(link, -1) for link in self.links], dtype=np.int64)

    def with_links(self, links: Iterable[Link]) -> Pool:
        """Return the pool with more links at its end."""
        return Pool((*self.links, *links))

    def without_links(self, links: Iterable[Link]) -> Pool:
        """Return the pool less these links."""
        leaving = {self.links[place] for place in self.places("links", links)}
        return Pool(link for link in self.links if link not in leaving)
