"""Random draws that are the same with every version of numpy.

numpy promises that the raw output of PCG64 under a SeedSequence never changes, but makes no such
promise for the methods of its generators. The recipes therefore draw raw numbers only and apply
closed formulas. Only the last digit of exp, log and cos may differ between machines.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["beta_from_uniforms", "normal_from_uniforms", "stable_uniforms"]

Floats = NDArray[np.float64]


def stable_uniforms(seed: int, n_rows: int, n_columns: int) -> Floats:
    """Return uniforms in [0, 1), row by row from PCG64: the upper 53 bits of each raw number.

    >>> stable_uniforms(seed=0, n_rows=1, n_columns=3).round(6).tolist()
    [[0.636962, 0.269787, 0.040974]]
    """
    raw = np.random.PCG64(np.random.SeedSequence(seed)).random_raw(n_rows * n_columns)
    uniforms = (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return uniforms.reshape(n_rows, n_columns)


def beta_from_uniforms(uniforms: Floats, q: float) -> Floats:
    """Return draws of Beta(1, q), by inverting its distribution function 1 - (1 - x)^q.

    >>> beta_from_uniforms(np.array([0.0, 0.75]), q=2.0).tolist()
    [0.0, 0.5]
    """
    return 1.0 - (1.0 - uniforms) ** (1.0 / q)


def normal_from_uniforms(radius_uniforms: Floats, angle_uniforms: Floats) -> Floats:
    """Return standard normal draws, one for each pair of uniforms (Box and Muller)."""
    radius = np.sqrt(-2.0 * np.log(1.0 - radius_uniforms))
    return radius * np.cos(2.0 * np.pi * angle_uniforms)
