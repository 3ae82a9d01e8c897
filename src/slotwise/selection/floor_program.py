"""The floor program kept warm: exact, and its cost follows the links that changed.

    maximise value . x   subject to   clicks . x >= floor,  sum of x = n_slots,  0 <= x <= 1

At the optimal price every link has a score; the page is what lies above a threshold. Between
two page views few links change, so price and threshold hardly move. The program keeps

- TOP: links with value 1 and clicks 1; nothing beats them at any price,
- IN and OUT: links whose score was more than a margin away from the threshold,
- BAND: the few links near it, the only ones searched.

Rates lie in [0, 1], so a move of the price by d moves a score by at most d. While the new
threshold stays clear of IN and OUT by that much, the band's optimum is the optimum: the
certificate is checked on every solve, and when it fails the zones are drawn anew.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.selection.compiled import compiled
from slotwise.selection.mix import N_OPEN, N_SURE, N_TIED, TIED_SLOTS, Mix, new_mix
from slotwise.selection.price_search import (
    BINDING,
    INFEASIBLE,
    SLACK,
    TIE,
    Price,
    Search,
    new_search,
    score,
    search_price,
)
from slotwise.selection.share_slots import share_slots

__all__ = [
    "PRICE",
    "STATUS",
    "Program",
    "new_program",
    "program_price",
    "program_status",
    "set_clicks",
    "set_links",
    "set_value",
    "solve_program",
]

OUT, BAND, IN, TOP = range(4)

N_TOP, N_IN, N_BAND, STATUS, IS_DRAWN, PAIR, PAIR_OTHER, N_CHANGED, N_DRAWN = range(9)
VALUE_WEIGHT, CLICK_WEIGHT, THRESHOLD, MARGIN, PRICE, STEP = range(6)


class Program(NamedTuple):
    """A floor program and the zones of its links; change it through the functions below."""

    value: NDArray[np.float64]
    clicks: NDArray[np.float64]
    zone: NDArray[np.int8]
    place: NDArray[np.int64]
    inner: NDArray[np.int64]
    band: NDArray[np.int64]
    band_value: NDArray[np.float64]
    band_clicks: NDArray[np.float64]
    changed: NDArray[np.int64]
    is_changed: NDArray[np.bool_]
    search: Search
    mix: Mix
    sizes: NDArray[np.int64]
    numbers: NDArray[np.float64]


def new_program(value: NDArray[np.float64], clicks: NDArray[np.float64]) -> Program:
    """Return a program over copies of `value` and `clicks`, nothing solved yet."""
    n_links = len(value)
    program = Program(
        value=np.zeros(n_links),
        clicks=np.zeros(n_links),
        zone=np.zeros(n_links, np.int8),
        place=np.zeros(n_links, np.int64),
        inner=np.zeros(n_links, np.int64),
        band=np.zeros(n_links, np.int64),
        band_value=np.zeros(n_links),
        band_clicks=np.zeros(n_links),
        changed=np.zeros(n_links, np.int64),
        is_changed=np.zeros(n_links, np.bool_),
        search=new_search(n_links),
        mix=new_mix(n_links),
        sizes=np.zeros(9, np.int64),
        numbers=np.zeros(6),
    )
    program.sizes[PAIR] = -1
    set_links(program, value, clicks)
    return program


@compiled
def set_links(
    program: Program, value: NDArray[np.float64], clicks: NDArray[np.float64]
) -> None:
    """Give every link its value and clicks."""
    for link in range(len(value)):
        set_value(program, link, value[link])
        set_clicks(program, link, clicks[link])


@compiled
def _leave_zone(program: Program, link: int, zone: int) -> None:
    sizes, place = program.sizes, program.place
    hole = place[link]
    if zone == BAND:
        sizes[N_BAND] -= 1
        last = sizes[N_BAND]
        moved = program.band[last]
        program.band[hole] = moved
        program.band_value[hole] = program.band_value[last]
        program.band_clicks[hole] = program.band_clicks[last]
        program.search.inside[hole] = program.search.inside[last]
        place[moved] = hole
    elif zone == IN:
        sizes[N_IN] -= 1
        moved = program.inner[sizes[N_IN]]
        program.inner[hole] = moved
        place[moved] = hole
    elif zone == TOP:
        sizes[N_TOP] -= 1
        moved = program.mix.tied[sizes[N_TOP]]
        program.mix.tied[hole] = moved
        place[moved] = hole


@compiled
def _enter_zone(program: Program, link: int, zone: int) -> None:
    sizes, place = program.sizes, program.place
    program.zone[link] = zone
    if zone == BAND:
        last = sizes[N_BAND]
        program.band[last] = link
        program.band_value[last] = program.value[link]
        program.band_clicks[last] = program.clicks[link]
        program.search.inside[last] = False
        place[link] = last
        sizes[N_BAND] += 1
    elif zone == IN:
        program.inner[sizes[N_IN]] = link
        place[link] = sizes[N_IN]
        sizes[N_IN] += 1
    elif zone == TOP:
        program.mix.tied[sizes[N_TOP]] = link
        place[link] = sizes[N_TOP]
        sizes[N_TOP] += 1


@compiled
def _note_change(program: Program, link: int) -> None:
    if not program.is_changed[link]:
        program.is_changed[link] = True
        program.changed[program.sizes[N_CHANGED]] = link
        program.sizes[N_CHANGED] += 1


@compiled
def set_value(program: Program, link: int, value: float) -> None:
    """Change the value of one link; the next solve takes it in."""
    program.value[link] = value
    _note_change(program, link)


@compiled
def set_clicks(program: Program, link: int, clicks: float) -> None:
    """Change the clicks of one link; the next solve takes it in."""
    program.clicks[link] = clicks
    _note_change(program, link)


@compiled
def _settle_changes(program: Program) -> None:
    """Move every changed link to the zone where it belongs now."""
    sizes, numbers = program.sizes, program.numbers
    for k in range(sizes[N_CHANGED]):
        link = program.changed[k]
        program.is_changed[link] = False
        value, clicks = program.value[link], program.clicks[link]
        if value >= 1.0 and clicks >= 1.0:
            zone = TOP
        elif sizes[IS_DRAWN] == 0:
            zone = OUT
        else:
            key = numbers[VALUE_WEIGHT] * value + numbers[CLICK_WEIGHT] * clicks
            ahead = key - numbers[THRESHOLD]
            zone = IN if ahead > numbers[MARGIN] else (OUT if ahead < -numbers[MARGIN] else BAND)
        before = program.zone[link]
        if zone != before:
            _leave_zone(program, link, before)
            _enter_zone(program, link, zone)
        elif zone == BAND:
            place = program.place[link]
            program.band_value[place] = value
            program.band_clicks[place] = clicks
    sizes[N_CHANGED] = 0


@compiled
def _band_target(n_links: int) -> int:
    """Return how many links the band should hold: enough to last, few enough to search."""
    return min(n_links, 24 + int(0.5 * np.sqrt(n_links)))


@compiled
def _draw_zones(program: Program, n_slots: int, floor: float) -> None:
    """Solve over the whole pool and set the zones around its threshold."""
    sizes, numbers, search = program.sizes, program.numbers, program.search
    n_links = len(program.value)
    search.inside[:] = False
    step = max(numbers[STEP], 1e-9)
    price = search_price(
        program.value, program.clicks, n_links, n_slots, floor, numbers[PRICE], step, search
    )
    distance = np.empty(n_links)
    n_below_top = 0
    for link in range(n_links):
        if program.zone[link] != TOP:
            key = score(price, program.value[link], program.clicks[link])
            distance[n_below_top] = abs(key - price.threshold)
            n_below_top += 1
    target = _band_target(n_below_top)
    margin = np.partition(distance[:n_below_top], target - 1)[target - 1]
    numbers[VALUE_WEIGHT] = price.value_weight
    numbers[CLICK_WEIGHT] = price.click_weight
    numbers[THRESHOLD] = price.threshold
    numbers[MARGIN] = max(margin, 1e-9 * (1.0 + price.click_weight))
    numbers[PRICE] = price.click_weight if price.status == BINDING else 0.0
    sizes[STATUS] = price.status
    sizes[IS_DRAWN] = 1
    sizes[N_DRAWN] += 1
    sizes[PAIR] = -1
    sizes[N_IN] = 0
    sizes[N_BAND] = 0
    for link in range(n_links):
        if program.zone[link] != TOP:
            key = score(price, program.value[link], program.clicks[link])
            ahead = key - price.threshold
            zone = BAND
            if ahead > numbers[MARGIN]:
                zone = IN
            elif ahead < -numbers[MARGIN]:
                zone = OUT
            _enter_zone(program, link, zone)


@compiled
def _band_holds(program: Program, price: Price) -> bool:
    """Say whether no link outside the band can change the answer found inside it."""
    sizes, numbers = program.sizes, program.numbers
    if (price.status == INFEASIBLE) != (numbers[VALUE_WEIGHT] == 0.0):
        return False
    moved = price.click_weight - numbers[CLICK_WEIGHT]
    tolerance = 2.0 * TIE * (1.0 + price.click_weight)
    n_out = len(program.value) - sizes[N_TOP] - sizes[N_IN] - sizes[N_BAND]
    best_out = numbers[THRESHOLD] - numbers[MARGIN] + max(0.0, moved)
    worst_in = numbers[THRESHOLD] + numbers[MARGIN] - max(0.0, -moved)
    return (n_out == 0 or best_out < price.threshold - tolerance) and (
        sizes[N_IN] == 0 or worst_in > price.threshold + tolerance
    )


@compiled
def _guess_price(program: Program) -> float:
    """Return the price at which the two links that shared the last slot tie now."""
    sizes = program.sizes
    if sizes[STATUS] != BINDING:
        return 0.0
    one, other = sizes[PAIR], sizes[PAIR_OTHER]
    if one >= 0:
        more_clicks = program.clicks[one] - program.clicks[other]
        less_value = program.value[other] - program.value[one]
        if more_clicks * less_value > 0.0:
            return less_value / more_clicks
    return program.numbers[PRICE]


@compiled
def _band_floor(program: Program, floor: float) -> float:
    """Return the clicks that are left for the band to bring."""
    left = floor - program.sizes[N_TOP]
    for k in range(program.sizes[N_IN]):
        left -= program.clicks[program.inner[k]]
    return left


@compiled
def _search_band(program: Program, n_slots: int, floor: float) -> Price:
    return search_price(
        program.band_value,
        program.band_clicks,
        program.sizes[N_BAND],
        n_slots - program.sizes[N_TOP] - program.sizes[N_IN],
        _band_floor(program, floor),
        _guess_price(program),
        max(program.numbers[STEP], 1e-9),
        program.search,
    )


@compiled
def solve_program(program: Program, n_slots: int, floor: float) -> None:
    """Write the best mix for `n_slots` slots and `floor` clicks into `program.mix`.

    The status and the price are in `program_status` and `program_price`.
    """
    sizes, numbers, mix = program.sizes, program.numbers, program.mix
    _settle_changes(program)
    mix.sizes[:] = 0
    n_top = sizes[N_TOP]
    if n_top >= n_slots:
        mix.sizes[N_TIED] = n_top
        mix.sizes[TIED_SLOTS] = n_slots
        sizes[STATUS] = SLACK if n_slots >= floor else INFEASIBLE
        numbers[PRICE] = 0.0
        return
    band_slots = n_slots - n_top - sizes[N_IN]
    if sizes[IS_DRAWN] == 0 or not 1 <= band_slots <= sizes[N_BAND]:
        _draw_zones(program, n_slots, floor)
    price = _search_band(program, n_slots, floor)
    if not _band_holds(program, price):
        _draw_zones(program, n_slots, floor)
        price = _search_band(program, n_slots, floor)

    for k in range(n_top):
        mix.sure[k] = mix.tied[k]
    for k in range(sizes[N_IN]):
        mix.sure[n_top + k] = program.inner[k]
    mix.sizes[N_SURE] = n_top + sizes[N_IN]
    share_slots(
        program.band_value,
        program.band_clicks,
        program.band,
        sizes[N_BAND],
        n_slots - n_top - sizes[N_IN],
        _band_floor(program, floor),
        price,
        program.search,
        mix,
    )
    sizes[STATUS] = price.status
    sizes[PAIR] = -1
    if price.status == BINDING:
        if mix.sizes[N_OPEN] == 2:
            sizes[PAIR], sizes[PAIR_OTHER] = mix.open[0], mix.open[1]
        change = abs(price.click_weight - numbers[PRICE])
        numbers[STEP] += 0.1 * (change - numbers[STEP])
        numbers[PRICE] = price.click_weight
    else:
        numbers[PRICE] = 0.0


@compiled
def program_price(program: Program) -> float:
    """Return the shadow price of the floor at the last solve; infinite when out of reach."""
    if program.sizes[STATUS] == INFEASIBLE:
        return np.inf
    return program.numbers[PRICE]


@compiled
def program_status(program: Program) -> int:
    """Return SLACK, BINDING or INFEASIBLE as of the last solve."""
    return program.sizes[STATUS]
