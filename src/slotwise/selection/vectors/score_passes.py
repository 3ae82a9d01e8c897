"""Passes over arrays of scores, several numbers at a time.

The compiler makes no vector code of a conditional minimum, of a sum of selected numbers or of a
list of selected places, and a page is found by little else. These passes are written in LLVM's
vectors, which every processor has in some width; beside each stands the same in plain Python, which
runs where nothing is compiled and is what the tests compare with.

Arrays of scores are padded to whole words of `WORD` numbers; a padded score is minus infinity. Used
by `policies`.
"""

from __future__ import annotations

import numpy as np

from slotwise.arrays import Floats, Links
from slotwise.compile import vector_pass
from slotwise.compile.decorators import LANES, WORD

LINE = 64
"""Bytes in a line of memory: a vector that lies in two lines takes twice as long to read."""


def aligned_zeros(n_numbers: int) -> Floats:
    """Return zeros that start with a line of memory.

    >>> aligned_zeros(3).ctypes.data % LINE
    0
    """
    room = np.zeros(n_numbers + LINE // 8)
    start = -room.ctypes.data % LINE // 8
    return room[start : start + n_numbers]


@vector_pass
def neighbours(scores: Floats, n_blocks: int, bound: float) -> tuple[float, float, int]:
    """Return the largest score at or below `bound`, the least above it, and how many are above.

    Where there is no such score, it is infinite.
    """
    below, above, n_above = -np.inf, np.inf, 0
    for k in range(LANES * n_blocks):
        if scores[k] > bound:
            above = min(above, scores[k])
            n_above += 1
        else:
            below = max(below, scores[k])
    return below, above, n_above


@vector_pass
def score_all(
    value: Floats,
    clicks: Floats,
    n_entries: int,
    value_weight: float,
    click_weight: float,
    bound: float,
    scores: Floats,
) -> tuple[float, float, int]:
    """Write value_weight * value + click_weight * clicks, then a word of minus infinity.

    Return the `neighbours` of `bound` among these scores. Needs at least `LANES` entries.
    """
    for k in range(n_entries):
        scores[k] = value_weight * value[k] + click_weight * clicks[k]
    scores[n_entries : n_entries + WORD] = -np.inf
    return neighbours(scores, (n_entries + LANES - 1) // LANES, bound)


@vector_pass
def page_sums(
    scores: Floats, value: Floats, clicks: Floats, n_entries: int, bound: float, last: float
) -> tuple[int, float, float, float]:
    """Return how many scores are at least `bound`, with the sums of their values and clicks.

    And the most clicks of a link whose score is `last`.
    """
    count, slope = 0, 0.0
    sums = np.zeros((2, LANES))
    for k in range(n_entries):
        if scores[k] >= bound:
            count += 1
            sums[0, k % LANES] += value[k]
            sums[1, k % LANES] += clicks[k]
        if scores[k] == last:
            slope = max(slope, clicks[k])
    lanes = LANES
    while lanes > 1:
        lanes //= 2
        sums = sums[:, :lanes] + sums[:, lanes : 2 * lanes]
    return count, float(sums[0, 0]), float(sums[1, 0]), slope


@vector_pass
def split_page(
    scores: Floats, n_words: int, certain: float, least: float, places: Links, ties: Links
) -> tuple[int, int]:
    """List the places of scores of at least `certain`, and of the others of at least `least`."""
    n_certain = n_ties = 0
    for k in range(WORD * n_words):
        if scores[k] >= certain:
            places[n_certain] = k
            n_certain += 1
        elif scores[k] >= least:
            ties[n_ties] = k
            n_ties += 1
    return n_certain, n_ties


@vector_pass
def list_at_least(
    value: Floats,
    clicks: Floats,
    n_entries: int,
    value_weight: float,
    click_weight: float,
    cut: float,
    listed: Links,
    listed_value: Floats,
    listed_clicks: Floats,
) -> int:
    """List the entries that score at least `cut`, in order; return how many they are.

    Needs at least `WORD` entries.
    """
    count = 0
    for i in range(n_entries):
        if value_weight * value[i] + click_weight * clicks[i] >= cut:
            listed[count] = i
            listed_value[count] = value[i]
            listed_clicks[count] = clicks[i]
            count += 1
    return count
