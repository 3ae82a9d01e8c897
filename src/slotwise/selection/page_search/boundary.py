"""The boundary of a page: the links that tie with its last one, and the clicks they may bring.

At a price, every link clearly above the threshold is on every best page. The links that tie at
the threshold fill the remaining slots in any way, so the best pages bring a range of clicks.
The floor is kept exactly at a price whose range contains it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.selection.compiled import inner, int64
from slotwise.selection.page_search.page_scratch import (
    N_CANDIDATES,
    N_CERTAIN,
    SURE_CLICKS,
    Search,
)
from slotwise.selection.top_page import TIE

__all__ = ["Boundary", "page_boundary"]


class Boundary(NamedTuple):
    """The ties of a page, sorted by clicks in `search.ties` where they exceed `slots`.

    `slots` are left for them; `fewest` and `most` are the clicks of these slots with the least
    and with the most clicked ties in them. Links above `least_above` are sure and bring
    `clicks_above`, kept apart so that a steep price does not magnify the rounding of a sum.
    """

    n_ties: int
    slots: int
    least_above: float
    clicks_above: float
    fewest: float
    most: float


@inner
def _sink(ties: NDArray[np.int64], root: int, size: int, clicks: NDArray[np.float64]) -> None:
    moved = ties[root]
    while True:
        child = 2 * root + 1
        if child >= size:
            break
        if child + 1 < size and clicks[ties[child + 1]] > clicks[ties[child]]:
            child += 1
        if clicks[ties[child]] <= clicks[moved]:
            break
        ties[root] = ties[child]
        root = child
    ties[root] = moved


@inner
def _sort_by_clicks(ties: NDArray[np.int64], n_ties: int, clicks: NDArray[np.float64]) -> None:
    """Sort ascending in place (heap sort: ties are few, and nothing may be allocated)."""
    for root in range(n_ties // 2 - 1, -1, -1):
        _sink(ties, root, n_ties, clicks)
    for last in range(n_ties - 1, 0, -1):
        ties[0], ties[last] = ties[last], ties[0]
        _sink(ties, int64(0), last, clicks)


@inner
def page_boundary(clicks: NDArray[np.float64], n_slots: int, search: Search) -> Boundary:
    """Return the boundary of the page that `top_page` left in `search`.

    Scores are sums of two products of nonnegative numbers, so scores that are equal without
    rounding differ by a few units in the last place of the threshold, whatever its scale.
    """
    entry, first, ties = search.entry, search.first, search.ties
    threshold = first[n_slots - 1]
    least_above = threshold + TIE * threshold
    least_tied = threshold - TIE * threshold
    n_above = search.sizes[N_CERTAIN]
    n_ties = int64(0)
    clicks_above = search.numbers[SURE_CLICKS]
    for k in range(n_above, search.sizes[N_CANDIDATES]):
        if first[k] > least_above:
            n_above += 1
            clicks_above += clicks[entry[k]]
        elif first[k] >= least_tied:
            ties[n_ties] = entry[k]
            n_ties += 1
    slots = n_slots - n_above
    if n_ties > slots:
        _sort_by_clicks(ties, n_ties, clicks)
    fewest = most = 0.0
    for k in range(slots):
        fewest += clicks[ties[k]]
        most += clicks[ties[n_ties - 1 - k]]
    return Boundary(n_ties, slots, least_above, clicks_above, fewest, most)
