"""The scratch of a search for pages, and what it remembers from one page to the next."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.selection.vectors.score_passes import WORD, aligned_zeros

__all__ = [
    "DRIFT",
    "GAP",
    "IS_LISTED",
    "IS_WARM",
    "LAST_PRICE",
    "LAST_SLOPE",
    "LAST_THRESHOLD",
    "LAST_WEIGHS_VALUE",
    "N_CANDIDATES",
    "N_CERTAIN",
    "N_LISTED",
    "REACH",
    "SCRATCH_NUMBERS",
    "SCRATCH_SIZES",
    "SURE_CLICKS",
    "Search",
    "new_search",
]

N_CANDIDATES, N_CERTAIN, IS_WARM, LAST_WEIGHS_VALUE, N_LISTED, IS_LISTED = range(6)
LAST_PRICE, LAST_THRESHOLD, LAST_SLOPE, REACH, SURE_CLICKS, GAP, DRIFT = range(7)
SCRATCH_SIZES, SCRATCH_NUMBERS = 6, 7


class Search(NamedTuple):
    """Scratch of a search: the candidates, the page's links first and its last link at the end.

    Candidate k is entry `entry[k]`. The first `sizes[N_CERTAIN]` of them are on the page whatever
    ties at its end, and bring `numbers[SURE_CLICKS]`; the others have score `first[k]`, and
    `second[k]` breaks its ties. `links` names the entries where they are the whole pool in order.
    `listed[:sizes[N_LISTED]]` are the entries among which a page is sought, with their value,
    clicks and score, in whole words. Where all entries are (`sizes[IS_LISTED]` is 0), only
    `listed_score` is written, in their order. `sizes` and `numbers` remember the last page, from
    which the next one is expected.
    """

    entry: NDArray[np.int64]
    first: NDArray[np.float64]
    second: NDArray[np.float64]
    ties: NDArray[np.int64]
    links: NDArray[np.int64]
    listed: NDArray[np.int64]
    listed_value: NDArray[np.float64]
    listed_clicks: NDArray[np.float64]
    listed_score: NDArray[np.float64]
    sizes: NDArray[np.int64]
    numbers: NDArray[np.float64]


def new_search(n_links: int) -> Search:
    """Return scratch for pages from at most `n_links` links."""
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
        sizes=np.zeros(SCRATCH_SIZES, np.int64),
        numbers=np.zeros(SCRATCH_NUMBERS),
    )
