"""Solve the floor program from Python: arrays in, a solution out. Used by most of the package."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotwise.arrays import Floats, Whole
from slotwise.compile import Code, code_for, compiled, inner
from slotwise.compile.decorators import WORD
from slotwise.errors import InvalidInput
from slotwise.selection.mix import N_OPEN, N_SURE, Mix
from slotwise.selection.page_search import (
    BINDING,
    BUFFER_NUMBERS,
    BUFFER_SIZES,
    INFEASIBLE,
    Entries,
    Objective,
    Search,
)
from slotwise.selection.price_search import floor_slackness, price_of_floor
from slotwise.selection.share_slots import share_slots
from slotwise.selection.top_page import sampled_cut

Answer = tuple[float, int, float, float]
"""Price, status, value and clicks."""

INVALID_RATES = -1
"""The status of a program in which a rate is not in [0, 1]."""

SHORTLIST_POOL = 2_000
"""From this many links on, a shortlist saves more than it costs."""

FIRST_STEP = 0.6
"""How far the price may be off the ratio of the largest value to the most clicks, as a share."""


@inner
def _price_of_shortlist(
    entries: Entries, n_slots: int, floor: float, search: Search, shortlist: Floats
) -> float:
    """Return the price among the links that are good in value, in clicks or in their mean.

    Few links fill the pages at all prices, so their price is nearly always that of the pool;
    the search of the pool, which starts there, decides. Zero where there is nothing to gain.
    """
    value, clicks, n_links = entries
    if 8 * n_slots > n_links:
        return 0.0
    least_value = sampled_cut(entries, n_slots, Objective(1.0, 0.0), search)
    least_clicks = sampled_cut(entries, n_slots, Objective(0.0, 1.0), search)
    if least_value <= 0.0 or least_clicks <= 0.0:
        return 0.0
    ratio = least_value / least_clicks
    least_both = sampled_cut(entries, n_slots, Objective(1.0, ratio), search)
    short_value, short_clicks = shortlist[0], shortlist[1]
    n_short = 0
    for i in range(n_links):
        short_value[n_short] = value[i]
        short_clicks[n_short] = clicks[i]
        is_good = (value[i] >= least_value) | (clicks[i] >= least_clicks)
        n_short += is_good | (value[i] + ratio * clicks[i] >= least_both)
    if n_short < n_slots:
        return 0.0
    slackness = floor_slackness(floor)
    listed = Entries(short_value, short_clicks, n_short)
    price = price_of_floor(listed, n_slots, floor, slackness, 0.0, 0.0, search)
    return price.click_weight if price.status == BINDING else 0.0


@inner
def _are_valid(value: Floats, clicks: Floats) -> bool:
    are_valid = True
    for i in range(len(value)):
        are_valid &= (value[i] >= 0.0) & (value[i] <= 1.0)
        are_valid &= (clicks[i] >= 0.0) & (clicks[i] <= 1.0)
    return are_valid


@inner
def _ratio_of_largest(value: Floats, clicks: Floats) -> float:
    """Return the largest value over the most clicks: prices are of that order, in any units."""
    most_value = most_clicks = 0.0
    for i in range(len(value)):
        most_value = max(most_value, value[i])
        most_clicks = max(most_clicks, clicks[i])
    return most_value / most_clicks if most_clicks > 0.0 else 0.0


@inner
def _has_one_number(clicks: Floats, mix: Mix) -> bool:
    """Return whether all best pages at a price have the same number of clicks.

    A page that has exactly the clicks of the floor is the best one over a range of prices. A guess
    may fall anywhere into it; the search from nothing shows whether the floor costs anything.
    """
    fewest, most = np.inf, 0.0
    for k in range(mix.sizes[N_OPEN]):
        fewest = min(fewest, clicks[mix.open[k]])
        most = max(most, clicks[mix.open[k]])
    return most <= fewest


@compiled
def _new_buffers(integers: Whole, numbers: Floats, n_links: int) -> tuple[Search, Mix]:
    """Return buffers as rows of two tables, since each allocation would cost 40 ns."""
    n_padded = integers.shape[1]
    listed_value, listed_clicks = numbers[0], numbers[1]
    listed_value[n_links:n_padded] = 0.0
    listed_clicks[n_links:n_padded] = 0.0
    links, sizes, of_mix, last = integers[0], integers[1], integers[2], numbers[2]
    for link in range(n_links):
        links[link] = link
    sizes[:BUFFER_SIZES] = 0
    of_mix[:4] = 0
    last[:BUFFER_NUMBERS] = 0.0
    search = Search(
        integers[3],
        numbers[3],
        numbers[4],
        integers[4],
        links,
        integers[5],
        listed_value,
        listed_clicks,
        numbers[5],
        sizes,
        last,
    )
    nobody = integers[6]  # ties are shared among the open ones
    return search, Mix(integers[7], integers[8], numbers[6], nobody, nobody, last, of_mix)


@compiled
def solve_into(
    value: Floats,
    clicks: Floats,
    n_slots: int,
    floor: float,
    probabilities: Floats,
) -> Answer:
    """Write the best probabilities into an array of zeros; return the rest of the answer.

    Rates are checked here, all else by the caller.
    """
    n_links = len(value)
    if not _are_valid(value, clicks):
        return 0.0, INVALID_RATES, 0.0, 0.0
    entries, n_padded = Entries(value, clicks, n_links), n_links + WORD
    integers, numbers = np.empty((9, n_padded), np.int64), np.empty((7, n_padded))
    search, mix = _new_buffers(integers, numbers, n_links)
    if n_links >= SHORTLIST_POOL:
        shortlist = np.empty((2, n_links))
        guess = _price_of_shortlist(entries, n_slots, floor, search, shortlist)
        step = 1e-3 * guess
    else:
        guess = _ratio_of_largest(value, clicks)
        step = FIRST_STEP * guess
    slackness = floor_slackness(floor)
    price = price_of_floor(entries, n_slots, floor, slackness, guess, step, search)
    share_slots(clicks, search.links, n_slots, floor, price, search, mix)
    if n_links < SHORTLIST_POOL and price.status == BINDING and _has_one_number(clicks, mix):
        mix.sizes[:4] = 0
        price = price_of_floor(entries, n_slots, floor, slackness, 0.0, 0.0, search)
        share_slots(clicks, search.links, n_slots, floor, price, search, mix)
    page_value = 0.0
    page_clicks = 0.0
    for k in range(mix.sizes[N_SURE]):
        link = mix.sure[k]
        probabilities[link] = 1.0
        page_value += value[link]
        page_clicks += clicks[link]
    for k in range(mix.sizes[N_OPEN]):
        link = mix.open[k]
        probabilities[link] = mix.probabilities[k]
        page_value += mix.probabilities[k] * value[link]
        page_clicks += mix.probabilities[k] * clicks[link]
    shadow_price = np.inf if price.status == INFEASIBLE else price.click_weight
    return shadow_price, price.status, page_value, page_clicks


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

    probabilities: Floats
    shadow_price: float
    status: str
    value: float
    clicks: float


def as_array(name: str, numbers: ArrayLike, rule: str = "an array of numbers in [0, 1]") -> Floats:
    """Return numbers as a contiguous array of one dimension; `rule` is what they must be."""
    try:
        array = np.ascontiguousarray(numbers, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput.of(name, rule, numbers) from error
    if array.ndim != 1 or not len(array):
        raise InvalidInput.of(name, "a list of at least one number", numbers)
    return array


def check_all_hold(name: str, array: Floats, is_valid: NDArray[np.bool_], rule: str) -> None:
    """Refuse an array whose numbers are not all valid; the first other one is named."""
    if not is_valid.all():
        raise InvalidInput.of(name, rule, float(array[~is_valid][0]))


def check_rates(name: str, rates: ArrayLike) -> Floats:
    """Return `rates` as a contiguous array after checking that all lie in [0, 1]."""
    array = as_array(name, rates)
    check_all_hold(name, array, (array >= 0) & (array <= 1), "numbers in [0, 1]")
    return array


def check_page(value: Floats, clicks: Floats, n_slots: int) -> None:
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
def _solving() -> Code:
    """Return `solve_into` for contiguous arrays, without dispatch on their types."""
    return code_for(solve_into, np.zeros(1), np.zeros(1), 1, 0.0, np.zeros(1))


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

    Where visitors are of several kinds or slots differ, `solve_kinds` finds the best mix.
    """
    is_ready_for_compiled_code = (
        type(value) is type(clicks) is np.ndarray
        and value.dtype is clicks.dtype is FLOAT64
        and value.strides == clicks.strides == ONE_AFTER_OTHER
        and type(n_slots) is int
        and 0 < n_slots <= len(value) == len(clicks)
        and isinstance(floor, float)
        and 0.0 <= floor < np.inf
    )
    if not is_ready_for_compiled_code:
        value, clicks = as_array("value", value), as_array("clicks", clicks)
        check_page(value, clicks, n_slots)
        floor = check_floor(floor)
    probabilities = np.zeros(len(value))  # type: ignore[arg-type]
    price, status, page_value, page_clicks = _solving().call(
        value, clicks, n_slots, floor, probabilities
    )
    if status == INVALID_RATES:
        check_rates("value", value)
        check_rates("clicks", clicks)
    numbers = float(page_value), float(page_clicks)  # interpreted code returns numpy's numbers
    # twice as fast as the constructor of a NamedTuple
    return _new_tuple(Solution, (probabilities, float(price), STATUSES[status], *numbers))


def check_kinds(
    value: ArrayLike,
    clicks: ArrayLike,
    n_slots: int,
    shares: ArrayLike | None,
    names: tuple[str, str] = ("value", "clicks"),
) -> tuple[Floats, Floats, Floats]:
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
