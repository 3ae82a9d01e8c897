"""The floor program with a warm start: exact, at a cost that grows with the changed links.

    maximise value . x   subject to   clicks . x >= floor,  sum of x = n_slots,  0 <= x <= 1

At the optimal price every link has a score; the page has the links above a threshold. Between two
page views few links change, so price and threshold hardly move. The program keeps

- TOP: links with value 1 and clicks 1; nothing beats them at any price,
- IN and OUT: links whose score was more than a margin away from the threshold,
- BAND: the few links near it, the only ones searched.

A score is linear in the price: a link that is above a line at two prices is above it at every price
between. So IN and OUT are determined at the lowest and the highest price expected soon, against a
line along which the threshold should move. While price and threshold stay near that line, the
band's optimum is the optimum: the certificate is checked on every solve, and if it fails the zones
are recomputed. Small pools are searched completely. Used by `policies`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.arrays import Floats, Links, Whole
from slotwise.compile import hot, inner, int64
from slotwise.selection.mix import N_OPEN, N_SURE, N_TIED, TIED_SLOTS, Mix, new_mix
from slotwise.selection.page_search import BINDING, INFEASIBLE, SLACK, Entries, Search, new_search
from slotwise.selection.passes import aligned_zeros
from slotwise.selection.price_search import Price, floor_slackness, price_of_floor
from slotwise.selection.share_slots import share_slots
from slotwise.selection.top_page import TIE

OUT, BAND, IN, TOP = range(4)

# the sizes of TOP, IN and BAND have the indices 0, 1 and 2: TOP less the zone
N_TOP, N_IN, N_BAND, STATUS, IS_DRAWN, PAIR, PAIR_OTHER, N_CHANGED, HAS_ZONES = range(9)
VALUE_WEIGHT, LOW_PRICE, LOW_THRESHOLD, HIGH_PRICE, HIGH_THRESHOLD, MARGIN, PRICE, STEP = range(8)


class Program(NamedTuple):
    """A floor program and the zones of its links; change it through the functions below.

    `value`, `clicks`, `zone` and `is_changed` are by link. `place` is the place of a link in the
    list of its zone: `inner` for IN, `band` for BAND, `mix.tied` for TOP; OUT has none.
    `band_value` and `band_clicks` follow `band`. The first `sizes[N_CHANGED]` of `changed` are the
    links whose zone the next solve finds. The answer is in `mix`. `sizes` and `numbers` have the
    entries that are named above.
    """

    value: Floats
    clicks: Floats
    zone: NDArray[np.int8]
    place: Whole
    inner: Links
    band: Links
    band_value: Floats
    band_clicks: Floats
    changed: Links
    is_changed: NDArray[np.bool_]
    search: Search
    mix: Mix
    sizes: Whole
    numbers: Floats


@inner
def _leave_zone(program: Program, link: int, zone: int) -> None:
    """Remove a link from the list of its zone; the last link of the list replaces it."""
    if zone == OUT:
        return
    others = program.inner if zone == IN else program.mix.tied
    members, hole = program.band if zone == BAND else others, program.place[link]
    program.sizes[TOP - zone] -= 1
    last = program.sizes[TOP - zone]
    moved = members[last]
    members[hole], program.place[moved] = moved, hole
    if zone == BAND:
        program.band_value[hole] = program.band_value[last]
        program.band_clicks[hole] = program.band_clicks[last]


@inner
def _enter_zone(program: Program, link: int, zone: int) -> None:
    """Add a link to the list of a zone."""
    program.zone[link] = zone
    if zone == OUT:
        return
    others = program.inner if zone == IN else program.mix.tied
    members, last = program.band if zone == BAND else others, program.sizes[TOP - zone]
    members[last], program.place[link] = link, last
    program.sizes[TOP - zone] += 1
    if zone == BAND:
        program.band_value[last] = program.value[link]
        program.band_clicks[last] = program.clicks[link]


@inner
def _zone_of(numbers: Floats, value: float, clicks: float) -> int:
    """Return the zone of a link: above or below the threshold at both ends of the prices."""
    own = numbers[VALUE_WEIGHT] * value
    at_low = own + numbers[LOW_PRICE] * clicks - numbers[LOW_THRESHOLD]
    at_high = own + numbers[HIGH_PRICE] * clicks - numbers[HIGH_THRESHOLD]
    if min(at_low, at_high) > numbers[MARGIN]:
        return IN
    if max(at_low, at_high) < -numbers[MARGIN]:
        return OUT
    return BAND


@inner
def settle_changes(program: Program) -> None:
    """Move every changed link to its present zone."""
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
            zone = _zone_of(numbers, value, clicks)
        before = program.zone[link]
        if zone != before:
            _leave_zone(program, link, before)
            _enter_zone(program, link, zone)
        elif zone == BAND:
            place = program.place[link]
            program.band_value[place] = value
            program.band_clicks[place] = clicks
    sizes[N_CHANGED] = 0


@inner
def place_zones(program: Program) -> None:
    """Assign a zone to every link below TOP, without branches."""
    sizes, numbers, zone = program.sizes, program.numbers, program.zone
    value_weight, margin = numbers[VALUE_WEIGHT], numbers[MARGIN]
    low_price, low_threshold = numbers[LOW_PRICE], numbers[LOW_THRESHOLD]
    high_price, high_threshold = numbers[HIGH_PRICE], numbers[HIGH_THRESHOLD]
    inner, band = program.inner, program.band
    n_inner = n_band = int64(0)
    for link in range(len(program.value)):
        own = value_weight * program.value[link]
        at_low = own + low_price * program.clicks[link] - low_threshold
        at_high = own + high_price * program.clicks[link] - high_threshold
        is_top = zone[link] == TOP
        is_in = (min(at_low, at_high) > margin) & (not is_top)
        is_out = (max(at_low, at_high) < -margin) & (not is_top)
        is_band = (not is_in) & (not is_out) & (not is_top)
        inner[n_inner] = link
        n_inner += is_in
        band[n_band] = link
        n_band += is_band
        zone[link] = TOP * is_top + IN * is_in + BAND * is_band
    for k in range(n_inner):
        program.place[inner[k]] = k
    for k in range(n_band):
        link = band[k]
        program.place[link] = k
        program.band_value[k] = program.value[link]
        program.band_clicks[k] = program.clicks[link]
    sizes[N_IN] = n_inner
    sizes[N_BAND] = n_band


FIRST_MARGIN = 0.01
"""Half-width of the first band around the threshold; later ones are adapted from the last."""


SMALL = 600
"""Pools up to this size have no zones: searching all of their links costs less."""


def new_program(value: Floats, clicks: Floats) -> Program:
    """Return a program over copies of `value` and `clicks`, nothing solved yet."""
    n_links = len(value)
    program = Program(
        value=aligned_zeros(n_links),
        clicks=aligned_zeros(n_links),
        zone=np.zeros(n_links, np.int8),
        place=np.zeros(n_links, np.int64),
        inner=np.zeros(n_links, np.int64),
        band=np.zeros(n_links, np.int64),
        band_value=aligned_zeros(n_links),
        band_clicks=aligned_zeros(n_links),
        changed=np.zeros(n_links, np.int64),
        is_changed=np.zeros(n_links, np.bool_),
        search=new_search(n_links),
        mix=new_mix(n_links),
        sizes=np.zeros(9, np.int64),
        numbers=np.zeros(8),
    )
    program.sizes[PAIR] = -1
    program.sizes[HAS_ZONES] = n_links > SMALL
    program.numbers[MARGIN] = FIRST_MARGIN
    program.value[:], program.clicks[:] = value, clicks
    program.changed[:], program.is_changed[:] = np.arange(n_links), True
    program.sizes[N_CHANGED] = n_links
    return program


@inner
def _note_change(program: Program, link: int) -> None:
    """Mark a link so that the next solve finds its zone; without zones only TOP matters."""
    may_be_top = (program.value[link] >= 1.0) | (program.clicks[link] >= 1.0)
    concerns_top = may_be_top | (program.zone[link] == TOP)
    if (concerns_top | (program.sizes[HAS_ZONES] == 1)) and not program.is_changed[link]:
        program.is_changed[link] = True
        program.changed[program.sizes[N_CHANGED]] = link
        program.sizes[N_CHANGED] += 1


@inner
def set_value(program: Program, link: int, value: float) -> None:
    """Change the value of one link, for the next solve."""
    program.value[link] = value
    _note_change(program, link)


@inner
def set_clicks(program: Program, link: int, clicks: float) -> None:
    """Change the clicks of one link, for the next solve."""
    program.clicks[link] = clicks
    _note_change(program, link)


@inner
def _draw_zones(program: Program, n_slots: int, floor: float) -> None:
    """Set the zones around the threshold of the whole pool.

    The threshold is followed along a line from the lowest to the highest price expected soon; the
    margin around it is the one that gave a band of the wanted size last time.
    """
    sizes, numbers = program.sizes, program.numbers
    entries = Entries(program.value, program.clicks, len(program.value))
    guess, step = numbers[PRICE], max(numbers[STEP], 1e-9)
    slackness = floor_slackness(floor)
    price = price_of_floor(entries, n_slots, floor, slackness, guess, step, program.search)
    reach = 0.0
    slope = 0.0
    if price.status == BINDING:
        reach = min(price.click_weight, 10.0 * numbers[STEP] + 0.01 * price.click_weight)
        slope = price.second
    numbers[VALUE_WEIGHT] = price.value_weight
    numbers[LOW_PRICE] = price.click_weight - reach
    numbers[HIGH_PRICE] = price.click_weight + reach
    numbers[LOW_THRESHOLD] = price.threshold - reach * slope
    numbers[HIGH_THRESHOLD] = price.threshold + reach * slope
    numbers[PRICE] = price.click_weight if price.status == BINDING else 0.0
    sizes[STATUS] = price.status
    sizes[IS_DRAWN] = 1
    sizes[PAIR] = -1
    # how many links the band should have: enough to last, few enough to search
    target = min(0.5 * len(program.value), 16.0 + np.sqrt(len(program.value) * n_slots))
    least = 1e-9 * (1.0 + price.click_weight)
    numbers[MARGIN] = max(numbers[MARGIN], least)
    place_zones(program)
    for _ in range(11):
        if sizes[N_BAND] > 2.0 * target and numbers[MARGIN] > least:
            numbers[MARGIN] = max(0.5 * numbers[MARGIN], least)
        elif sizes[N_BAND] < 0.5 * target and numbers[MARGIN] < 1.0:
            numbers[MARGIN] *= 1.6
        else:
            break
        # the certificate relies on the margin, so the zones must be those of the last one tried
        place_zones(program)


@inner
def _band_holds(program: Program, price: Price) -> bool:
    """Return whether no link outside the band can change the answer found inside it."""
    numbers = program.numbers
    if (price.status == INFEASIBLE) != (numbers[VALUE_WEIGHT] == 0.0):
        return False
    low, high = numbers[LOW_PRICE], numbers[HIGH_PRICE]
    if not low <= price.click_weight <= high:
        return False
    threshold = numbers[LOW_THRESHOLD]
    if high > low:
        along = (price.click_weight - low) / (high - low)
        threshold += along * (numbers[HIGH_THRESHOLD] - numbers[LOW_THRESHOLD])
    tolerance = 2.0 * TIE * (1.0 + price.click_weight)
    return abs(price.threshold - threshold) < numbers[MARGIN] - tolerance


@inner
def _guess_price(program: Program) -> float:
    """Return the price at which the two links that shared the last slot tie now.

    If that is far from the last price, one of the two has left the boundary, and it is not used.
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
def _solve_entries(
    program: Program,
    entries: Entries,
    links: Links,
    n_slots: int,
    floor: float,
    slackness: float,
) -> Price:
    """Add the best mix of some entries to `program.mix`; entry i is `links[i]`."""
    search = program.search
    guess, step = _guess_price(program), max(program.numbers[STEP], 1e-9)
    price = price_of_floor(entries, n_slots, floor, slackness, guess, step, search)
    share_slots(entries.clicks, links, n_slots, floor, price, search, program.mix)
    return price


@inner
def _solve_band(program: Program, n_slots: int, floor: float) -> Price:
    """Write the best mix to `program.mix`, with all links of IN and TOP on the page."""
    sizes, mix = program.sizes, program.mix
    n_top, n_inner = sizes[N_TOP], sizes[N_IN]
    left = floor - n_top
    for k in range(n_top):
        mix.sure[k] = mix.tied[k]
    for k in range(n_inner):
        mix.sure[n_top + k] = program.inner[k]
        left -= program.clicks[program.inner[k]]
    mix.sizes[:] = 0
    mix.sizes[N_SURE] = n_top + n_inner
    entries = Entries(program.band_value, program.band_clicks, sizes[N_BAND])
    n_left, slackness = n_slots - n_top - n_inner, floor_slackness(floor)
    return _solve_entries(program, entries, program.band, n_left, left, slackness)


@inner
def _solve_zones(program: Program, n_slots: int, floor: float) -> Price:
    """Write the best mix to `program.mix`; recompute the zones if they are not valid."""
    sizes = program.sizes
    band_slots = n_slots - sizes[N_TOP] - sizes[N_IN]
    if sizes[IS_DRAWN] == 0 or not 1 <= band_slots <= sizes[N_BAND]:
        _draw_zones(program, n_slots, floor)
    price = _solve_band(program, n_slots, floor)
    if not _band_holds(program, price):
        _draw_zones(program, n_slots, floor)
        price = _solve_band(program, n_slots, floor)
        if not _band_holds(program, price):
            # search the whole pool, which is correct even where rounding invalidates the zones
            program.numbers[MARGIN] = np.inf
            place_zones(program)
            sizes[IS_DRAWN], program.numbers[MARGIN] = 0, FIRST_MARGIN
            price = _solve_band(program, n_slots, floor)
    return price


@inner
def solve_program(program: Program, n_slots: int, floor: float) -> None:
    """Write the best mix for `n_slots` slots and `floor` clicks into `program.mix`.

    The status and the price are in `sizes[STATUS]` and `numbers[PRICE]` of the program.
    """
    sizes, numbers, mix = program.sizes, program.numbers, program.mix
    settle_changes(program)
    mix.sizes[:] = 0
    if sizes[N_TOP] >= n_slots:
        mix.sizes[N_TIED] = sizes[N_TOP]
        mix.sizes[TIED_SLOTS] = n_slots
        sizes[STATUS] = SLACK if n_slots >= floor - floor_slackness(floor) else INFEASIBLE
        numbers[PRICE] = 0.0
        return
    if sizes[HAS_ZONES] == 1:
        price = _solve_zones(program, n_slots, floor)
    else:
        entries = Entries(program.value, program.clicks, len(program.value))
        links, slackness = program.search.links, floor_slackness(floor)
        price = _solve_entries(program, entries, links, n_slots, floor, slackness)
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
    """Write the scores of links at the price of the last solve; if infeasible, their clicks."""
    is_out_of_reach = program.sizes[STATUS] == INFEASIBLE
    for k in range(len(links)):
        value, clicks = program.value[links[k]], program.clicks[links[k]]
        worth[k] = clicks if is_out_of_reach else value + program.numbers[PRICE] * clicks
