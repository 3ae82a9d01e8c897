"""The floor program for kinds of visitors, by a general solver, and answers that prove themselves.

The proof is that of `tests.reference.certificate`, summed over kinds: for every price >= 0

    sum_m share_m value_m . x_m  <=  sum_m share_m top_m(value_m + price * clicks_m) - price * floor
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

from tests.reference.certificate import ACCURACY, Answer
from tests.reference.floor_program import Best, best_clicks, clicks_of_best_value

Floats = NDArray[np.float64]

GAP = 1e-9
"""The part of a bound by which an answer may miss it: HiGHS accepts tolerances down to 1e-10."""


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
            A_eq=_sums(np.arange(n_kinds * n_links) // n_links),
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


def best_order_by_highs(
    value: Floats,
    clicks: Floats,
    shares: Floats,
    slot_weights: Floats,
    floors: list[tuple[NDArray[np.bool_], float]],
    rules: Sequence[tuple[NDArray[np.int64], float, float]] = (),
) -> float | None:
    """Ask HiGHS for the best value with slots that differ; None where no mix keeps the floors.

    x_mil says how often link i is in slot l for visitors of kind m: every slot has one link, and no
    link is in two slots. A rule has links and the least and the most slots of theirs for each kind.
    """
    n_kinds, n_links = value.shape
    kind, link, slot = np.indices((n_kinds, n_links, len(slot_weights))).reshape(3, -1)
    worth = shares[kind] * slot_weights[slot]
    rows = [-np.where(kinds[kind], worth * clicks[kind, link], 0.0) for kinds, _ in floors]
    least = [least * shares[kinds].sum() for kinds, least in floors]
    for links, fewest, most in rules:
        for one in range(n_kinds):
            held = np.where((kind == one) & np.isin(link, links), 1.0, 0.0)
            rows += [-held, held]
            least += [fewest, -most]
    once = _sums(kind * n_links + link)
    filled = _sums(kind * len(slot_weights) + slot)
    answer = linprog(
        -worth * value[kind, link],
        A_ub=vstack([csr_array(np.array(rows)), once]),
        b_ub=[*(-one for one in least), *[1.0] * once.shape[0]],
        A_eq=filled,
        b_eq=np.ones(filled.shape[0]),
        bounds=(0, 1),
        method="highs",
    )
    assert answer.status in (0, 2), answer.message
    return float(-answer.fun) if answer.status == 0 else None


def _sums(group: NDArray[np.int64]) -> csr_array:
    """Return the matrix that adds up the variables of each group."""
    places = np.arange(len(group))
    return csr_array((np.ones(len(group)), (group, places)))


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
