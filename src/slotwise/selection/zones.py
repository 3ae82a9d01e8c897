"""The zones of a floor program's links: which are sure, which are out, and which are searched.

- TOP: links with value 1 and clicks 1; nothing beats them at any price,
- IN and OUT: links whose score was more than a margin away from the threshold,
- BAND: the few links near it, the only ones searched.

`slotwise.selection.floor_program` says why the zones may be trusted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.arrays import Floats, Links, Whole
from slotwise.compile import inner, int64
from slotwise.selection.mix import Mix
from slotwise.selection.page_search import BLOCK, Search

OUT, BAND, IN, TOP = range(4)

N_TOP, N_IN, N_BAND, STATUS, IS_DRAWN, PAIR, PAIR_OTHER, N_CHANGED, HAS_ZONES = range(9)
VALUE_WEIGHT, LOW_PRICE, LOW_THRESHOLD, HIGH_PRICE, HIGH_THRESHOLD, MARGIN, PRICE, STEP = range(8)


class Program(NamedTuple):
    """A floor program and the zones of its links; change it through the functions below."""

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
    sizes, place = program.sizes, program.place
    hole = place[link]
    if zone == BAND:
        sizes[N_BAND] -= 1
        last = sizes[N_BAND]
        moved = program.band[last]
        program.band[hole] = moved
        program.band_value[hole] = program.band_value[last]
        program.band_clicks[hole] = program.band_clicks[last]
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


@inner
def _enter_zone(program: Program, link: int, zone: int) -> None:
    sizes, place = program.sizes, program.place
    program.zone[link] = zone
    if zone == BAND:
        last = sizes[N_BAND]
        program.band[last] = link
        program.band_value[last] = program.value[link]
        program.band_clicks[last] = program.clicks[link]
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
    """Give every link below TOP its zone, without a branch for any of them.

    Most links are far below the threshold. A block of links that all are is passed over by
    counting, which runs in vectors.
    """
    sizes, numbers = program.sizes, program.numbers
    value_weight, margin = numbers[VALUE_WEIGHT], numbers[MARGIN]
    low_price, low_threshold = numbers[LOW_PRICE], numbers[LOW_THRESHOLD]
    high_price, high_threshold = numbers[HIGH_PRICE], numbers[HIGH_THRESHOLD]
    inner, band = program.inner, program.band
    n_inner = n_band = int64(0)
    for begin in range(int64(0), len(program.value), BLOCK):
        end = min(begin + BLOCK, len(program.value))
        value, clicks = program.value[begin:end], program.clicks[begin:end]
        zone = program.zone[begin:end]
        n_near = int64(0)
        for k in range(len(value)):
            own = value_weight * value[k]
            at_low = own + low_price * clicks[k] - low_threshold
            at_high = own + high_price * clicks[k] - high_threshold
            n_near += max(at_low, at_high) >= -margin
        if n_near == 0:  # none of them is TOP: those have the largest score
            for k in range(len(zone)):
                zone[k] = OUT
            continue
        for k in range(len(value)):
            own = value_weight * value[k]
            at_low = own + low_price * clicks[k] - low_threshold
            at_high = own + high_price * clicks[k] - high_threshold
            is_top = zone[k] == TOP
            is_in = (min(at_low, at_high) > margin) & (not is_top)
            is_out = (max(at_low, at_high) < -margin) & (not is_top)
            is_band = (not is_in) & (not is_out) & (not is_top)
            inner[n_inner] = begin + k
            n_inner += is_in
            band[n_band] = begin + k
            n_band += is_band
            zone[k] = TOP * is_top + IN * is_in + BAND * is_band
    for k in range(n_inner):
        program.place[inner[k]] = k
    for k in range(n_band):
        link = band[k]
        program.place[link] = k
        program.band_value[k] = program.value[link]
        program.band_clicks[k] = program.clicks[link]
    sizes[N_IN] = n_inner
    sizes[N_BAND] = n_band
