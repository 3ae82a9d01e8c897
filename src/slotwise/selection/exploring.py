"""Exploration: every link keeps a small inclusion probability, so that logs can be evaluated.

    p_i = (1 - explore) x_i + explore n_slots / n_links

x is what the policy chose; pinned links keep 1 and excluded ones 0, and n_slots and n_links are
those of the rest of the page. The sum stays the number of slots, and one dependent rounding draws
the page, so p is exact. It costs `explore` times what the policy's page brings above a page of
random links, in revenue and in clicks: on average explore * n_slots links of a page are random.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["explored"]

Floats = NDArray[np.float64]


def explored(
    probabilities: Floats, explore: float, is_free: NDArray[np.bool_] | None = None
) -> Floats:
    """Return the probabilities with exploration among the free links, all of them by default.

    >>> explored(np.array([1.0, 1.0, 0.0, 0.0]), 0.1).round(6).tolist()
    [0.95, 0.95, 0.05, 0.05]
    """
    free = np.ones(len(probabilities), bool) if is_free is None else is_free
    mixed = probabilities.copy()
    n_free = int(free.sum())
    if explore and n_free:
        mean = float(probabilities[free].sum()) / n_free
        mixed[free] = (1.0 - explore) * probabilities[free] + explore * mean
    return mixed
