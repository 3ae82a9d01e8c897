"""The floor program for kinds of visitors, by a general solver, and answers that prove themselves.

The proof is that of `tests.reference.certificate`, summed over kinds: for every price >= 0

    sum_m share_m value_m . x_m  <=  sum_m share_m top_m(value_m + price * clicks_m) - price * floor
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import kron

from tests.reference.certificate import ACCURACY, GAP, Answer
from tests.reference.floor_program import Best, best_clicks, clicks_of_best_value

Floats = NDArray[np.float64]


def best_for_kinds_by_highs(
    value: Floats, clicks: Floats, shares: Floats, n_slots: int, floor: float
) -> Best | None:
    """Ask HiGHS; None where it finds no mix that keeps the floor.

    maximise  sum of share_m value_mi x_mi   subject to   sum of share_m clicks_mi x_mi >= floor
    and, for every kind m, sum over i of x_mi = n_slots
    """
    n_kinds, n_links = value.shape
    for method in ("highs", "highs-ipm"):
        answer = linprog(
            -(shares[:, None] * value).ravel(),
            A_ub=-(shares[:, None] * clicks).ravel()[None, :],
            b_ub=[-floor],
            A_eq=kron(np.eye(n_kinds), np.ones((1, n_links))),
            b_eq=np.full(n_kinds, n_slots),
            bounds=(0, 1),
            method=method,
        )
        if answer.status == 2:
            return None
        if answer.status == 0:
            break
    assert answer.status == 0, answer.message
    return Best(-answer.fun, -answer.ineqlin.marginals[0])


def extremes(value: Floats, clicks: Floats, shares: Floats, n_slots: int) -> tuple[float, float]:
    """Return the clicks of the pages with the most value, and the most clicks."""
    rows = list(zip(value, clicks, strict=True))
    free = [clicks_of_best_value(v, c, n_slots) for v, c in rows]
    return float(shares @ free), float(shares @ [best_clicks(c, n_slots) for _, c in rows])


def kinds_faults(
    answer: Answer, value: Floats, clicks: Floats, shares: Floats, n_slots: int, floor: float
) -> list[str]:
    """Return everything that is wrong with an answer; nothing means that it is optimal."""
    mix, price = answer.probabilities, answer.shadow_price
    page_value = float(shares @ (mix * value).sum(axis=1))
    page_clicks = float(shares @ (mix * clicks).sum(axis=1))
    free, most = extremes(value, clicks, shares, n_slots)
    wrong = {
        "a probability outside [0, 1]": not (mix.min() >= 0.0 and mix.max() <= 1.0),
        "the sum of probabilities": not np.allclose(mix.sum(axis=1), n_slots, rtol=ACCURACY),
        "the value reported": not math.isclose(answer.value, page_value, rel_tol=ACCURACY),
        "the clicks reported": not math.isclose(answer.clicks, page_clicks, rel_tol=ACCURACY),
    }
    if answer.status == "infeasible":
        wrong["a floor in reach called infeasible"] = most >= floor
        wrong["a price that is not infinite"] = price != math.inf
        wrong["not the most clicked page"] = not math.isclose(page_clicks, most, rel_tol=ACCURACY)
        return [name for name, is_wrong in wrong.items() if is_wrong]
    score = np.sort(value + price * clicks, axis=1)[:, -n_slots:]
    top = float(shares @ score.sum(axis=1))
    wrong["a price that is no multiplier"] = not 0.0 <= price < math.inf
    wrong["a gap to the bound of its price"] = abs(top - price * floor - page_value) > GAP * top
    wrong["the floor missed"] = page_clicks < floor * (1.0 - ACCURACY)
    wrong["an infeasible floor called kept"] = most < floor * (1.0 - ACCURACY)
    if answer.status == "slack":
        wrong["a price of a slack floor"] = price != 0.0
        wrong["a binding floor called slack"] = free < floor * (1.0 - ACCURACY)
    else:
        wrong["a slack floor called binding"] = free > floor * (1.0 + ACCURACY)
        wrong["more clicks than the floor"] = page_clicks > floor * (1.0 + ACCURACY)
    return [name for name, is_wrong in wrong.items() if is_wrong]
