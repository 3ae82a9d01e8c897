"""From a price to probabilities: who is surely on the page, and how the boundary is shared.

Links above the threshold are sure. Links that tie at the threshold share what is left so that
the floor is kept exactly, and links with equal estimates get equal probabilities: a tie is
broken by chance alone, and only at the boundary.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.selection.compiled import hot
from slotwise.selection.mix import N_OPEN, N_SURE, Mix
from slotwise.selection.price_search import BINDING, Price
from slotwise.selection.top_page import N_CANDIDATES, TIE, Search

__all__ = ["share_slots"]


@hot
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


@hot
def _sort_by_clicks(ties: NDArray[np.int64], n_ties: int, clicks: NDArray[np.float64]) -> None:
    """Sort ascending in place (heap sort: ties are few, and nothing may be allocated)."""
    for root in range(n_ties // 2 - 1, -1, -1):
        _sink(ties, root, n_ties, clicks)
    for last in range(n_ties - 1, 0, -1):
        ties[0], ties[last] = ties[last], ties[0]
        _sink(ties, 0, last, clicks)


@hot
def _add(mix: Mix, link: int, chance: float) -> None:
    if chance >= 1.0:
        mix.sure[mix.sizes[N_SURE]] = link
        mix.sizes[N_SURE] += 1
    elif chance > 0.0:
        mix.open[mix.sizes[N_OPEN]] = link
        mix.chances[mix.sizes[N_OPEN]] = chance
        mix.sizes[N_OPEN] += 1


@hot
def _share_binding(
    clicks: NDArray[np.float64],
    links: NDArray[np.int64],
    n_ties: int,
    slots: int,
    clicks_wanted: float,
    ties: NDArray[np.int64],
    mix: Mix,
) -> None:
    """Share `slots` among ties so that they bring `clicks_wanted`: theta * most + rest * fewest.

    The two extremes fill the slots with the most and with the least clicked ties; links with
    the same clicks stand for each other and share what falls to their group.
    """
    _sort_by_clicks(ties, n_ties, clicks)
    fewest = most = 0.0
    for k in range(slots):
        fewest += clicks[ties[k]]
        most += clicks[ties[n_ties - 1 - k]]
    theta = 1.0
    if most > fewest:
        theta = min(1.0, max(0.0, (clicks_wanted - fewest) / (most - fewest)))
    start = 0
    while start < n_ties:
        end = start + 1
        while end < n_ties and clicks[ties[end]] == clicks[ties[start]]:
            end += 1
        in_fewest = min(max(slots - start, 0), end - start)
        in_most = min(max(slots - (n_ties - end), 0), end - start)
        chance = (theta * in_most + (1.0 - theta) * in_fewest) / (end - start)
        for k in range(start, end):
            _add(mix, links[ties[k]], chance)
        start = end


@hot
def share_slots(
    clicks: NDArray[np.float64],
    links: NDArray[np.int64],
    n_slots: int,
    floor: float,
    price: Price,
    search: Search,
    mix: Mix,
) -> None:
    """Add to `mix` the page found at `price`, its boundary shared; entry i is `links[i]`."""
    entry, first, second, ties = search.entry, search.first, search.second, search.ties
    n_candidates = search.sizes[N_CANDIDATES]
    n_ties = 0
    n_above = 0
    clicks_above = 0.0
    exact = price.status != BINDING
    tolerance = 0.0 if exact else TIE * (1.0 + price.click_weight)
    for k in range(n_candidates):
        ahead = first[k] - price.threshold
        if exact and ahead == 0.0:
            ahead = second[k] - price.second
        if ahead > tolerance:
            _add(mix, links[entry[k]], 1.0)
            n_above += 1
            clicks_above += clicks[entry[k]]
        elif ahead >= -tolerance:
            ties[n_ties] = entry[k]
            n_ties += 1
    slots = n_slots - n_above
    if exact or n_ties == slots:
        for k in range(n_ties):
            _add(mix, links[ties[k]], slots / n_ties)
    else:
        _share_binding(clicks, links, n_ties, slots, floor - clicks_above, ties, mix)
