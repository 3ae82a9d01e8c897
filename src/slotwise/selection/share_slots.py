"""From a price to probabilities: who is surely on the page, and how the boundary is shared.

Links above the threshold are sure. Links that tie at the threshold share what is left so that
the floor is kept exactly, and links with equal estimates get equal probabilities: a tie is
broken by chance alone, and only at the boundary.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.selection.compiled import compiled
from slotwise.selection.mix import N_OPEN, N_SURE, Mix
from slotwise.selection.price_search import BINDING, TIE, Price, Search, score

__all__ = ["share_slots"]


@compiled
def _sort_by_clicks(ties: NDArray[np.int64], n_ties: int, clicks: NDArray[np.float64]) -> None:
    if n_ties > 24:
        ties[:n_ties] = ties[:n_ties][np.argsort(clicks[ties[:n_ties]])]
        return
    for k in range(1, n_ties):
        moved = ties[k]
        j = k - 1
        while j >= 0 and clicks[ties[j]] > clicks[moved]:
            ties[j + 1] = ties[j]
            j -= 1
        ties[j + 1] = moved


@compiled
def _add(mix: Mix, link: int, chance: float) -> None:
    if chance >= 1.0:
        mix.sure[mix.sizes[N_SURE]] = link
        mix.sizes[N_SURE] += 1
    elif chance > 0.0:
        mix.open[mix.sizes[N_OPEN]] = link
        mix.chances[mix.sizes[N_OPEN]] = chance
        mix.sizes[N_OPEN] += 1


@compiled
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


@compiled
def share_slots(
    value: NDArray[np.float64],
    clicks: NDArray[np.float64],
    links: NDArray[np.int64],
    n_entries: int,
    n_slots: int,
    floor: float,
    price: Price,
    search: Search,
    mix: Mix,
) -> None:
    """Add to `mix` the entries that fill `n_slots` slots at `price`; entry i is `links[i]`."""
    ties = search.ties
    n_ties = 0
    n_above = 0
    if price.status == BINDING:
        tolerance = TIE * (1.0 + price.click_weight)
        clicks_above = 0.0
        for i in range(n_entries):
            key = score(price, value[i], clicks[i])
            if key > price.threshold + tolerance:
                _add(mix, links[i], 1.0)
                n_above += 1
                clicks_above += clicks[i]
            elif key >= price.threshold - tolerance:
                ties[n_ties] = i
                n_ties += 1
        wanted = floor - clicks_above
        _share_binding(clicks, links, n_ties, n_slots - n_above, wanted, ties, mix)
        return
    by_clicks = price.value_weight > 0.0
    for i in range(n_entries):
        key = score(price, value[i], clicks[i])
        second = clicks[i] if by_clicks else value[i]
        if key > price.threshold or (key == price.threshold and second > price.second):
            _add(mix, links[i], 1.0)
            n_above += 1
        elif key == price.threshold and second == price.second:
            ties[n_ties] = i
            n_ties += 1
    for k in range(n_ties):
        _add(mix, links[ties[k]], (n_slots - n_above) / n_ties)
