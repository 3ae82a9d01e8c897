"""The floor program for kinds of visitors, by a general solver."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import kron

from tests.reference.floor_program import Best

__all__ = ["best_for_kinds_by_highs"]

Floats = NDArray[np.float64]


def best_for_kinds_by_highs(
    value: Floats, clicks: Floats, shares: Floats, n_slots: int, floor: float
) -> Best | None:
    """Ask HiGHS; None where it finds no mix that keeps the floor.

    maximise  sum of share_m value_mi x_mi   subject to   sum of share_m clicks_mi x_mi >= floor
    and, for every kind m, sum over i of x_mi = n_slots
    """
    n_kinds, n_links = value.shape
    answer = linprog(
        -(shares[:, None] * value).ravel(),
        A_ub=-(shares[:, None] * clicks).ravel()[None, :],
        b_ub=[-floor],
        A_eq=kron(np.eye(n_kinds), np.ones((1, n_links))),
        b_eq=np.full(n_kinds, n_slots),
        bounds=(0, 1),
        method="highs",
    )
    if answer.status == 2:
        return None
    assert answer.status == 0, answer.message
    return Best(-answer.fun, -answer.ineqlin.marginals[0])
