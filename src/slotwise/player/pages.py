"""A page of a player: its constraints, the probability of each link, and its feedback.

Used by `own_page`, `player`, `rules_in_force`, `selector`, `service` and `testing`. Knows places
and numbers, no policy.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.arrays import Floats, Links
from slotwise.errors import InvalidInput
from slotwise.features import Visitor
from slotwise.player.link_pool import LinkPool
from slotwise.rounds import Link
from slotwise.selection.mix import Mix, Part, parts_of


class Constraints(NamedTuple):
    """Constraints of one page: pinned places, and the places that the policy may use."""

    pinned: Links
    is_free: NDArray[np.bool_]
    n_left: int
    """Slots that the pinned links leave."""

    @classmethod
    def of(cls, pool: LinkPool, n_slots: int, pinned: Links, excluded: Links) -> Constraints:
        """Return the constraints; raises `InvalidInput` if they cannot be met."""
        if len(pinned) > n_slots:
            raise InvalidInput.of("pin", f"at most {n_slots} links, one a slot", len(pinned))
        both = np.intersect1d(pinned, excluded)
        if len(both):
            raise InvalidInput.of("pin", "links that are not excluded", pool.links[both[0]])
        if len(pool) - len(excluded) < n_slots:
            rule = f"few enough links to leave {n_slots} for the page"
            raise InvalidInput.of("exclude", rule, len(excluded))
        is_free = np.ones(len(pool), bool)
        is_free[pinned] = False
        is_free[excluded] = False
        return cls(pinned, is_free, n_slots - len(pinned))


class PageFeedback(NamedTuple):
    """A page view with feedback to learn.

    `news` has a row for each level with feedback: the level, the outcomes by link (0 for links
    without an entry) and 1 if the view was not counted at that level before, otherwise 0. Outcomes
    of the last level are in [0, 1].
    """

    visitor: Visitor | Sequence[int]
    shown: Sequence[Link]
    slots: Sequence[int]
    """The slot of each link shown, from 0 on."""
    probabilities: Sequence[float]
    is_in_random_order: bool
    news: Sequence[tuple[int, Mapping[Link, float], int]]
    was_open: bool = False
    """Whether the page was noted as open at the levels with a first outcome here."""


class DrawnPage(NamedTuple):
    """A page that was drawn, in the order of its slots."""

    shown: tuple[Link, ...]
    drawn_with: tuple[float, ...]
    """The inclusion probability of each link shown."""
    probabilities: Probabilities
    is_in_random_order: bool


MAX_SHOWN = 20
"""Links that the repr shows before it says how many more there are."""


class Probabilities(Mapping[Link, float]):
    """The probability of each link to be on a page; they sum to the number of slots.

    Holds the links whose probability is above 0; any other link of the pool has 0.
    Made from copies of a few small arrays and written out only when read.
    """

    __slots__ = ("_by_link", "_links", "_parts")

    def __init__(self, links: Sequence[Link], *parts: Part) -> None:
        self._links = links
        self._parts = parts
        self._by_link: dict[Link, float] | None = None

    @classmethod
    def of_mix(cls, links: Sequence[Link], mix: Mix) -> Probabilities:
        """Return the probabilities of `mix`; it may change afterwards."""
        return cls(links, *parts_of(mix))

    @classmethod
    def of_array(cls, links: Sequence[Link], probabilities: Floats) -> Probabilities:
        """Return the probabilities of all links of the pool, given in its order."""
        [places] = probabilities.nonzero()
        return cls(links, (places, probabilities[places]))

    def _written_out(self) -> dict[Link, float]:
        if self._by_link is None:
            self._by_link = {
                self._links[place]: probability
                for places, part in self._parts
                for place, probability in zip(
                    places.tolist(), np.broadcast_to(part, len(places)).tolist(), strict=True
                )
            }
        return self._by_link

    def __getitem__(self, link: Link) -> float:
        probability = self._written_out().get(link)
        if probability is None:
            if link not in self._links:
                raise KeyError(link)
            return 0.0
        return probability

    def __contains__(self, link: object) -> bool:
        return link in self._written_out()

    def __iter__(self) -> Iterator[Link]:
        return iter(self._written_out())

    def __len__(self) -> int:
        return len(self._written_out())

    def __repr__(self) -> str:
        written = self._written_out()
        if len(written) <= MAX_SHOWN:
            return repr(written)
        first = dict(itertools.islice(written.items(), MAX_SHOWN))
        return f"{repr(first)[:-1]}, ... {len(written) - MAX_SHOWN} more}}"
