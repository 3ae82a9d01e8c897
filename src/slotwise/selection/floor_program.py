"""The floor program kept warm: exact, searched from the price and the page of the last solve.

    maximise value . x   subject to   clicks . x >= floor,  sum of x = n_slots,  0 <= x <= 1

Between two page views few links change, so price and threshold hardly move, and the search starts
where they were. Links with value 1 and clicks 1 are *top*: nothing beats them at any price. Where
they fill the page they are drawn as one group, which costs the slots and not the links.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.arrays import Floats, Links, Whole
from slotwise.compile import hot, inner
from slotwise.selection.mix import N_OPEN, N_TIED, TIED_SLOTS, Mix, new_mix
from slotwise.selection.page_search import Entries, Search, new_search
from slotwise.selection.price_search import (
    BINDING,
    INFEASIBLE,
    SLACK,
    floor_slackness,
    search_price,
)
from slotwise.selection.share_slots import share_slots
from slotwise.selection.vectors.score_passes import aligned_zeros

N_TOP, STATUS, PAIR, PAIR_OTHER, N_CHANGED = range(5)
PRICE, STEP = range(2)


class Program(NamedTuple):
    """A floor program; `mix.tied[:sizes[N_TOP]]` are the links that are top.

    `place` has where each of them is listed, and `changed` the links that may have become top, or
    no longer are, since the last solve. `sizes[PAIR]` and `sizes[PAIR_OTHER]` shared the last slot,
    `numbers[STEP]` is how far the price moves between two solves.
    """

    value: Floats
    clicks: Floats
    is_top: NDArray[np.bool_]
    place: Whole
    changed: Links
    is_changed: NDArray[np.bool_]
    search: Search
    mix: Mix
    sizes: Whole
    numbers: Floats


def new_program(value: Floats, clicks: Floats) -> Program:
    """Return a program over copies of `value` and `clicks`, nothing solved yet."""
    n_links = len(value)
    program = Program(
        value=aligned_zeros(n_links),
        clicks=aligned_zeros(n_links),
        is_top=np.zeros(n_links, np.bool_),
        place=np.zeros(n_links, np.int64),
        changed=np.arange(n_links),
        is_changed=np.ones(n_links, np.bool_),
        search=new_search(n_links),
        mix=new_mix(n_links),
        sizes=np.array([0, SLACK, -1, -1, n_links]),
        numbers=np.zeros(2),
    )
    program.value[:], program.clicks[:] = value, clicks
    return program


@inner
def _note_change(program: Program, link: int) -> None:
    """Let the next solve see whether a link is top."""
    may_be_top = (program.value[link] >= 1.0) | (program.clicks[link] >= 1.0)
    if (may_be_top | program.is_top[link]) and not program.is_changed[link]:
        program.is_changed[link] = True
        program.changed[program.sizes[N_CHANGED]] = link
        program.sizes[N_CHANGED] += 1


@inner
def set_value(program: Program, link: int, value: float) -> None:
    """Change the value of one link; the next solve takes it in."""
    program.value[link] = value
    _note_change(program, link)


@inner
def set_clicks(program: Program, link: int, clicks: float) -> None:
    """Change the clicks of one link; the next solve takes it in."""
    program.clicks[link] = clicks
    _note_change(program, link)


@inner
def _settle_changes(program: Program) -> None:
    """Let links that have changed enter the list of top links, or leave it."""
    sizes, place, top = program.sizes, program.place, program.mix.tied
    for k in range(sizes[N_CHANGED]):
        link = program.changed[k]
        program.is_changed[link] = False
        is_top = (program.value[link] >= 1.0) & (program.clicks[link] >= 1.0)
        if is_top and not program.is_top[link]:
            place[link] = sizes[N_TOP]
            top[sizes[N_TOP]] = link
            sizes[N_TOP] += 1
        elif program.is_top[link] and not is_top:
            sizes[N_TOP] -= 1
            moved = top[sizes[N_TOP]]
            top[place[link]] = moved
            place[moved] = place[link]
        program.is_top[link] = is_top
    sizes[N_CHANGED] = 0


@inner
def _guess_price(program: Program) -> float:
    """Return the price at which the two links that shared the last slot tie now.

    Unless that is far from the last price: then one of the two has left the boundary.
    """
    sizes = program.sizes
    if sizes[STATUS] != BINDING:
        return 0.0
    last, step = program.numbers[PRICE], program.numbers[STEP]
    one, other = sizes[PAIR], sizes[PAIR_OTHER]
    if one >= 0:
        more_clicks = program.clicks[one] - program.clicks[other]
        less_value = program.value[other] - program.value[one]
        if abs(less_value - last * more_clicks) <= 8.0 * step * abs(more_clicks):
            return max(0.0, less_value / more_clicks)
    return last


@inner
def solve_program(program: Program, n_slots: int, floor: float) -> None:
    """Write the best mix for `n_slots` slots and `floor` clicks into `program.mix`.

    The status and the price are in `sizes[STATUS]` and `numbers[PRICE]` of the program.
    """
    sizes, numbers, mix, search = program.sizes, program.numbers, program.mix, program.search
    _settle_changes(program)
    mix.sizes[:] = 0
    slackness = floor_slackness(floor)
    if sizes[N_TOP] >= n_slots:
        mix.sizes[N_TIED] = sizes[N_TOP]
        mix.sizes[TIED_SLOTS] = n_slots
        sizes[STATUS] = SLACK if n_slots >= floor - slackness else INFEASIBLE
        numbers[PRICE] = 0.0
        return
    entries = Entries(program.value, program.clicks, len(program.value))
    guess, step = _guess_price(program), max(numbers[STEP], 1e-9)
    price = search_price(entries, n_slots, floor, slackness, guess, step, search)
    share_slots(entries.clicks, search.links, n_slots, floor, price, search, mix)
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


@hot
def rank_by_program(program: Program, links: Links, worth: Floats) -> None:
    """Write what links are worth at the price of the last solve; out of reach, their clicks."""
    is_out_of_reach = program.sizes[STATUS] == INFEASIBLE
    for k in range(len(links)):
        value, clicks = program.value[links[k]], program.clicks[links[k]]
        worth[k] = clicks if is_out_of_reach else value + program.numbers[PRICE] * clicks
