"""The pages that a selector would choose now, on copies, so that looking changes nothing."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slotwise.features import Visitor
from slotwise.selection import dense_probabilities, dependent_rounding
from slotwise.selection.mix import explored
from slotwise.selection.vectors.uniforms import chance_of

if TYPE_CHECKING:
    from slotwise.selector.selector import Selector


Floats = NDArray[np.float64]
Links = NDArray[np.int64]

N_PAGES = 64


class PagesAhead:
    """What a selector would show, and where on the page."""

    def __init__(self, selector: Selector[Any]) -> None:
        self._player = selector._player
        self._state = self._player.restore(
            selector._problem, self._player.knowledge(selector._state)
        )
        self._rng, self._choose = selector._rng, selector._choose_for
        self._explore, self._slots = selector._explore, selector._slots
        self._nobody = selector._visits.encode(None)

    def probabilities(self, visitor: Visitor) -> Floats:
        """Return the inclusion probabilities of the next page, if it is for this visitor."""
        return self._chosen(visitor, copy.deepcopy(self._rng))

    def pages(self) -> Iterator[Links]:
        """Draw pages for visitors like those seen, each in the order of its slots."""
        rng = copy.deepcopy(self._rng)
        chance = chance_of(rng)
        visitors = self._player.visitors_seen(self._state)
        if visitors.shape[1] < len(self._nobody):  # a policy that does not say whom it has seen
            visitors = self._nobody[None]
        for k in range(N_PAGES):
            probabilities = self._chosen(visitors[k % len(visitors)], rng)
            page = dependent_rounding(probabilities, rng)
            self._slots.arrange(self._state, chance, page, probabilities[page])
            yield page

    def _chosen(self, visitor: Visitor, rng: np.random.Generator) -> Floats:
        self._choose(self._state, visitor, rng)
        return explored(dense_probabilities(self._state.mix), self._explore)
