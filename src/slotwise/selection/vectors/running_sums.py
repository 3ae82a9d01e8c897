"""Running sums of probabilities, and where they reach whole numbers: the input of rounding.

Every probability is first rounded to a multiple of the spacing of numbers as large as the page.
Sums of such multiples are exact: they are the same in any order, they never decrease, and they stay
the same where a probability is 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.compile import inner, int64
from slotwise.selection.mix import INTEGRAL

Floats = NDArray[np.float64]
Links = NDArray[np.int64]


@inner
def running_sums(entries: Floats, n_entries: int, n_slots: int, sums: Floats, places: Links) -> int:
    """Write the sum before each entry and the sum of all.

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
