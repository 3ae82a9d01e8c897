"""The sum of a short array, such as the outcomes of a page."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.selection.compiled import hot

__all__ = ["total_of"]


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
