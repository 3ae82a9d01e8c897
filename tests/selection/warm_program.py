"""The compiled floor program, called from Python: change some links, solve again."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotwise.compile import code_for, hot
from slotwise.selection import Solution, dense_probabilities
from slotwise.selection.floor_program import (
    PRICE,
    STATUS,
    Program,
    new_program,
    set_clicks,
    set_value,
    solve_program,
)
from slotwise.selection.page_search import INFEASIBLE
from slotwise.selection.solve import STATUSES

Floats = NDArray[np.float64]


@hot
def _solve(program: Program, n_slots: int, floor: float) -> None:
    solve_program(program, n_slots, floor)


@hot
def _change(program: Program, links: NDArray[np.int64], value: Floats, clicks: Floats) -> None:
    for k in range(len(links)):
        set_value(program, links[k], value[k])
        set_clicks(program, links[k], clicks[k])


class WarmProgram:
    """A floor program that is solved again and again while a few links change."""

    def __init__(self, value: ArrayLike, clicks: ArrayLike, n_slots: int, floor: float) -> None:
        rates = np.ascontiguousarray(value, np.float64), np.ascontiguousarray(clicks, np.float64)
        self._n_slots, self._floor = n_slots, float(floor)
        self._program = new_program(*rates)
        self._solve = code_for(_solve, self._program, n_slots, self._floor)
        self._change = code_for(_change, self._program, np.zeros(1, np.int64), *rates)

    def change(self, links: ArrayLike, value: ArrayLike, clicks: ArrayLike) -> None:
        """Set the value and clicks of `links`, given by their places in the arrays."""
        rates = (np.array(one, np.float64) for one in (value, clicks))
        self._change.call(self._program, np.array(links, np.int64), *rates)

    def solve(self) -> Solution:
        """Return the best mix for the links as they are now."""
        program = self._program
        self._solve.call(program, self._n_slots, self._floor)
        probabilities = dense_probabilities(program.mix)
        status = int(program.sizes[STATUS])
        price = float("inf") if status == INFEASIBLE else float(program.numbers[PRICE])
        value = float(probabilities @ program.value)
        return Solution(
            probabilities, price, STATUSES[status], value, float(probabilities @ program.clicks)
        )
