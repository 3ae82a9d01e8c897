"""Random draws that stay the same from one numpy to the next.

numpy promises that the raw numbers of PCG64 under a SeedSequence never change, but not what its
generators make of them. The recipes therefore take raw numbers only and turn them into what
they need by closed formulas. What remains open is the last digit of exp, log and cos.
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
    """Return draws of Beta(1, q), whose distribution function 1 - (1 - x)^q inverts in closed form.

    >>> beta_from_uniforms(np.array([0.0, 0.75]), q=2.0).tolist()
    [0.0, 0.5]
    """
    return 1.0 - (1.0 - uniforms) ** (1.0 / q)


def normal_from_uniforms(radius_uniforms: Floats, angle_uniforms: Floats) -> Floats:
    """Return standard normal draws, one for each pair of uniforms (Box and Muller)."""
    radius = np.sqrt(-2.0 * np.log(1.0 - radius_uniforms))
    return radius * np.cos(2.0 * np.pi * angle_uniforms)
