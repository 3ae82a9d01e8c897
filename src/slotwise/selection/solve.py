"""Solve the floor program from Python: arrays in, a solution out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotwise.errors import InvalidInput
from slotwise.selection.compiled import direct, hot
from slotwise.selection.floor_program import change_links, new_program, solve_program
from slotwise.selection.mix import dense_probabilities
from slotwise.selection.price_search import INFEASIBLE
from slotwise.selection.solve_afresh import INVALID_RATES, solve_into
from slotwise.selection.solve_kinds import new_kinds, solve_kept_kinds
from slotwise.selection.zones import PRICE, STATUS, Program

__all__ = [
    "STATUSES",
    "FloorProgram",
    "Solution",
    "check_floor",
    "check_kinds",
    "check_page",
    "check_rates",
    "solve",
]

STATUSES = ("slack", "binding", "infeasible")

FLOAT64 = np.dtype(np.float64)
ONE_AFTER_OTHER = (FLOAT64.itemsize,)
"""The strides of a contiguous array of one dimension."""

_new_tuple: Any = tuple.__new__


class Solution(NamedTuple):
    """The best page mix under a click floor.

    `status` is "slack" (the floor costs nothing), "binding" (it costs `shadow_price` revenue
    for each further click) or "infeasible": then the mix is the most clicked page, `clicks` is
    the most that can be had, and the price is infinite.
    """

    probabilities: NDArray[np.float64]
    shadow_price: float
    status: str
    value: float
    clicks: float


@hot
def rates_are_valid(rates: NDArray[np.float64]) -> bool:
    """Tell whether all rates lie in [0, 1]; NaN does not."""
    valid = True
    for i in range(len(rates)):
        valid &= (rates[i] >= 0.0) & (rates[i] <= 1.0)
    return valid


def _as_array(name: str, rates: ArrayLike) -> NDArray[np.float64]:
    try:
        array = np.ascontiguousarray(rates, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput.of(name, "an array of numbers in [0, 1]", rates) from error
    if array.ndim != 1 or not len(array):
        raise InvalidInput.of(name, "a list of at least one number", rates)
    return array


def check_rates(name: str, rates: ArrayLike) -> NDArray[np.float64]:
    """Return `rates` as a contiguous array after checking that all lie in [0, 1]."""
    array = _as_array(name, rates)
    if not rates_are_valid(array):
        worst = array[~((array >= 0) & (array <= 1))][0]
        raise InvalidInput.of(name, "numbers in [0, 1]", float(worst))
    return array


def check_page(value: NDArray[np.float64], clicks: NDArray[np.float64], n_slots: int) -> None:
    """Refuse rates of different lengths and pages that are empty or larger than the pool."""
    if len(value) != len(clicks):
        raise InvalidInput.of("clicks", f"as many numbers as `value` ({len(value)})", len(clicks))
    if n_slots < 1 or n_slots > len(value):
        raise InvalidInput.of("n_slots", f"from 1 to the number of links ({len(value)})", n_slots)


def check_floor(floor: float) -> float:
    """Return a floor after checking that it is a finite number and not negative."""
    if not 0.0 <= floor < np.inf:
        raise InvalidInput.of("floor", "a finite number that is at least 0", floor)
    return float(floor)


@cache
def _machine_code() -> Callable[..., tuple[float, int, float, float]]:
    """Return `solve_into` for contiguous arrays, which need no look at their types."""
    return direct(solve_into, np.zeros(1), np.zeros(1), 1, 0.0, np.zeros(1))


def solve(
    value: ArrayLike,
    clicks: ArrayLike,
    n_slots: int,
    floor: float,
    shares: ArrayLike | None = None,
) -> Solution:
    """Return the mix of links with the most value whose expected clicks keep the floor.

        maximise value . x  subject to  clicks . x >= floor,  sum of x = n_slots,  0 <= x <= 1

    Exact, without a general solver. A binding solution has at most two fractional entries
    where no links tie; links that tie exactly share their slots equally.

    >>> best = solve(value=[0.9, 0.6, 0.1], clicks=[0.1, 0.5, 0.9], n_slots=1, floor=0.3)
    >>> best.probabilities.round(6).tolist(), best.status, round(best.shadow_price, 6)
    ([0.5, 0.5, 0.0], 'binding', 0.75)
    >>> solve([0.9, 0.5], [0.1, 0.2], n_slots=1, floor=0.7).status
    'infeasible'

    Where visitors are of several kinds, `value` and `clicks` have a row for each kind and `shares`
    says what part of the page views each kind has. The floor is kept on average over all page
    views, at one price, with at most two fractional entries in all; `probabilities` has a row for
    each kind.

    >>> best = solve([[0.9, 0.1], [0.2, 0.3]], [[0.1, 0.5], [0.5, 0.1]], 1, 0.2, shares=[0.5, 0.5])
    >>> best.probabilities.round(6).tolist(), round(best.shadow_price, 6)
    ([[1.0, 0.0], [0.5, 0.5]], 0.25)
    """
    is_ready_for_compiled_code = (
        type(value) is type(clicks) is np.ndarray
        and value.dtype is clicks.dtype is FLOAT64
        and value.strides == clicks.strides == ONE_AFTER_OTHER
        and type(n_slots) is int
        and 0 < n_slots <= len(value) == len(clicks)
        and isinstance(floor, float)
        and 0.0 <= floor < np.inf
        and shares is None
    )
    if not is_ready_for_compiled_code:
        if shares is not None or np.ndim(value) == 2:
            return _solve_for_kinds(value, clicks, n_slots, floor, shares)
        value, clicks = _as_array("value", value), _as_array("clicks", clicks)
        check_page(value, clicks, n_slots)
        floor = check_floor(floor)
    probabilities = np.zeros(len(value))  # type: ignore[arg-type]
    price, status, page_value, page_clicks = _machine_code()(
        value, clicks, n_slots, floor, probabilities
    )
    if status == INVALID_RATES:
        check_rates("value", value)
        check_rates("clicks", clicks)
    # the constructor of a NamedTuple takes twice as long
    return _new_tuple(Solution, (probabilities, price, STATUSES[status], page_value, page_clicks))


def check_kinds(
    value: ArrayLike,
    clicks: ArrayLike,
    n_slots: int,
    shares: ArrayLike | None,
    names: tuple[str, str] = ("value", "clicks"),
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return value and clicks, a row for each kind of visitor, and the shares of the kinds."""
    rates = []
    for name, given in zip(names, (value, clicks), strict=True):
        rows = np.asarray(given)
        if rows.ndim != 2 or not len(rows):
            raise InvalidInput.of(name, "a row of rates for each kind of visitor", given)
        checked = check_rates(name, rows.reshape(-1)).reshape(rows.shape)
        rates.append(np.ascontiguousarray(checked))
    if rates[0].shape != rates[1].shape:
        rule = f"of the shape of `{names[0]}` {rates[0].shape}"
        raise InvalidInput.of(names[1], rule, rates[1].shape)
    check_page(rates[0][0], rates[1][0], n_slots)
    weights = check_rates("shares", [] if shares is None else shares)
    if len(weights) != len(rates[0]):
        raise InvalidInput.of("shares", f"one number a kind ({len(rates[0])})", len(weights))
    if abs(weights.sum() - 1.0) > 1e-6:
        raise InvalidInput.of("shares", "numbers that sum to 1", float(weights.sum()))
    return rates[0], rates[1], weights / weights.sum()


def _solve_for_kinds(
    value: ArrayLike, clicks: ArrayLike, n_slots: int, floor: float, shares: ArrayLike | None
) -> Solution:
    rows, click_rows, weights = check_kinds(value, clicks, n_slots, shares)
    kinds = new_kinds(rows, click_rows, weights)
    found = solve_kept_kinds(kinds, n_slots, check_floor(floor))
    return Solution(found[0], found[1], STATUSES[found[2]], found[3], found[4])


@hot
def solve_kept_program(program: Program, n_slots: int, floor: float) -> None:
    """Solve from Python."""
    solve_program(program, n_slots, floor)


@hot
def change_kept_links(
    program: Program,
    links: NDArray[np.int64],
    value: NDArray[np.float64],
    clicks: NDArray[np.float64],
) -> None:
    """Change links from Python."""
    change_links(program, links, value, clicks)


class FloorProgram:
    """A floor program that is solved again and again while a few links change.

    The answers are those of `solve`; the work follows the links that changed.

    >>> program = FloorProgram([0.9, 0.5, 0.1], [0.1, 0.5, 0.9], n_slots=1, floor=0.3)
    >>> program.solve().status
    'binding'
    >>> program.change([0], value=[0.9], clicks=[0.4])
    >>> program.solve().status
    'slack'
    """

    def __init__(self, value: ArrayLike, clicks: ArrayLike, n_slots: int, floor: float) -> None:
        value = check_rates("value", value)
        clicks = check_rates("clicks", clicks)
        check_page(value, clicks, n_slots)
        self._n_slots = n_slots
        self._floor = check_floor(floor)
        self._program = new_program(value, clicks)
        self._solve = direct(solve_kept_program, self._program, n_slots, self._floor)
        self._change = direct(change_kept_links, self._program, np.zeros(1, np.int64), value, value)

    def change(self, links: Sequence[int], value: ArrayLike, clicks: ArrayLike) -> None:
        """Set the value and clicks of `links`, given by their places in the arrays."""
        if not len(links):
            return
        new_value = check_rates("value", value)
        new_clicks = check_rates("clicks", clicks)
        if not len(links) == len(new_value) == len(new_clicks):
            raise InvalidInput.of("links", f"as long as `value` ({len(new_value)})", len(links))
        n_links = len(self._program.value)
        for link in links:
            if not 0 <= link < n_links:
                raise InvalidInput.of("links", f"places from 0 to {n_links - 1}", link)
        self._change(self._program, np.array(links, np.int64), new_value, new_clicks)

    def solve(self) -> Solution:
        """Return the best mix for the links as they are now."""
        program = self._program
        self._solve(program, self._n_slots, self._floor)
        probabilities = dense_probabilities(program.mix)
        status = int(program.sizes[STATUS])
        price = float("inf") if status == INFEASIBLE else float(program.numbers[PRICE])
        value = float(probabilities @ program.value)
        return Solution(
            probabilities, price, STATUSES[status], value, float(probabilities @ program.clicks)
        )
