"""Parts of the search for a page: its buffers and the order of ties.

Used by most of `selection`, and by `policies`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slotwise.arrays import Floats, Links, Whole
from slotwise.compile import inner
from slotwise.compile.decorators import WORD
from slotwise.selection.passes import aligned_zeros

N_CANDIDATES, N_CERTAIN, IS_WARM, LAST_WEIGHS_VALUE, N_LISTED, IS_LISTED = range(6)
LAST_PRICE, LAST_THRESHOLD, LAST_SLOPE, REACH, SURE_CLICKS, GAP, DRIFT = range(7)
BUFFER_SIZES, BUFFER_NUMBERS = 6, 7

NOTHING = 1e-12
"""A share of a slot below this counts as 0."""

SLACK, BINDING, INFEASIBLE = range(3)
"""How a floor is kept."""

MAX_PRICE = 1e290
"""Larger prices would overflow; they need click rates below 1e-290."""


class Line(NamedTuple):
    """A page as a line under phi: the price at which it was found, its value and clicks."""

    price: float
    value: float
    clicks: float


class Entries(NamedTuple):
    """The links among which a page is searched: the first `n_entries` of both arrays."""

    value: Floats
    clicks: Floats
    n_entries: int


class Objective(NamedTuple):
    """The objective of a page: value_weight * value + click_weight * clicks of its links."""

    value_weight: float
    click_weight: float


class Search(NamedTuple):
    """Buffers of a search: the candidates, the page's links first and its last link at the end.

    Candidate k is entry `entry[k]`. The first `sizes[N_CERTAIN]` of them are on the page whatever
    ties at its end, and bring `numbers[SURE_CLICKS]`; the others have score `first[k]`, and
    `second[k]` breaks its ties. `links` names the entries where they are the whole pool in order.
    `listed[:sizes[N_LISTED]]` are the entries among which a page is sought, with their value,
    clicks and score, in whole words. Where all entries are (`sizes[IS_LISTED]` is 0), only
    `listed_score` is written, in their order. `sizes` and `numbers` remember the last page, from
    which the next one is expected.
    """

    entry: Links
    first: Floats
    second: Floats
    ties: Links
    links: Links
    listed: Links
    listed_value: Floats
    listed_clicks: Floats
    listed_score: Floats
    sizes: Whole
    numbers: Floats


def new_search(n_links: int) -> Search:
    """Return the buffers for pages from at most `n_links` links."""
    n_padded = n_links + WORD
    return Search(
        entry=np.zeros(n_links, np.int64),
        first=np.zeros(n_links),
        second=np.zeros(n_links),
        ties=np.zeros(n_links, np.int64),
        links=np.arange(n_links),
        listed=np.zeros(n_padded, np.int64),
        listed_value=aligned_zeros(n_padded),
        listed_clicks=aligned_zeros(n_padded),
        listed_score=aligned_zeros(n_padded),
        sizes=np.zeros(BUFFER_SIZES, np.int64),
        numbers=np.zeros(BUFFER_NUMBERS),
    )


FEW = 16
"""Up to this many candidates are sorted; of more, only the best are put first."""


@inner
def is_better(key: float, tie: float, other_key: float, other_tie: float) -> bool:
    """Return whether a candidate comes before another one: by its score, then by its tie."""
    return key > other_key or (key == other_key and tie > other_tie)


@inner
def _swap(search: Search, i: int, j: int) -> None:
    entry, first, second = search.entry, search.first, search.second
    entry[i], entry[j] = entry[j], entry[i]
    first[i], first[j] = first[j], first[i]
    second[i], second[j] = second[j], second[i]


@inner
def move_up(entry: Links, first: Floats, second: Floats, begin: int, at: int) -> None:
    """Move candidate `at` up to its place among those from `begin` on, which are sorted.

    Its arguments are three arrays, not all buffers: passing many arrays costs more than inserting.
    """
    moved, key, tie = entry[at], first[at], second[at]
    k = at
    while k > begin and is_better(key, tie, first[k - 1], second[k - 1]):
        entry[k], first[k], second[k] = entry[k - 1], first[k - 1], second[k - 1]
        k -= 1
    entry[k], first[k], second[k] = moved, key, tie


@inner
def put_best_first(search: Search, begin: int, end: int, n_wanted: int) -> None:
    """Move the best `n_wanted` candidates of begin..end-1 to the front, the worst of them last."""
    first, second = search.first, search.second
    if end - begin <= FEW:
        for k in range(begin + 1, end):
            move_up(search.entry, first, second, begin, k)
        return
    low, high, target = begin, end - 1, begin + n_wanted - 1
    while low < high:
        middle = (low + high) // 2
        key, tie = first[middle], second[middle]
        i, j = low, high
        while i <= j:
            while is_better(first[i], second[i], key, tie):
                i += 1
            while is_better(key, tie, first[j], second[j]):
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
