"""The program of several floors: exact, compiled, started from the last page.

    maximise value . x  subject to  demands[j] . x >= floors[j] for every j,
                                    sum of x = n_slots,  0 <= x <= 1

A floor's demand is a link's contribution to it: a level's mean outcome, or, for a floor on a
conditional rate, the level's mean less the rate times the mean of the level before. Stages of one
simplex method, each keeping what those before it reached:

1. where a floor is missed: make the largest relative shortfall as small as it can be,
2. make value as large as it can be,
3. among pages of equal value, bring most towards the floors.

So floors that no page keeps give the mix that misses them by the smallest part, and with one floor
the answer is that of `solve`. Links with equal value and demands share their slots equally. Used by
`page_rules`, `page_within_rules`, `rules`, `policies`, `selector` and `testing`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotwise.arrays import Floats, Links, Whole
from slotwise.compile import hot, switching
from slotwise.errors import InvalidInput
from slotwise.selection.mix import Mix, dense_probabilities, new_mix, write_mix
from slotwise.selection.page_search import BINDING, INFEASIBLE, SLACK
from slotwise.selection.simplex import (
    FEASIBLE,
    SHORTFALL_LIMIT,
    Simplex,
    basis_is_usable,
    fix_what_costs,
    improve,
    load_columns,
    new_simplex,
    set_objective,
    start_from_page,
)
from slotwise.selection.solve import STATUSES, as_array, check_all_hold, check_page
from slotwise.selection.top_page import sink

STATUS = 0
SHORTFALL = 0

EQUAL_VALUE = 1e-12
"""Values closer than this are equal when deciding whether floors cost anything."""


class FloorsProgram(NamedTuple):
    """A program of several floors: write `simplex.value`, `.demands`, `.floors`, then solve.

    Solving leaves the mix, a price a floor, the status in `sizes[STATUS]` and the largest
    relative shortfall in `numbers[SHORTFALL]`.
    """

    simplex: Simplex
    prices: Floats
    x: Floats
    tied: Links
    is_done: NDArray[np.bool_]
    mix: Mix
    sizes: Whole
    numbers: Floats


def new_floors_program(value: ArrayLike, demands: ArrayLike, floors: ArrayLike) -> FloorsProgram:
    """Return a program over copies of these arrays, nothing solved yet."""
    demands = np.asarray(demands, dtype=np.float64)
    n_floors, n_links = demands.shape
    program = FloorsProgram(
        simplex=new_simplex(n_links, n_floors),
        prices=np.zeros(n_floors),
        x=np.zeros(n_links),
        tied=np.zeros(n_links, np.int64),
        is_done=np.zeros(n_links, np.bool_),
        mix=new_mix(n_links),
        sizes=np.zeros(1, np.int64),
        numbers=np.zeros(1),
    )
    program.simplex.value[:] = value
    program.simplex.demands[:] = demands
    program.simplex.floors[:] = floors
    return program


@hot
def _take_best_value(program: FloorsProgram, n_slots: int) -> None:
    """Put the links of largest value on the page."""
    value, order, at = program.simplex.value, program.tied, program.simplex.at
    n_links = len(value)
    for link in range(n_links):
        order[link] = link
        at[link] = 0.0
    for root in range(n_links // 2 - 1, -1, -1):
        sink(order, root, n_links, value)
    for k in range(n_slots):
        last = n_links - 1 - k
        at[order[0]] = 1.0
        order[0] = order[last]
        sink(order, 0, last, value)


@hot
def _round_last_page(program: FloorsProgram, n_slots: int) -> bool:
    """Complete the page of the last basis by its likeliest basic links; False if there is none."""
    simplex = program.simplex
    n_links = len(simplex.value)
    if simplex.basis[0] < 0:
        return False
    shown = 0
    for link in range(n_links):
        shown += simplex.at[link] == 1.0
    while shown < n_slots:
        best = -1
        for k in range(len(simplex.basis)):
            link = simplex.basis[k]
            if link >= n_links or simplex.at[link] == 1.0:
                continue
            if best < 0 or program.x[link] > program.x[best]:
                best = link
        if best < 0:
            return False
        simplex.at[best] = 1.0
        shown += 1
    return shown == n_slots


@hot
def _best_of_stages(simplex: Simplex, starts_short: bool) -> bool:
    """Run the stages from a usable basis; False where the basis fails on the way."""
    n_floors, n_links = simplex.demands.shape
    shortfall = n_links + n_floors
    for j in range(n_floors):
        simplex.weights[j] = 0.0
    is_short = False
    if starts_short:
        set_objective(simplex, 0.0, -1.0)
        if not improve(simplex):
            return False
        for k in range(n_floors + 1):
            if simplex.basis[k] == shortfall and simplex.basic[k] > FEASIBLE:
                is_short = True
        if is_short:
            fix_what_costs(simplex)
    if not is_short:
        simplex.numbers[SHORTFALL_LIMIT] = 0.0
        simplex.direction[shortfall] = 0.0
    set_objective(simplex, 1.0, 0.0)
    return improve(simplex)


@hot
def _bring_most(simplex: Simplex) -> bool:
    """Among pages of equal value, find one that contributes most to the floors."""
    if fix_what_costs(simplex) == 0:
        return True
    for j in range(len(simplex.floors)):
        simplex.weights[j] = 1.0 / simplex.scale[j]
    set_objective(simplex, 0.0, 0.0)
    return improve(simplex)


@hot
def _start_short(program: FloorsProgram, n_slots: int, is_warm: bool) -> None:
    if not (is_warm and _round_last_page(program, n_slots)):
        _take_best_value(program, n_slots)
    program.simplex.numbers[SHORTFALL_LIMIT] = np.inf
    start_from_page(program.simplex, n_slots)


@hot
def _is_basic(simplex: Simplex, variable: int) -> bool:
    found = False
    for k in range(len(simplex.basis)):
        found |= simplex.basis[k] == variable
    return found


@hot
def _solve_stages(program: FloorsProgram, n_slots: int) -> None:
    """Solve from the last basis if usable, otherwise from the last page, otherwise from scratch."""
    simplex = program.simplex
    n_floors, n_links = simplex.demands.shape
    simplex.numbers[SHORTFALL_LIMIT] = np.inf
    load_columns(simplex, n_slots)
    starts_short = True
    if basis_is_usable(simplex):
        starts_short = _is_basic(simplex, n_links + n_floors)
    else:
        _start_short(program, n_slots, True)
    for attempt in range(2):
        if _best_of_stages(simplex, starts_short):
            for j in range(n_floors):
                # the loss of value for one more unit of a floor, at least 0
                program.prices[j] = max(0.0, -simplex.duals[j] / simplex.row_size[j])
            if _bring_most(simplex):
                return
        if attempt == 0:
            _start_short(program, n_slots, False)
            starts_short = True


@hot
def _write_probabilities(program: FloorsProgram) -> None:
    simplex, x = program.simplex, program.x
    n_floors, n_links = simplex.demands.shape
    for link in range(n_links):
        x[link] = simplex.at[link]
    program.numbers[SHORTFALL] = 0.0
    for k in range(n_floors + 1):
        variable = simplex.basis[k]
        if variable < n_links:
            x[variable] = min(1.0, max(0.0, simplex.basic[k]))
        elif variable == n_links + n_floors and simplex.basic[k] > FEASIBLE:
            program.numbers[SHORTFALL] = simplex.basic[k]


@hot
def _set_status(program: FloorsProgram) -> None:
    """Set the status: slack, binding or infeasible; only a floor that binds has a price."""
    simplex, x, prices = program.simplex, program.x, program.prices
    n_floors, n_links = simplex.demands.shape
    if program.numbers[SHORTFALL] > 0.0:
        program.sizes[STATUS] = INFEASIBLE
        for j in range(n_floors):
            brought = 0.0
            for link in range(n_links):
                brought += x[link] * simplex.demands[j, link]
            missing = (simplex.floors[j] - brought) / simplex.scale[j]
            prices[j] = np.inf if missing > FEASIBLE else 0.0
        return
    least_shown, most_left = np.inf, -np.inf
    for link in range(n_links):
        if x[link] > 0.0:
            least_shown = min(least_shown, simplex.value[link])
        if x[link] < 1.0:
            most_left = max(most_left, simplex.value[link])
    if least_shown >= most_left - EQUAL_VALUE:
        program.sizes[STATUS] = SLACK
        for j in range(n_floors):
            prices[j] = 0.0
    else:
        program.sizes[STATUS] = BINDING


@hot
def _are_equal(simplex: Simplex, one: int, other: int) -> bool:
    if simplex.value[one] != simplex.value[other]:
        return False
    for j in range(len(simplex.floors)):
        if simplex.demands[j, one] != simplex.demands[j, other]:
            return False
    return True


@hot
def _share_among_equals(program: FloorsProgram) -> None:
    """Give links with equal value and demands equal probabilities.

    Only links that cost nothing to exchange can differ from an equal one, and of each such
    group some member is on the page: groups are looked for from there.
    """
    simplex, x, tied, is_done = program.simplex, program.x, program.tied, program.is_done
    n_tied = 0
    for link in range(len(x)):
        is_done[link] = False
        if simplex.direction[link] != 0.0 or _is_basic(simplex, link):
            tied[n_tied] = link
            n_tied += 1
    for k in range(n_tied):
        leader = tied[k]
        if is_done[leader] or x[leader] == 0.0:
            continue
        total = 0.0
        n_equal = 0
        for other in range(n_tied):
            if not is_done[tied[other]] and _are_equal(simplex, leader, tied[other]):
                total += x[tied[other]]
                n_equal += 1
        for other in range(n_tied):
            if not is_done[tied[other]] and _are_equal(simplex, leader, tied[other]):
                x[tied[other]] = total / n_equal
                is_done[tied[other]] = True


@hot
def solve_floors_program(program: FloorsProgram, n_slots: int) -> None:
    """Solve for the present links and floors; write the mix and the prices."""
    _solve_stages(program, n_slots)
    _write_probabilities(program)
    _set_status(program)
    _share_among_equals(program)
    write_mix(program.mix, program.x, 0.0)


class FloorsSolution(NamedTuple):
    """The best page mix under several floors.

    `amounts[j]` is the contribution of the mix to floor j and `shadow_prices[j]` the value given up
    for one more unit of it. `status` is "slack" (the floors cost nothing), "binding" or
    "infeasible": then no mix keeps every floor, `largest_shortfall` is the largest relative
    shortfall, no mix makes it smaller, and the price of a missed floor is infinite.
    """

    probabilities: Floats
    shadow_prices: Floats
    status: str
    value: float
    amounts: Floats
    largest_shortfall: float


def solve_floors(
    value: ArrayLike, demands: ArrayLike, n_slots: int, floors: ArrayLike
) -> FloorsSolution:
    """Return the mix of links with the most value that keeps every floor.

    `demands` has one row per floor: the contribution of each link. A floor of 0 makes sense with
    demands below 0, for a conditional rate: (cart - 0.2 click) . x >= 0 means that a fifth of the
    clicks reach the cart. Its shortfall counts relative to `n_slots` times the row's largest
    number, that of other floors relative to the floor.

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
    value = as_array("value", value, "an array of finite numbers")  # weighted rewards may exceed 1
    check_all_hold("value", value, np.isfinite(value), "finite numbers")
    try:
        rows = np.ascontiguousarray(demands, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput.of("demands", "rows of numbers in [-1, 1]", demands) from error
    if rows.ndim != 2 or not len(rows):
        raise InvalidInput.of("demands", "at least one row, a floor each", rows.shape)
    if rows.shape[1] != len(value):
        rule = f"rows of as many numbers as `value` ({len(value)})"
        raise InvalidInput.of("demands", rule, rows.shape[1])
    check_all_hold("demands", rows, abs(rows) <= 1.0, "numbers in [-1, 1]")
    numbers = np.atleast_1d(np.asarray(floors, dtype=np.float64))
    if numbers.shape != (len(rows),):
        rule = f"one number for each row of `demands` ({len(rows)})"
        raise InvalidInput.of("floors", rule, numbers.tolist())
    is_valid = (numbers >= 0.0) & (numbers < np.inf)
    check_all_hold("floors", numbers, is_valid, "finite numbers that are at least 0")
    check_page(value, value, n_slots)
    program = new_floors_program(value, rows, numbers)
    switching(solve_floors_program)(program, n_slots)
    probabilities = dense_probabilities(program.mix)
    return FloorsSolution(
        probabilities=probabilities,
        shadow_prices=program.prices.copy(),
        status=STATUSES[program.sizes[STATUS]],
        value=float(probabilities @ value),
        amounts=rows @ probabilities,
        largest_shortfall=float(program.numbers[SHORTFALL]),
    )
