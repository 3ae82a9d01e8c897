"""Solve the floor program from Python: arrays in, a solution out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotwise.errors import InvalidInput
from slotwise.selection.compiled import compiled, direct, hot
from slotwise.selection.floor_program import (
    PRICE,
    STATUS,
    change_links,
    new_program,
    solve_program,
)
from slotwise.selection.mix import N_OPEN, N_SURE, Mix, dense_probabilities
from slotwise.selection.price_search import INFEASIBLE, floor_slackness, search_price
from slotwise.selection.share_slots import share_slots
from slotwise.selection.top_page import Search

__all__ = ["STATUSES", "FloorProgram", "Solution", "check_page", "check_rates", "solve"]

STATUSES = ("slack", "binding", "infeasible")


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
def _rates_are_valid(rates: NDArray[np.float64]) -> bool:
    valid = True
    for i in range(len(rates)):
        valid &= (rates[i] >= 0.0) & (rates[i] <= 1.0)
    return valid


def check_rates(name: str, rates: ArrayLike) -> NDArray[np.float64]:
    """Return `rates` as a contiguous array after checking that all lie in [0, 1]."""
    try:
        array = np.ascontiguousarray(rates, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput.of(name, "an array of numbers in [0, 1]", rates) from error
    if array.ndim != 1 or not len(array):
        raise InvalidInput.of(name, "a list of at least one number", rates)
    if not _rates_are_valid(array):
        worst = array[~((array >= 0) & (array <= 1))][0]
        raise InvalidInput.of(name, "numbers in [0, 1]", float(worst))
    return array


def check_page(value: NDArray[np.float64], clicks: NDArray[np.float64], n_slots: int) -> None:
    """Refuse rates of different lengths and pages that are empty or larger than the pool."""
    if len(value) != len(clicks):
        raise InvalidInput.of("clicks", f"as many numbers as `value` ({len(value)})", len(clicks))
    if n_slots < 1 or n_slots > len(value):
        raise InvalidInput.of("n_slots", f"from 1 to the number of links ({len(value)})", n_slots)


def _check_floor(floor: float) -> float:
    if not 0.0 <= floor < np.inf:
        raise InvalidInput.of("floor", "a finite number that is at least 0", floor)
    return float(floor)


@compiled
def _solve_afresh(
    value: NDArray[np.float64], clicks: NDArray[np.float64], n_slots: int, floor: float
) -> tuple[NDArray[np.float64], float, int, float, float]:
    n_links = len(value)
    links = np.arange(n_links)
    search = Search(
        np.empty(n_links, np.int64),
        np.empty(n_links),
        np.empty(n_links),
        np.empty(n_links, np.int64),
        links,
        np.zeros(3, np.int64),
        np.zeros(4),
    )
    slackness = floor_slackness(floor)
    price = search_price(value, clicks, n_links, n_slots, floor, slackness, 0.0, 0.0, search)
    nothing = np.empty(0, np.int64)
    mix = Mix(
        np.empty(n_links, np.int64),
        np.empty(n_links, np.int64),
        np.empty(n_links),
        nothing,
        nothing,
        np.zeros(4, np.int64),
    )
    share_slots(clicks, links, n_slots, floor, price, search, mix)
    probabilities = np.zeros(n_links)
    page_value = 0.0
    page_clicks = 0.0
    for k in range(mix.sizes[N_SURE]):
        link = mix.sure[k]
        probabilities[link] = 1.0
        page_value += value[link]
        page_clicks += clicks[link]
    for k in range(mix.sizes[N_OPEN]):
        link = mix.open[k]
        probabilities[link] = mix.chances[k]
        page_value += mix.chances[k] * value[link]
        page_clicks += mix.chances[k] * clicks[link]
    shadow_price = np.inf if price.status == INFEASIBLE else price.click_weight
    return probabilities, shadow_price, price.status, page_value, page_clicks


@cache
def _machine_code() -> Callable[..., tuple[NDArray[np.float64], float, int, float, float]]:
    """Return `_solve_afresh` for contiguous arrays, which need no look at their types."""
    return direct(_solve_afresh, np.zeros(1), np.zeros(1), 1, 0.0)


def solve(value: ArrayLike, clicks: ArrayLike, n_slots: int, floor: float) -> Solution:
    """Return the mix of links with the most value whose expected clicks keep the floor.

        maximise value . x  subject to  clicks . x >= floor,  sum of x = n_slots,  0 <= x <= 1

    Exact, without a general solver. A binding solution has at most two fractional entries
    where no links tie; links that tie exactly share their slots equally.

    >>> best = solve(value=[0.9, 0.6, 0.1], clicks=[0.1, 0.5, 0.9], n_slots=1, floor=0.3)
    >>> best.probabilities.round(6).tolist(), best.status, round(best.shadow_price, 6)
    ([0.5, 0.5, 0.0], 'binding', 0.75)
    >>> solve([0.9, 0.5], [0.1, 0.2], n_slots=1, floor=0.7).status
    'infeasible'
    """
    value = check_rates("value", value)
    clicks = check_rates("clicks", clicks)
    check_page(value, clicks, n_slots)
    found = _machine_code()(value, clicks, n_slots, _check_floor(floor))
    return Solution(found[0], found[1], STATUSES[found[2]], found[3], found[4])


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
        self._floor = _check_floor(floor)
        self._program = new_program(value, clicks)
        self._solve = direct(solve_program, self._program, n_slots, self._floor)
        self._change = direct(change_links, self._program, np.zeros(1, np.int64), value, value)

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
