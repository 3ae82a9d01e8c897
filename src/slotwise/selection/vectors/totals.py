"""Sums of arrays, of all of them or below a cap, running sums, and lists of what is marked.

Used by `rounding`, `policies` and `simulation`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.arrays import Floats, Links
from slotwise.compile import hot, inner, int64, vector_pass
from slotwise.compile.decorators import LANES
from slotwise.selection.mix import INTEGRAL


@hot
def total_of(numbers: Floats) -> float:
    """Return the sum of all numbers, from four sums that do not wait for each other.

    One sum after the other takes four cycles a number, a large part of a round on a page of sixty
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

    The compiler makes no vector code of such a sum.
    """
    blocks = numbers[: LANES * n_blocks].reshape(n_blocks, LANES)
    sums = np.zeros(LANES)
    for block in blocks:
        sums += np.where(block < cap, block, 0.0)
    while len(sums) > 1:
        sums = sums[: len(sums) // 2] + sums[len(sums) // 2 :]
    return float(sums[0]), int(np.sum(blocks >= cap))


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
