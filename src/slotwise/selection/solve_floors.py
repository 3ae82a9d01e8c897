"""Solve the program of several floors from Python: arrays in, a solution out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotwise.errors import InvalidInput
from slotwise.selection.mix import dense_probabilities
from slotwise.selection.several_floors import (
    SHORTFALL,
    STATUS,
    new_floors_program,
    solve_floors_program,
)
from slotwise.selection.solve import STATUSES

__all__ = ["FloorsSolution", "solve_floors"]

Floats = NDArray[np.float64]


class FloorsSolution(NamedTuple):
    """The best page mix under several floors.

    `amounts[j]` is what the mix brings towards floor j and `shadow_prices[j]` the value given up
    for one more of it. `status` is "slack" (the floors cost nothing), "binding" or "infeasible":
    then no mix keeps every floor, `largest_shortfall` is the largest relative
    shortfall, no mix makes it smaller, and the price of a missed floor is infinite.
    """

    probabilities: Floats
    shadow_prices: Floats
    status: str
    value: float
    amounts: Floats
    largest_shortfall: float


def _check_value(value: ArrayLike) -> Floats:
    """Return `value` as an array; weighed rewards may exceed 1."""
    try:
        array = np.ascontiguousarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput.of("value", "an array of finite numbers", value) from error
    if array.ndim != 1 or not len(array):
        raise InvalidInput.of("value", "a list of at least one number", value)
    if not np.isfinite(array).all():
        worst = float(array[~np.isfinite(array)][0])
        raise InvalidInput.of("value", "finite numbers", worst)
    return array


def _check_demands(demands: ArrayLike, n_links: int) -> Floats:
    """Return `demands` as rows of numbers in [-1, 1], one row a floor."""
    try:
        rows = np.ascontiguousarray(demands, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput.of("demands", "rows of numbers in [-1, 1]", demands) from error
    if rows.ndim != 2 or not len(rows):
        raise InvalidInput.of("demands", "at least one row, a floor each", rows.shape)
    if rows.shape[1] != n_links:
        rule = f"rows of as many numbers as `value` ({n_links})"
        raise InvalidInput.of("demands", rule, rows.shape[1])
    is_valid = (rows >= -1.0) & (rows <= 1.0)
    if not is_valid.all():
        raise InvalidInput.of("demands", "numbers in [-1, 1]", float(rows[~is_valid][0]))
    return rows


def _check_floors(floors: ArrayLike, n_floors: int) -> Floats:
    """Return `floors` after checking that there is one for each row of demands."""
    numbers = np.atleast_1d(np.asarray(floors, dtype=np.float64))
    if numbers.shape != (n_floors,):
        rule = f"one number for each row of `demands` ({n_floors})"
        raise InvalidInput.of("floors", rule, numbers.tolist())
    is_valid = (numbers >= 0.0) & (numbers < np.inf)
    if not is_valid.all():
        worst = float(numbers[~is_valid][0])
        raise InvalidInput.of("floors", "finite numbers that are at least 0", worst)
    return numbers


def solve_floors(
    value: ArrayLike, demands: ArrayLike, n_slots: int, floors: ArrayLike
) -> FloorsSolution:
    """Return the mix of links with the most value that keeps every floor.

    `demands` has one row a floor: what each link brings towards it. A floor of 0 makes sense
    with demands below 0, for a conditional rate: (cart - 0.2 click) . x >= 0 asks that a fifth
    of the clicks reach the cart. Its shortfall counts relative to `n_slots` times the row's
    largest number, that of other floors relative to the floor.

    Exact up to rounding: reduced costs below 1e-12 of their parts count as zero, floors as kept
    when they miss less than 1e-11 of their row's largest number.

    >>> best = solve_floors(
    ...     value=[0.9, 0.5, 0.1, 0.2],
    ...     demands=[[0.1, 0.5, 0.9, 0.3], [0.0, 0.1, 0.0, 0.8]],
    ...     n_slots=2, floors=[0.5, 0.4])
    >>> best.probabilities.round(6).tolist(), best.status
    ([1.0, 0.571429, 0.0, 0.428571], 'binding')
    >>> best.shadow_prices.round(6).tolist(), best.amounts.round(6).tolist()
    ([0.0, 0.428571], [0.514286, 0.4])
    """
    value = _check_value(value)
    rows = _check_demands(demands, len(value))
    numbers = _check_floors(floors, len(rows))
    if n_slots < 1 or n_slots > len(value):
        raise InvalidInput.of("n_slots", f"from 1 to the number of links ({len(value)})", n_slots)
    program = new_floors_program(value, rows, numbers)
    solve_floors_program(program, n_slots)
    probabilities = dense_probabilities(program.mix)
    return FloorsSolution(
        probabilities=probabilities,
        shadow_prices=program.prices.copy(),
        status=STATUSES[program.sizes[STATUS]],
        value=float(probabilities @ value),
        amounts=rows @ probabilities,
        largest_shortfall=float(program.numbers[SHORTFALL]),
    )
