"""The floor program for kinds of visitors, solved again and again while a few rates change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from slotwise.errors import InvalidInput
from slotwise.selection.solve import STATUSES, Solution, check_floor, check_kinds, check_rates
from slotwise.selection.solve_kinds import new_kinds, solve_kept_kinds


class KindsProgram:
    """A floor program for kinds of visitors that is solved again and again.

    The answers are those of `solve`; a search starts from the last price and from where the last
    page of each kind ended.

    >>> value, clicks = [[0.9, 0.1], [0.2, 0.3]], [[0.1, 0.5], [0.5, 0.1]]
    >>> program = KindsProgram(value, clicks, n_slots=1, floor=0.2, shares=[0.5, 0.5])
    >>> round(program.solve().shadow_price, 6)
    0.25
    >>> program.change(0, [0], value=[0.9], clicks=[0.4])
    >>> program.solve().status
    'slack'
    """

    def __init__(
        self, value: ArrayLike, clicks: ArrayLike, n_slots: int, floor: float, shares: ArrayLike
    ) -> None:
        rows, click_rows, weights = check_kinds(value, clicks, n_slots, shares)
        self._n_slots = n_slots
        self._floor = check_floor(floor)
        self._kinds = new_kinds(rows.copy(), click_rows.copy(), weights.copy())

    def change(self, kind: int, links: Sequence[int], value: ArrayLike, clicks: ArrayLike) -> None:
        """Set the value and clicks that `links`, given by their places, have for one kind."""
        n_kinds, n_links = self._kinds.value.shape
        if not 0 <= kind < n_kinds:
            raise InvalidInput.of("kind", f"a place from 0 to {n_kinds - 1}", kind)
        if not len(links):
            return
        new_value, new_clicks = check_rates("value", value), check_rates("clicks", clicks)
        if not len(links) == len(new_value) == len(new_clicks):
            raise InvalidInput.of("links", f"as long as `value` ({len(new_value)})", len(links))
        for link in links:
            if not 0 <= link < n_links:
                raise InvalidInput.of("links", f"places from 0 to {n_links - 1}", link)
        places = np.array(links, np.int64)
        self._kinds.value[kind, places] = new_value
        self._kinds.clicks[kind, places] = new_clicks

    def change_shares(self, shares: ArrayLike) -> None:
        """Set what part of the page views each kind has."""
        kinds = self._kinds
        kinds.shares[:] = check_kinds(kinds.value, kinds.clicks, self._n_slots, shares)[2]

    def solve(self) -> Solution:
        """Return the best mix for the rates as they are now."""
        found = solve_kept_kinds(self._kinds, self._n_slots, self._floor)
        return Solution(found[0], found[1], STATUSES[found[2]], found[3], found[4])
