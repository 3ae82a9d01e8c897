"""The best page at given weights, found among few candidates.

A page is the `n_slots` links with the largest score. One pass without branches keeps the links
above a cut that lies a little below where the threshold is expected. Counting, which has no
branches either, then finds two scores around the threshold: links above both are on the page, and
only the few between them are compared with each other. A cut that proves too high is lowered: it
changes the work, never the page. Nothing here allocates: the caller owns the scratch arrays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.selection.candidates import LARGE_POOL, list_candidates
from slotwise.selection.compiled import inner, int64

__all__ = [
    "N_CANDIDATES",
    "N_CERTAIN",
    "SCRATCH_NUMBERS",
    "SCRATCH_SIZES",
    "SURE_CLICKS",
    "TIE",
    "Search",
    "new_search",
    "sampled_cut",
    "top_page",
]

TIE = 1e-12
"""Scores closer than this, relative to the score of the last link on the page, are equal."""

N_CANDIDATES, N_CERTAIN, IS_WARM, LAST_WEIGHS_VALUE = range(4)
LAST_PRICE, LAST_THRESHOLD, LAST_SLOPE, REACH, SURE_CLICKS = range(5)
SCRATCH_SIZES, SCRATCH_NUMBERS = 4, 5
SAMPLE = int64(64)

FEW = 8
"""So many candidates around the threshold are sorted; more are first counted apart."""

MANY = 256
"""Among more candidates than this, those that tie at the end of the page are looked for first."""


class Search(NamedTuple):
    """Scratch of a search: the candidates, the page's links first and its last link at the end.

    Candidate k is entry `entry[k]`. The first `sizes[N_CERTAIN]` of them are on the page whatever
    ties at its end, and bring `numbers[SURE_CLICKS]`; the others have score `first[k]`, and
    `second[k]` breaks its ties. `links` names the entries where they are the whole pool in order.
    `sizes` and `numbers` remember the last page, from which the next cut is guessed.
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
        sizes=np.zeros(SCRATCH_SIZES, np.int64),
        numbers=np.zeros(SCRATCH_NUMBERS),
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
def _sort(search: Search, begin: int, end: int) -> None:
    """Sort candidates, the best first; for few of them."""
    entry, first, second = search.entry, search.first, search.second
    for k in range(begin + 1, end):
        moved, key, tie = entry[k], first[k], second[k]
        place = k
        while place > begin and _is_better(key, tie, first[place - 1], second[place - 1]):
            entry[place] = entry[place - 1]
            first[place] = first[place - 1]
            second[place] = second[place - 1]
            place -= 1
        entry[place], first[place], second[place] = moved, key, tie


@inner
def _put_best_first(search: Search, begin: int, end: int, n_wanted: int) -> None:
    """Move the best `n_wanted` candidates to the front, the worst of them last."""
    if end - begin <= 2 * FEW:
        _sort(search, begin, end)
        return
    first, second = search.first, search.second
    low, high, target = begin, end - 1, begin + n_wanted - 1
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
def _range_around(
    first: NDArray[np.float64], n_candidates: int, n_slots: int, cut: float, width: float
) -> tuple[float, float]:
    """Return two scores around the threshold with few candidates between them.

    Fewer than `n_slots` candidates reach the upper one, which is infinite where none does. Where
    many tie at the threshold both are that score, the upper one a little above it. Most thresholds
    lie little above the cut, so steps from there that grow from `width` find an upper score, and
    halving does the rest.
    """
    if n_candidates > MANY:
        # most of so many tie as a rule: one of them is likely at the end of the page
        middle = first[n_candidates // 2]
        n_higher = n_equal = int64(0)
        for k in range(n_candidates):
            n_higher += first[k] > middle
            n_equal += first[k] == middle
        if n_higher < n_slots <= n_higher + n_equal:
            return middle, np.nextafter(middle, np.inf)
    low, most = cut, np.inf
    if cut == -np.inf or width == np.inf:
        low, most, width = first[0], first[0], np.inf
        for k in range(n_candidates):
            low = min(low, first[k])
            most = max(most, first[k])
        low = max(low, cut)
    high = np.inf
    n_low, n_high = n_candidates, int64(0)
    for step in range(60):
        if n_low - n_high <= FEW:
            break
        if high == np.inf and width < np.inf:
            middle = low + width
            width *= 8.0
        else:
            middle = 0.5 * (low + min(high, most))
        if step % 4 == 3:
            # halving does not part links that tie: try the best score below the upper one
            middle = low
            for k in range(n_candidates):
                middle = max(middle, first[k] if first[k] < high else low)
        count = int64(0)
        for k in range(n_candidates):
            count += first[k] >= middle
        if count >= n_slots:
            low, n_low = middle, count
            if step % 4 == 3:
                break
        else:
            high, n_high = middle, count
    return low, high


@inner
def _part(search: Search, n_candidates: int, least: float, certain: float) -> tuple[int, int]:
    """Move the candidates that score at least `certain` to the front, then those from `least` on.

    Return where each of the two groups ends. Without a branch, which would be mispredicted often.
    """
    entry, first, others, scores = search.entry, search.first, search.ties, search.second
    n_certain = n_others = int64(0)
    for k in range(n_candidates):
        link, score = entry[k], first[k]
        entry[n_certain] = link
        others[n_others] = link
        scores[n_others] = score
        is_certain = score >= certain
        n_certain += is_certain
        n_others += (score >= least) & (not is_certain)
    for k in range(n_others):
        entry[n_certain + k] = others[k]
        first[n_certain + k] = scores[k]
    return n_certain, n_certain + n_others


@inner
def _put_page_first(
    search: Search,
    n_candidates: int,
    n_slots: int,
    cut: float,
    depth: float,
    tolerance: float,
    tie_of: NDArray[np.float64],
) -> None:
    """Order the candidates: those certain, then those around the threshold, the best first.

    The threshold is expected at `depth` above the cut.
    """
    entry, second = search.entry, search.second
    width = max(2.0 * depth, 4.0 * tolerance)
    low, high = _range_around(search.first, n_candidates, n_slots, cut, width)
    n_certain, end = _part(search, n_candidates, max(cut, low - tolerance), high + tolerance)
    one, other = search.first[n_certain], tie_of[entry[n_certain]]
    n_equal = int64(0)
    for k in range(n_certain, end):
        second[k] = tie_of[entry[k]]
        n_equal += (search.first[k] == one) & (second[k] == other)
    if n_equal < end - n_certain:
        _put_best_first(search, n_certain, end, n_slots - n_certain)
    search.sizes[N_CANDIDATES] = end
    search.sizes[N_CERTAIN] = n_certain


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
    _put_best_first(search, int64(0), SAMPLE, rank)
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
) -> tuple[float, float]:
    """Return where to cut: below the last threshold moved on to this price, or by sampling.

    And how far below the expected threshold that is.
    """
    numbers = search.numbers
    weighs_value = 1 if value_weight > 0.0 else 0
    if search.sizes[IS_WARM] == 1 and search.sizes[LAST_WEIGHS_VALUE] == weighs_value:
        moved = click_weight - numbers[LAST_PRICE]
        expected = numbers[LAST_THRESHOLD] + moved * numbers[LAST_SLOPE]
        depth = numbers[REACH] + 0.1 * abs(moved)
        return expected - depth, depth
    numbers[REACH] = 1e-3
    cut = sampled_cut(value, clicks, n_entries, n_slots, value_weight, click_weight, search)
    return cut, np.inf


@inner
def _sums(
    value: NDArray[np.float64],
    clicks: NDArray[np.float64],
    entry: NDArray[np.int64],
    begin: int,
    end: int,
) -> tuple[float, float]:
    """Return the value and the clicks of some candidates; four sums each, which do not wait."""
    value_0 = value_1 = value_2 = value_3 = 0.0
    clicks_0 = clicks_1 = clicks_2 = clicks_3 = 0.0
    n_whole = begin + 4 * ((end - begin) // 4)
    for k in range(begin, n_whole, 4):
        value_0 += value[entry[k]]
        value_1 += value[entry[k + 1]]
        value_2 += value[entry[k + 2]]
        value_3 += value[entry[k + 3]]
        clicks_0 += clicks[entry[k]]
        clicks_1 += clicks[entry[k + 1]]
        clicks_2 += clicks[entry[k + 2]]
        clicks_3 += clicks[entry[k + 3]]
    for k in range(n_whole, end):
        value_0 += value[entry[k]]
        clicks_0 += clicks[entry[k]]
    return (value_0 + value_1) + (value_2 + value_3), (clicks_0 + clicks_1) + (clicks_2 + clicks_3)


@inner
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
    entry, first, numbers = search.entry, search.first, search.numbers
    tie_of = clicks if value_weight > 0.0 else value
    tolerance = 4.0 * TIE * (1.0 + click_weight)
    cut, depth = _first_cut(value, clicks, n_entries, n_slots, value_weight, click_weight, search)
    last = n_slots - 1
    n_candidates = spare = int64(0)
    for attempt in range(6):
        if attempt == 5:
            cut = -np.inf
        n_candidates = int64(0)
        if n_entries >= LARGE_POOL:
            n_candidates = list_candidates(
                value, clicks, n_entries, value_weight, click_weight, cut, entry, first
            )
        else:
            for i in range(n_entries):
                key = value_weight * value[i] + click_weight * clicks[i]
                entry[n_candidates] = i
                first[n_candidates] = key
                n_candidates += key >= cut
        spare = n_candidates - n_slots
        if spare >= 0:
            _put_page_first(search, n_candidates, n_slots, cut, depth, 2.0 * tolerance, tie_of)
            if cut < first[last] - tolerance:
                break
        numbers[REACH] = max(2.0 * numbers[REACH], 1e-7)
        cut -= 2.0 * numbers[REACH]
        depth += 2.0 * numbers[REACH]
    if spare > 5:
        numbers[REACH] *= 0.7
    elif spare < 2:
        numbers[REACH] *= 1.3
    search.sizes[IS_WARM] = 1
    search.sizes[LAST_WEIGHS_VALUE] = 1 if value_weight > 0.0 else 0
    numbers[LAST_PRICE] = click_weight
    numbers[LAST_THRESHOLD] = first[last]
    numbers[LAST_SLOPE] = clicks[entry[last]]
    n_certain = search.sizes[N_CERTAIN]
    page_value, page_clicks = _sums(value, clicks, entry, int64(0), n_certain)
    numbers[SURE_CLICKS] = page_clicks
    rest_value, rest_clicks = _sums(value, clicks, entry, n_certain, n_slots)
    return page_value + rest_value, page_clicks + rest_clicks
