"""Prove an answer of the floor program right from the answer itself, without another solver.

For every price >= 0 weak duality bounds what a mix that keeps the floor can be worth:

    value . x  <=  sum of the n_slots largest of (value + price * clicks) - price * floor

A mix that keeps the floor and reaches the bound of its own price is optimal. The proof costs a
few passes over the links, so it serves a million answers as well as one.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tests.reference.floor_program import Best, best_by_highs, best_clicks, clicks_of_best_value

Floats = NDArray[np.float64]

ACCURACY = 1e-9
"""By how much, relative to the floor, clicks may be too few; the same for sums and statuses."""

GAP = 1e-11
"""How far from the bound an answer may be, relative to the sum of the scores on its page."""

HIGHS_ACCURACY = 1e-7
"""HiGHS calls a floor or a bound kept that is missed by less than this."""


class Answer(Protocol):
    """What is to be proved right."""

    @property
    def probabilities(self) -> Floats: ...
    @property
    def shadow_price(self) -> float: ...
    @property
    def status(self) -> str: ...
    @property
    def value(self) -> float: ...
    @property
    def clicks(self) -> float: ...


def faults(answer: Answer, value: Floats, clicks: Floats, n_slots: int, floor: float) -> list[str]:
    """Return everything that is wrong with an answer; nothing means that it is optimal."""
    mix, price = answer.probabilities, answer.shadow_price
    page_value, page_clicks = float(mix @ value), float(mix @ clicks)
    most = best_clicks(clicks, n_slots)
    wrong = {
        "a probability outside [0, 1]": not (mix.min() >= 0.0 and mix.max() <= 1.0),
        "the sum of probabilities": not math.isclose(mix.sum(), n_slots, rel_tol=ACCURACY),
        "the value reported": not _is_near(answer.value, page_value),
        "the clicks reported": not _is_near(answer.clicks, page_clicks),
    }
    if answer.status == "infeasible":
        wrong["a floor in reach called infeasible"] = most >= floor
        wrong["a price that is not infinite"] = price != math.inf
        wrong["not the most clicked page"] = not _is_near(page_clicks, most)
        # of the most clicked pages the one with the most value: clicks and value change places
        best = clicks_of_best_value(clicks, value, n_slots)
        wrong["not the best of the most clicked"] = not _is_near(page_value, best)
    elif 0.0 <= price < math.inf:
        score = value + price * clicks
        top = float(np.partition(score, len(score) - n_slots)[len(score) - n_slots :].sum())
        gap = top - price * floor - page_value
        wrong["a gap to the bound of its price"] = abs(gap) > GAP * top
        wrong["the floor missed"] = page_clicks < floor * (1.0 - ACCURACY)
        wrong["an infeasible floor called kept"] = most < floor * (1.0 - ACCURACY)
        free = clicks_of_best_value(value, clicks, n_slots)
        if answer.status == "slack":
            wrong["a price of a slack floor"] = price != 0.0
            wrong["a binding floor called slack"] = free < floor * (1.0 - ACCURACY)
        else:
            wrong["a slack floor called binding"] = free > floor * (1.0 + ACCURACY)
            wrong["more clicks than the floor"] = page_clicks > floor * (1.0 + ACCURACY)
    else:
        wrong["a price that is no multiplier"] = True
    return [name for name, is_wrong in wrong.items() if is_wrong]


def check_certificate(
    answer: Answer, value: Floats, clicks: Floats, n_slots: int, floor: float
) -> None:
    """Fail unless the answer proves itself."""
    wrong = faults(answer, value, clicks, n_slots, floor)
    assert not wrong, f"{', '.join(wrong)}: {answer}, floor {floor!r}"


def check_by_highs(
    answer: Answer, value: Floats, clicks: Floats, n_slots: int, floor: float
) -> Best | None:
    """Fail unless HiGHS finds the same value, as exactly as it works; return what it finds."""
    best = best_by_highs(value, clicks, n_slots, floor)
    if best is None or answer.status == "infeasible":
        # HiGHS may decide otherwise where rounding alone decides
        near = HIGHS_ACCURACY * n_slots
        assert answer.status == "infeasible" or floor > best_clicks(clicks, n_slots) - near
        assert best is None or floor < best_clicks(clicks, n_slots) + near
        return None
    error = 2 * HIGHS_ACCURACY * n_slots * (1.0 + answer.shadow_price)
    assert abs(answer.value - best.value) <= error, (answer, best)
    return best


def _is_near(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=ACCURACY)
