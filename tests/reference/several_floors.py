"""The program of several floors, handed to HiGHS: slow and obvious."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

Floats = NDArray[np.float64]

EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
"""HiGHS calls a floor kept that is missed by less than this; it takes nothing smaller."""


class Compromise(NamedTuple):
    """The smallest largest relative shortfall, and the most value at that shortfall."""

    shortfall: float
    value: float


def best_value_by_highs(value: Floats, demands: Floats, n_slots: int, floors: Floats) -> float:
    """Return the most value of a mix that keeps all floors; minus infinity where none does."""
    best = linprog(
        -value,
        A_ub=-demands,
        b_ub=-floors,
        A_eq=np.ones((1, len(value))),
        b_eq=[n_slots],
        bounds=(0.0, 1.0),
        method="highs",
        options=EXACT,
    )
    return -float(best.fun) if best.status == 0 else -np.inf


def compromise_by_highs(value: Floats, demands: Floats, n_slots: int, floors: Floats) -> Compromise:
    """Return how closely the floors can be kept, all by the same part of them."""
    largest = np.abs(demands).max(axis=1)
    scale = np.where(floors > 0, floors, n_slots * np.where(largest > 0, largest, 1.0))
    n_links = len(value)
    page = np.append(np.ones(n_links), 0.0)[None]
    nearest = linprog(
        np.append(np.zeros(n_links), 1.0),
        A_ub=np.hstack([-demands, -scale[:, None]]),
        b_ub=-floors,
        A_eq=page,
        b_eq=[n_slots],
        bounds=[(0.0, 1.0)] * n_links + [(0.0, None)],
        method="highs",
        options=EXACT,
    )
    shortfall = float(nearest.fun)
    lowered = floors - (shortfall + 1e-11) * scale
    return Compromise(shortfall, best_value_by_highs(value, demands, n_slots, lowered))
