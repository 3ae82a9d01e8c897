"""A simplex method for pages: many links, few rows, no allocations.

    maximise  c . x   subject to   demands x - surplus + scale * shortfall = floors
                                   sum of x = n_slots,   0 <= x <= 1,   surplus, shortfall >= 0

Variables are the links (0 to K - 1), one surplus a floor (K to K + J - 1) and the shortfall
(K + J), the part of its scale by which every floor may be missed. There are J + 1 rows, so a
basis is a handful of columns: it is inverted afresh at every step, and no error builds up.

An objective weighs value, each demand and the shortfall, so the reduced cost of a link is linear in
its value and demands: one pass over the links without a branch finds the best to enter. Used by
`several_floors`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slotwise.arrays import Floats, Whole
from slotwise.compile import hot

FEASIBLE = 1e-11
"""How far a probability may lie outside [0, 1], or a floor be missed relative to its row."""

OPTIMAL = 1e-12
"""Reduced costs below this, relative to what they are made of, are zero."""

PIVOT = 1e-9
"""Smaller entries do not limit a step; a column that has no larger one is no pivot."""

STALLED = 30
"""Consecutive degenerate steps before the rule of the smallest index prevents cycling."""

MAX_STEPS = 20_000

VALUE_WEIGHT, SHORTFALL_WEIGHT, THRESHOLD, SHORTFALL_LIMIT, N_SLOTS = range(5)


class Simplex(NamedTuple):
    """The columns, the basis and buffers of a program of K links and J floors.

    `at` is the bound of a link outside the basis; `direction` is the way in which
    a variable may leave its bound: 1 up, -1 down, 0 not at all (basic, or fixed). Rows are
    divided by `row_size`, so that rare and common levels weigh the same.
    """

    value: Floats
    demands: Floats
    floors: Floats
    scale: Floats
    row_size: Floats
    at: Floats
    direction: Floats
    reduced: Floats
    basis: Whole
    basic: Floats
    residual: Floats
    inverse: Floats
    matrix: Floats
    column: Floats
    weights: Floats
    duals: Floats
    numbers: Floats


def new_simplex(n_links: int, n_floors: int) -> Simplex:
    """Return a program over links with zero values; its basis is not usable yet."""
    n_rows = n_floors + 1
    return Simplex(
        value=np.zeros(n_links),
        demands=np.zeros((n_floors, n_links)),
        floors=np.zeros(n_floors),
        scale=np.ones(n_floors),
        row_size=np.ones(n_rows),
        at=np.zeros(n_links),
        direction=np.zeros(n_links + n_rows),
        reduced=np.zeros(n_links),
        basis=np.full(n_rows, -1),
        basic=np.zeros(n_rows),
        residual=np.zeros(n_rows),
        inverse=np.zeros((n_rows, n_rows)),
        matrix=np.zeros((n_rows, n_rows)),
        column=np.zeros(n_rows),
        weights=np.zeros(n_floors),
        duals=np.zeros(n_rows),
        numbers=np.zeros(5),
    )


@hot
def _fill_column(simplex: Simplex, variable: int, column: Floats) -> None:
    """Write the column of a variable, its rows divided by their size."""
    n_floors, n_links = simplex.demands.shape
    if variable < n_links:
        for j in range(n_floors):
            column[j] = simplex.demands[j, variable] / simplex.row_size[j]
        column[n_floors] = 1.0
        return
    for j in range(n_floors + 1):
        column[j] = 0.0
    if variable < n_links + n_floors:
        column[variable - n_links] = -1.0  # a surplus counts in units of its row's size
    else:
        for j in range(n_floors):
            column[j] = simplex.scale[j] / simplex.row_size[j]


@hot
def _invert_basis(simplex: Simplex) -> bool:
    """Invert the basis by elimination with pivots from the whole column; False if singular."""
    matrix, inverse, column = simplex.matrix, simplex.inverse, simplex.column
    n_rows = len(simplex.basis)
    for k in range(n_rows):
        _fill_column(simplex, simplex.basis[k], column)
        for r in range(n_rows):
            matrix[r, k] = column[r]
            inverse[r, k] = 1.0 if r == k else 0.0
    for k in range(n_rows):
        best = k
        for r in range(k + 1, n_rows):
            if abs(matrix[r, k]) > abs(matrix[best, k]):
                best = r
        if abs(matrix[best, k]) < PIVOT * PIVOT:
            return False
        if best != k:
            for c in range(n_rows):
                matrix[k, c], matrix[best, c] = matrix[best, c], matrix[k, c]
                inverse[k, c], inverse[best, c] = inverse[best, c], inverse[k, c]
        factor = 1.0 / matrix[k, k]
        for c in range(n_rows):
            matrix[k, c] *= factor
            inverse[k, c] *= factor
        for r in range(n_rows):
            away = matrix[r, k]
            if r != k and away != 0.0:
                for c in range(n_rows):
                    matrix[r, c] -= away * matrix[k, c]
                    inverse[r, c] -= away * inverse[k, c]
    return True


@hot
def _place_basic(simplex: Simplex) -> None:
    """Compute the values of the basic variables from the others."""
    n_rows = len(simplex.basis)
    for k in range(n_rows):
        total = 0.0
        for r in range(n_rows):
            total += simplex.inverse[k, r] * simplex.residual[r]
        simplex.basic[k] = total


@hot
def load_columns(simplex: Simplex, n_slots: int) -> None:
    """Load changed links and floors: sizes of rows, scales, and which links are at a bound."""
    n_floors, n_links = simplex.demands.shape
    simplex.numbers[N_SLOTS] = n_slots
    for j in range(n_floors):
        demand = simplex.demands[j]
        largest = 0.0
        brought = 0.0
        for link in range(n_links):
            largest = max(largest, abs(demand[link]))
            brought += simplex.at[link] * demand[link]
        floor = simplex.floors[j]
        simplex.row_size[j] = largest if largest > 0.0 else 1.0
        simplex.scale[j] = floor if floor > 0.0 else n_slots * simplex.row_size[j]
        simplex.residual[j] = (floor - brought) / simplex.row_size[j]
    shown = 0.0
    for link in range(n_links):
        shown += simplex.at[link]
        simplex.direction[link] = 1.0 - 2.0 * simplex.at[link]
    simplex.residual[n_floors] = n_slots - shown
    for j in range(n_floors + 1):
        simplex.direction[n_links + j] = 1.0
    for k in range(n_floors + 1):
        if simplex.basis[k] >= 0:
            simplex.direction[simplex.basis[k]] = 0.0


@hot
def _limit(simplex: Simplex, variable: int) -> float:
    """Return the upper bound of a variable."""
    n_floors, n_links = simplex.demands.shape
    if variable < n_links:
        return 1.0
    return simplex.numbers[SHORTFALL_LIMIT] if variable == n_links + n_floors else np.inf


@hot
def basis_is_usable(simplex: Simplex) -> bool:
    """Return whether the last basis is still valid and gives a page within its bounds."""
    if simplex.basis[0] < 0 or not _invert_basis(simplex):
        return False
    _place_basic(simplex)
    for k in range(len(simplex.basis)):
        above = simplex.basic[k] - _limit(simplex, simplex.basis[k])
        if simplex.basic[k] < -FEASIBLE or above > FEASIBLE:
            return False
    return True


@hot
def start_from_page(simplex: Simplex, n_slots: int) -> None:
    """Start from the page of links with `at` 1, whose number must be `n_slots`.

    One link of the page is basic, and each surplus; the floor missed by most gives its place
    to the shortfall, which then is as large as it must be.
    """
    n_floors, n_links = simplex.demands.shape
    shortfall = n_links + n_floors
    for k in range(n_floors + 1):
        simplex.basis[k] = -1
    load_columns(simplex, n_slots)
    worst, largest = -1, 0.0
    for j in range(n_floors):
        missing = simplex.residual[j] * simplex.row_size[j] / simplex.scale[j]
        if missing > largest:
            worst, largest = j, missing
        simplex.basis[j] = n_links + j
    if worst >= 0:
        simplex.basis[worst] = shortfall
    first = 0
    while simplex.at[first] != 1.0:
        first += 1
    simplex.basis[n_floors] = first
    simplex.at[first] = 0.0
    load_columns(simplex, n_slots)
    _invert_basis(simplex)
    _place_basic(simplex)


@hot
def set_objective(simplex: Simplex, value_weight: float, shortfall_weight: float) -> None:
    """Maximise value and shortfall by these weights, and the demands by `simplex.weights`."""
    simplex.numbers[VALUE_WEIGHT] = value_weight
    simplex.numbers[SHORTFALL_WEIGHT] = shortfall_weight


@hot
def _cost(simplex: Simplex, variable: int) -> float:
    n_floors, n_links = simplex.demands.shape
    if variable < n_links:
        total = simplex.numbers[VALUE_WEIGHT] * simplex.value[variable]
        for j in range(n_floors):
            total += simplex.weights[j] * simplex.demands[j, variable]
        return total
    return simplex.numbers[SHORTFALL_WEIGHT] if variable == n_links + n_floors else 0.0


@hot
def _price_out(simplex: Simplex) -> float:
    """Work out duals and reduced costs of links; return how small a cost counts as zero."""
    n_floors, n_links = simplex.demands.shape
    duals, reduced, value = simplex.duals, simplex.reduced, simplex.value
    for r in range(n_floors + 1):
        duals[r] = 0.0
    for k in range(n_floors + 1):
        cost = _cost(simplex, simplex.basis[k])
        if cost != 0.0:
            for r in range(n_floors + 1):
                duals[r] += cost * simplex.inverse[k, r]
    value_weight, threshold = simplex.numbers[VALUE_WEIGHT], duals[n_floors]
    size = value_weight + abs(threshold)
    for link in range(n_links):
        reduced[link] = value_weight * value[link] - threshold
    for j in range(n_floors):
        own = duals[j] / simplex.row_size[j]
        weight = simplex.weights[j] - own
        demand = simplex.demands[j]
        size += (abs(simplex.weights[j]) + abs(own)) * simplex.row_size[j]
        if weight != 0.0:
            for link in range(n_links):
                reduced[link] += weight * demand[link]
    return OPTIMAL * size + 1e-300


@hot
def _other_reduced(simplex: Simplex, variable: int) -> float:
    """Return the reduced cost of a surplus or of the shortfall."""
    n_floors, n_links = simplex.demands.shape
    if variable < n_links + n_floors:
        return simplex.duals[variable - n_links]
    total = simplex.numbers[SHORTFALL_WEIGHT]
    for j in range(n_floors):
        total -= simplex.duals[j] * simplex.scale[j] / simplex.row_size[j]
    return total


@hot
def _entering(simplex: Simplex, zero: float, first_index: bool) -> int:
    """Return the variable that gains most by entering, or the first that gains; -1 for none."""
    n_floors, n_links = simplex.demands.shape
    reduced, direction = simplex.reduced, simplex.direction
    best, best_gain = -1, zero
    if first_index:
        for link in range(n_links):
            if reduced[link] * direction[link] > zero:
                return link
    else:
        most = 0.0
        for link in range(n_links):
            most = max(most, reduced[link] * direction[link])
        if most > zero:
            best_gain = most
            best = 0
            while reduced[best] * direction[best] != most:
                best += 1
    for variable in range(n_links, n_links + n_floors + 1):
        gain = direction[variable]
        if gain != 0.0:
            gain *= _other_reduced(simplex, variable)
            if gain > best_gain:
                best, best_gain = variable, gain
                if first_index:
                    break
    return best


@hot
def _leaving(simplex: Simplex, sign: float, first_index: bool) -> tuple[int, float]:
    """Return which basic variable stops a step along `column`, and the length of the step."""
    basis, basic, column = simplex.basis, simplex.basic, simplex.column
    row, length, pivot = -1, np.inf, 0.0
    for k in range(len(basis)):
        move = -sign * column[k]
        limit = _limit(simplex, basis[k]) if move > 0.0 else 0.0
        if abs(move) <= PIVOT or limit == np.inf:
            continue
        room = limit - basic[k] if move > 0.0 else basic[k]
        until = max(0.0, room) / abs(move)
        if row >= 0 and abs(until - length) <= FEASIBLE * 1e-3:
            better = basis[k] < basis[row] if first_index else abs(move) > pivot
        else:
            better = until < length
        if better:
            row, pivot = k, abs(move)
            length = min(length, until)
    return row, length


@hot
def _set_at(simplex: Simplex, link: int, at: float) -> None:
    """Set a link outside the basis to a bound."""
    n_floors = len(simplex.floors)
    change = at - simplex.at[link]
    if change != 0.0:
        simplex.at[link] = at
        for j in range(n_floors):
            simplex.residual[j] -= change * simplex.demands[j, link] / simplex.row_size[j]
        simplex.residual[n_floors] -= change


@hot
def _step(simplex: Simplex, entering: int, first_index: bool) -> float:
    """Move as far as the entering variable can; return how far, or -1 where the basis fails."""
    n_rows = len(simplex.basis)
    n_links = len(simplex.value)
    sign = simplex.direction[entering]
    own = simplex.matrix[0]  # free until the next basis is inverted
    _fill_column(simplex, entering, own)
    for k in range(n_rows):
        total = 0.0
        for r in range(n_rows):
            total += simplex.inverse[k, r] * own[r]
        simplex.column[k] = total
    row, length = _leaving(simplex, sign, first_index)
    if entering < n_links and length >= 1.0:
        _set_at(simplex, entering, 1.0 - simplex.at[entering])
        simplex.direction[entering] = -sign
        _place_basic(simplex)
        return 1.0
    if row < 0:
        return -1.0
    leaving = simplex.basis[row]
    goes_up = -sign * simplex.column[row] > 0.0
    simplex.basis[row] = entering
    simplex.direction[entering] = 0.0
    if entering < n_links:
        _set_at(simplex, entering, 0.0)
    if leaving < n_links:
        _set_at(simplex, leaving, 1.0 if goes_up else 0.0)
    if _limit(simplex, leaving) == 0.0:
        simplex.direction[leaving] = 0.0  # a shortfall that is ruled out stays out
    else:
        simplex.direction[leaving] = -1.0 if goes_up else 1.0
    if not _invert_basis(simplex):
        return -1.0
    _place_basic(simplex)
    return length


@hot
def improve(simplex: Simplex) -> bool:
    """Raise the objective until nothing raises it further; False where the basis fails."""
    n_stalled = 0
    for _ in range(MAX_STEPS):
        zero = _price_out(simplex)
        first_index = n_stalled > STALLED
        entering = _entering(simplex, zero, first_index)
        if entering < 0:
            return True
        length = _step(simplex, entering, first_index)
        if length < 0.0:
            return False
        n_stalled = n_stalled + 1 if length <= FEASIBLE else 0
    return False


@hot
def fix_what_costs(simplex: Simplex) -> int:
    """Fix all that would lower the objective; return how many links outside the basis may move.

    What may still move leaves the objective as it is, so that another one can be raised next.
    """
    n_floors, n_links = simplex.demands.shape
    zero = _price_out(simplex)
    n_free = 0
    for link in range(n_links):
        if abs(simplex.reduced[link]) > zero:
            simplex.direction[link] = 0.0
        elif simplex.direction[link] != 0.0:
            n_free += 1
    for variable in range(n_links, n_links + n_floors + 1):
        if simplex.direction[variable] != 0.0:
            if abs(_other_reduced(simplex, variable)) > zero:
                simplex.direction[variable] = 0.0
            else:
                n_free += 1
    return n_free
