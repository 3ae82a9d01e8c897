"""Short arrays, such as the outcomes of a page: their sum, and their length in whole vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.compile import hot

VECTOR = 8
"""Numbers in the widest vectors that processors have."""


@hot
def total_of(numbers: NDArray[np.float64]) -> float:
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
def whole_vectors(n_numbers: int) -> int:
    """Return the least length of so many numbers in whole vectors.

    A loop in vectors handles what is left after the last whole vector one by one, which takes
    longer than another vector. Where the numbers after the last may be anything, they are
    computed, too.

    >>> whole_vectors(15)
    16
    """
    return (n_numbers + VECTOR - 1) // VECTOR * VECTOR
