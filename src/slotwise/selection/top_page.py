"""The best page at given weights, found among few candidates.

A page is the `n_slots` links with the largest score. One pass without branches keeps the links
above a cut that lies a little below where the threshold is expected; only those few are
compared with each other. A cut that proves too high is lowered: it changes the work, never the
page. Nothing here allocates: the caller owns the scratch arrays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.selection.compiled import hot, inner, int64

__all__ = ["TIE", "Search", "new_search", "sampled_cut", "top_page"]

TIE = 1e-12
"""Scores closer than this, relative to the score of the last link on the page, are equal."""

N_CANDIDATES, IS_WARM, LAST_WEIGHS_VALUE = range(3)
LAST_PRICE, LAST_THRESHOLD, LAST_SLOPE, REACH = range(4)
SAMPLE = int64(64)


class Search(NamedTuple):
    """Scratch of a search: the candidates, the page's links first and its last link at the end.

    Candidate k is entry `entry[k]` with score `first[k]`; `second[k]` breaks its ties. `links`
    names the entries where they are the whole pool in order. `sizes` and `numbers` remember
    the last page, from which the next cut is guessed.
    """

    entry: NDArray[np.int64]
    first: NDArray[np.float64]
    second: NDArray[np.float64]
    ties: NDArray[np.int64]
    links: NDArray[np.int64]
    sizes: NDArray[np.int64]
    numbers: NDArray[np.float64]


def new_search(n_links: int) -> Search:
    """Return scratch for pages from at most `n_links` links."""
    return Search(
        entry=np.zeros(n_links, np.int64),
        first=np.zeros(n_links),
        second=np.zeros(n_links),
        ties=np.zeros(n_links, np.int64),
        links=np.arange(n_links),
        sizes=np.zeros(3, np.int64),
        numbers=np.zeros(4),
    )


@inner
def _is_better(key: float, tie: float, other_key: float, other_tie: float) -> bool:
    return key > other_key or (key == other_key and tie > other_tie)


@inner
def _swap(search: Search, i: int, j: int) -> None:
    entry, first, second = search.entry, search.first, search.second
    entry[i], entry[j] = entry[j], entry[i]
    first[i], first[j] = first[j], first[i]
    second[i], second[j] = second[j], second[i]


@inner
def _worst(search: Search, n_candidates: int) -> int:
    """Return the candidate with the lowest score, of several the one that loses their tie."""
    first, second = search.first, search.second
    lowest = first[0]
    for k in range(1, n_candidates):
        lowest = min(lowest, first[k])
    worst = -1
    for k in range(n_candidates):
        if first[k] == lowest and (worst < 0 or second[k] < second[worst]):
            worst = k
    return worst


@inner
def _narrow(search: Search, n_candidates: int, n_slots: int, cut: float, tolerance: float) -> int:
    """Drop candidates that are surely not on the page by halving the range of scores.

    Counting has no branches, so it costs far less than comparing candidates one by one.
    """
    entry, first = search.entry, search.first
    high = first[0]
    for k in range(n_candidates):
        high = max(high, first[k])
    low = cut
    if low == -np.inf:
        low = first[0]
        for k in range(n_candidates):
            low = min(low, first[k])
    n_above = n_candidates
    for _ in range(24):
        middle = 0.5 * (low + high)
        count = 0
        for k in range(n_candidates):
            count += first[k] >= middle
        if count >= n_slots:
            low = middle
            n_above = count
            if n_above - n_slots <= 4:
                break
        else:
            high = middle
    low -= tolerance
    n_kept = 0
    for k in range(n_candidates):
        key = first[k]
        entry[n_kept] = entry[k]
        first[n_kept] = key
        n_kept += key >= low
    return n_kept


@inner
def _put_page_first(search: Search, n_candidates: int, n_slots: int) -> None:
    """Move the best `n_slots` candidates to the front, the worst of them last."""
    if n_candidates - n_slots <= 10:
        for left in range(n_candidates, n_slots - 1, -1):
            _swap(search, _worst(search, left), left - 1)
        return
    first, second = search.first, search.second
    low, high, target = 0, n_candidates - 1, n_slots - 1
    while low < high:
        middle = (low + high) // 2
        key, tie = first[middle], second[middle]
        i, j = low, high
        while i <= j:
            while _is_better(first[i], second[i], key, tie):
                i += 1
            while _is_better(key, tie, first[j], second[j]):
                j -= 1
            if i <= j:
                _swap(search, i, j)
                i += 1
                j -= 1
        if target <= j:
            high = j
        elif target >= i:
            low = i
        else:
            break


@inner
def sampled_cut(
    value: NDArray[np.float64],
    clicks: NDArray[np.float64],
    n_entries: int,
    n_slots: int,
    value_weight: float,
    click_weight: float,
    search: Search,
) -> float:
    """Return a score that about twice as many links as needed should exceed."""
    if n_entries <= SAMPLE or 4 * n_slots > n_entries:
        return -np.inf
    stride = n_entries // SAMPLE
    for k in range(SAMPLE):
        i = k * stride
        search.first[k] = value_weight * value[i] + click_weight * clicks[i]
        search.second[k] = 0.0
    rank = 2 + (2 * n_slots * SAMPLE) // n_entries
    _put_page_first(search, SAMPLE, rank)
    return search.first[rank - 1]


@inner
def _first_cut(
    value: NDArray[np.float64],
    clicks: NDArray[np.float64],
    n_entries: int,
    n_slots: int,
    value_weight: float,
    click_weight: float,
    search: Search,
) -> float:
    """Return where to cut: below the last threshold moved on to this price, or by sampling."""
    numbers = search.numbers
    weighs_value = 1 if value_weight > 0.0 else 0
    if search.sizes[IS_WARM] == 1 and search.sizes[LAST_WEIGHS_VALUE] == weighs_value:
        moved = click_weight - numbers[LAST_PRICE]
        expected = numbers[LAST_THRESHOLD] + moved * numbers[LAST_SLOPE]
        return expected - numbers[REACH] - 0.1 * abs(moved)
    numbers[REACH] = 1e-3
    return sampled_cut(value, clicks, n_entries, n_slots, value_weight, click_weight, search)


@hot
def top_page(
    value: NDArray[np.float64],
    clicks: NDArray[np.float64],
    n_entries: int,
    n_slots: int,
    value_weight: float,
    click_weight: float,
    search: Search,
) -> tuple[float, float]:
    """Put the best page at these weights first in `search`; return its value and clicks.

    Ties go to more clicks; where clicks alone count, to more value. Every entry that ties with
    the page's last is among the candidates.
    """
    entry, first, second, numbers = search.entry, search.first, search.second, search.numbers
    tie_of = clicks if value_weight > 0.0 else value
    tolerance = 4.0 * TIE * (1.0 + click_weight)
    cut = _first_cut(value, clicks, n_entries, n_slots, value_weight, click_weight, search)
    last = n_slots - 1
    n_candidates = spare = int64(0)
    for attempt in range(6):
        if attempt == 5:
            cut = -np.inf
        n_candidates = int64(0)
        for i in range(n_entries):
            key = value_weight * value[i] + click_weight * clicks[i]
            entry[n_candidates] = i
            first[n_candidates] = key
            n_candidates += key >= cut
        spare = n_candidates - n_slots
        if spare >= 0:
            if spare > 8:
                n_candidates = _narrow(search, n_candidates, n_slots, cut, 2.0 * tolerance)
            for k in range(n_candidates):
                second[k] = tie_of[entry[k]]
            _put_page_first(search, n_candidates, n_slots)
            if cut < first[last] - tolerance:
                break
        numbers[REACH] = max(2.0 * numbers[REACH], 1e-7)
        cut -= 2.0 * numbers[REACH]
    if spare > 5:
        numbers[REACH] *= 0.7
    elif spare < 2:
        numbers[REACH] *= 1.3
    search.sizes[N_CANDIDATES] = n_candidates
    search.sizes[IS_WARM] = 1
    search.sizes[LAST_WEIGHS_VALUE] = 1 if value_weight > 0.0 else 0
    numbers[LAST_PRICE] = click_weight
    numbers[LAST_THRESHOLD] = first[last]
    numbers[LAST_SLOPE] = clicks[entry[last]]
    page_value = 0.0
    page_clicks = 0.0
    for k in range(n_slots):
        page_value += value[entry[k]]
        page_clicks += clicks[entry[k]]
    return page_value, page_clicks
