"""Passes over arrays: scores of a page and the last of them, sums, and lists of places.

The compiler does not vectorise a conditional minimum, a sum of selected numbers or a list of
selected indices, and a page search consists mainly of these. A `vector_pass` is written with LLVM's
vectors, which every processor has in some width (`slotwise.compile.vector_code`); this module has
the same in plain Python, which runs without compilation and is the reference of the tests.

Arrays of scores are padded to whole words of `WORD` numbers; a padded score is minus infinity. Used
by most of `selection`, and by `policies` and `simulation`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.arrays import Floats, Links
from slotwise.compile import hot, inner, int64, vector_pass
from slotwise.compile.decorators import LANES, WORD
from slotwise.selection.mix import INTEGRAL

LINE = 64
"""Bytes in a cache line: a vector across two lines takes twice as long to read."""


def aligned_zeros(n_numbers: int) -> Floats:
    """Return a zeroed array aligned to a cache line.

    >>> aligned_zeros(3).ctypes.data % LINE
    0
    """
    padded = np.zeros(n_numbers + LINE // 8)
    start = -padded.ctypes.data % LINE // 8
    return padded[start : start + n_numbers]


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

    Also return the most clicks of a link whose score is `last`.
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
def list_at_least(  # noqa: PLR0913
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
    """List the entries that score at least `cut`, in order; return their number.

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


@hot
def total_of(numbers: Floats) -> float:
    """Return the sum of all numbers, from four independent partial sums.

    A single running sum takes four cycles per number, a large part of a round on a page of sixty
    links. Whole numbers give the same sum in any order.
    """
    total_0 = total_1 = total_2 = total_3 = 0.0
    n_whole = 4 * (len(numbers) // 4)
    for k in range(0, n_whole, 4):
        total_0 += numbers[k]
        total_1 += numbers[k + 1]
        total_2 += numbers[k + 2]
        total_3 += numbers[k + 3]
    for k in range(n_whole, len(numbers)):
        total_0 += numbers[k]
    return (total_0 + total_1) + (total_2 + total_3)


@hot
def total_of_products(numbers: Floats, factors: Floats) -> float:
    """Return the `total_of` all products of a number and its factor, which are not stored."""
    total_0 = total_1 = total_2 = total_3 = 0.0
    n_whole = 4 * (len(numbers) // 4)
    for k in range(0, n_whole, 4):
        total_0 += numbers[k] * factors[k]
        total_1 += numbers[k + 1] * factors[k + 1]
        total_2 += numbers[k + 2] * factors[k + 2]
        total_3 += numbers[k + 3] * factors[k + 3]
    for k in range(n_whole, len(numbers)):
        total_0 += numbers[k] * factors[k]
    return (total_0 + total_1) + (total_2 + total_3)


@vector_pass
def sum_below(numbers: Floats, n_blocks: int, cap: float) -> tuple[float, int]:
    """Return the sum of the numbers below the cap, and how many reach it, in whole blocks.

    The compiler does not vectorise such a sum.
    """
    blocks = numbers[: LANES * n_blocks].reshape(n_blocks, LANES)
    sums = np.zeros(LANES)
    for block in blocks:
        sums += np.where(block < cap, block, 0.0)
    while len(sums) > 1:
        sums = sums[: len(sums) // 2] + sums[len(sums) // 2 :]
    return float(sums[0]), int(np.sum(blocks >= cap))


VECTOR = 8
"""Numbers in the widest vector of a processor."""


@inner
def whole_vectors(count: int) -> int:
    """Return how many numbers to compute to fill whole vectors; a few are computed one by one.

    The compiler computes what is left of a vector one by one, and a division or a root of one
    number takes as long as of a vector.
    """
    return count if count < VECTOR else (count + VECTOR - 1) // VECTOR * VECTOR


@inner
def list_marked(marks: NDArray[np.bool_], listed: Links) -> int:
    """List the links that are marked, in their order; return how many there are.

    `listed` must have room for one more than all of them.
    """
    count = int64(0)
    for link in range(len(marks)):
        listed[count] = link
        count += marks[link]
    return count


@vector_pass
def first_above(sums: Floats, start: int, bound: float) -> int:
    """Return the first place from `start` on whose sum exceeds `bound`; there must be one.

    A search one by one ends with a branch that the processor predicts wrongly, which costs more
    than comparing a window of sums. `sums` must have a window more than are searched.
    """
    place = start
    while sums[place] <= bound:
        place += 1
    return place


@inner
def running_sums(entries: Floats, n_entries: int, n_slots: int, sums: Floats, places: Links) -> int:
    """Write the sum before each entry and the sum of all: the input of rounding.

    Every probability is first rounded to a multiple of the spacing of numbers as large as the page.
    Sums of such multiples are exact: they are the same in any order, they never decrease, and they
    stay the same where a probability is 0.

    Entries that are sure or impossible add nothing. List in `places` the entries that are sure, and
    those with which the sum reaches a whole number; return how many there are.
    """
    grid = 1.0
    while 2.0 * grid <= n_slots:
        grid *= 2.0
    total = 0.0
    upcoming = 1.0  # the whole number that the sum reaches next
    count = int64(0)
    sums[0] = 0.0
    for i in range(n_entries):
        probability = entries[i]
        if probability >= 1.0 - INTEGRAL:
            places[count] = i
            count += 1
        elif probability > INTEGRAL:
            total += (probability + grid) - grid
            if total + INTEGRAL >= upcoming:
                upcoming += 1.0
                places[count] = i
                count += 1
        sums[i + 1] = total
    return count


@inner
def find_threshold(
    scores: Floats,
    n_listed: int,
    n_slots: int,
    below: float,
    above: float,
    n_above: int,
    first_gap: float,
) -> tuple[float, float]:
    """Return the score of the page's last link: `n_slots` scores reach it, fewer exceed it.

    `below`, `above` and `n_above` are the `neighbours` of where it is expected. `first_gap` is how
    far apart scores are near it, as far as is known; what is returned with the threshold is the
    better guess for the next one. Both guesses change the work, not the answer.

    One vectorised pass counts the scores above a bound and finds the scores on both sides of it.
    Each pass narrows the interval of the threshold: first by the density of scores near the
    expected threshold, then by interpolation, until one score is left.
    """
    n_blocks = (n_listed + LANES - 1) // LANES
    # it is in [least, most]: `n_reaching` scores reach `least`, `n_exceeding` exceed `most`
    least, n_reaching, is_least_known = -np.inf, n_listed, False
    most, n_exceeding, is_most_known = np.inf, int64(0), False
    gap, attempt = first_gap, 0
    while True:
        if n_above >= n_slots:
            least, n_reaching, is_least_known = above, n_above, True
        else:
            most, n_exceeding, is_most_known = below, n_above, True
        if least >= most or (is_most_known and n_exceeding == n_slots - 1):
            return most, first_gap
        if is_least_known and n_reaching == n_slots:
            return least, first_gap
        n_below, n_beyond = n_reaching - n_slots, n_slots - 1 - n_exceeding
        if is_least_known and (n_below == 1 or not is_most_known):
            bound = least
            if n_below > 1:
                bound += (n_below + 0.5) * gap
                gap *= 2.0
        elif n_beyond == 1 or not is_least_known:
            bound = most - 1.2e-16 * abs(most) - 1e-320
            if n_beyond > 1:
                bound = min(bound, most - (n_beyond + 0.5) * gap)
                gap *= 2.0
        elif attempt % 4 == 3 and least > 0.0:
            # scores of very different size: interpolation would step from one to the next
            bound = np.sqrt(least) * np.sqrt(most)
        else:
            share = 0.5 if attempt % 4 == 3 else n_below / (n_below + n_beyond)
            bound = least + share * (most - least)
        if not least <= bound < most:
            bound = least
        was_above = n_above >= n_slots
        below, above, n_above = neighbours(scores, n_blocks, bound)
        if attempt == 0:
            went_too_far = (n_above >= n_slots) != was_above
            first_gap = min(1.0, max(1e-15, (0.8 if went_too_far else 1.2) * first_gap))
        attempt += 1
