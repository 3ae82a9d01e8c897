"""Scale counts to [0, 1]."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.errors import InvalidInput

__all__ = ["min_max"]


def min_max(name: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (x - min x) / (max x - min x).

    >>> min_max("views", np.array([2.0, 4.0, 6.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    smallest, largest = values.min(initial=np.inf), values.max(initial=-np.inf)
    if not smallest < largest:
        rule = "different for at least two links"
        raise InvalidInput.of(name, rule, values[:3].tolist())
    return np.asarray((values - smallest) / (largest - smallest))
