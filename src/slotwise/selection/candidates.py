"""The links of a large pool whose score reaches a cut, listed in their order.

Few links do, so blocks of links are counted first, which runs in vectors, and most are passed over.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.selection.compiled import inner, int64

__all__ = ["BLOCK", "LARGE_POOL", "list_candidates"]

BLOCK = int64(64)
"""Links that are counted together."""

LARGE_POOL = 1_024
"""In smaller pools a pass that writes every link, without a branch, takes less."""


@inner
def list_candidates(
    value: NDArray[np.float64],
    clicks: NDArray[np.float64],
    n_entries: int,
    value_weight: float,
    click_weight: float,
    cut: float,
    entry: NDArray[np.int64],
    first: NDArray[np.float64],
) -> int:
    """List in `entry` the entries that score at least `cut`, and in `first` their scores.

    Return how many there are. Both arrays have room for all entries.
    """
    n_candidates = int64(0)
    for begin in range(int64(0), n_entries, BLOCK):
        end = min(begin + BLOCK, n_entries)
        some_value, some_clicks = value[begin:end], clicks[begin:end]
        n_reach = int64(0)
        for i in range(len(some_value)):
            n_reach += value_weight * some_value[i] + click_weight * some_clicks[i] >= cut
        if n_reach > 0:
            for i in range(len(some_value)):
                key = value_weight * some_value[i] + click_weight * some_clicks[i]
                entry[n_candidates] = begin + i
                first[n_candidates] = key
                n_candidates += key >= cut
    return n_candidates
