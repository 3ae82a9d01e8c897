"""The sum of the numbers below a cap: what weights that are capped share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.compile import vector_pass
from slotwise.compile.decorators import LANES

Floats = NDArray[np.float64]


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
