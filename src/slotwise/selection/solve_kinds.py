"""The floor program for visitors of several kinds: one floor for all, one price for all.

    maximise  sum_m share_m value_m . x_m
    subject to  sum_m share_m clicks_m . x_m >= floor,  sum of x_m = n_slots,  0 <= x_m <= 1

Given the price of the floor, the kinds have nothing to do with each other: each gets its best
page at that price. So the dual still has one dimension. At a price the best pages of each kind
bring a range of clicks, one number unless links tie at its boundary, and so do all kinds
together; the range rises with the price. The search is that of `slotwise.selection.price_search`:
it ends at a price whose range contains the floor. There every mix of best pages is optimal: kinds
go from the fewest to the most clicks of their range, one by one, until the floor is kept, and only
the kind at which that happens mixes pages. It has at most two fractional entries where no links
tie exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.selection.compiled import compiled, int64
from slotwise.selection.mix import N_OPEN, N_SURE, Mix, new_mix
from slotwise.selection.page_search import SCRATCH_NUMBERS, SCRATCH_SIZES, Search, new_search
from slotwise.selection.price_search import (
    BINDING,
    INFEASIBLE,
    MAX_PRICE,
    MAX_STEPS,
    SLACK,
    Line,
    Price,
    floor_slackness,
    meeting_price,
)
from slotwise.selection.share_slots import share_slots
from slotwise.selection.top_page import TIE, page_boundary, top_page

Floats = NDArray[np.float64]


class Kinds(NamedTuple):
    """The program, and what is kept of the last search for its pages.

    `remembered` holds, for each kind, where its last page ended: the next search starts there.
    `fewest` and `most` are the clicks of each kind's best pages. `last_price` is zero unless the
    floor was binding.
    """

    value: Floats
    clicks: Floats
    shares: Floats
    search: Search
    mix: Mix
    remembered: Floats
    fewest: Floats
    most: Floats
    last_price: Floats


def new_kinds(value: Floats, clicks: Floats, shares: Floats) -> Kinds:
    """Return a program that has never been solved; it keeps the arrays."""
    n_kinds, n_links = value.shape
    return Kinds(
        value=value,
        clicks=clicks,
        shares=shares,
        search=new_search(n_links),
        mix=new_mix(n_links),
        remembered=np.zeros((n_kinds, SCRATCH_SIZES + SCRATCH_NUMBERS)),
        fewest=np.zeros(n_kinds),
        most=np.zeros(n_kinds),
        last_price=np.zeros(1),
    )


@compiled
def _top_page(
    kinds: Kinds, kind: int, n_slots: int, value_weight: float, click_weight: float
) -> tuple[float, float]:
    """Put the best page of one kind into the shared search; return its value and clicks."""
    search, remembered = kinds.search, kinds.remembered[kind]
    for k in range(SCRATCH_SIZES):
        search.sizes[k] = int(remembered[k])
    for k in range(SCRATCH_NUMBERS):
        search.numbers[k] = remembered[SCRATCH_SIZES + k]
    value, clicks = kinds.value[kind], kinds.clicks[kind]
    found = top_page(value, clicks, len(value), n_slots, value_weight, click_weight, search)
    for k in range(SCRATCH_SIZES):
        remembered[k] = search.sizes[k]
    for k in range(SCRATCH_NUMBERS):
        remembered[SCRATCH_SIZES + k] = search.numbers[k]
    return found


@compiled
def _pages_at(kinds: Kinds, n_slots: int, value_weight: float, click_weight: float) -> Line:
    """Find the best pages of all kinds and the range of their clicks; return their average."""
    average_value = average_clicks = 0.0
    for kind in range(len(kinds.shares)):
        value, clicks = _top_page(kinds, kind, n_slots, value_weight, click_weight)
        average_value += kinds.shares[kind] * value
        average_clicks += kinds.shares[kind] * clicks
        edge = page_boundary(kinds.clicks[kind], n_slots, kinds.search)
        kinds.fewest[kind] = edge.clicks_above + edge.fewest
        kinds.most[kind] = edge.clicks_above + edge.most
    return Line(click_weight, average_value, average_clicks)


@compiled
def _side(kinds: Kinds, floor: float) -> int:
    """Return -1 where the best pages found have too few clicks, 1 where too many, else 0."""
    fewest = most = 0.0
    for kind in range(len(kinds.shares)):
        fewest += kinds.shares[kind] * kinds.fewest[kind]
        most += kinds.shares[kind] * kinds.most[kind]
    if most < floor - floor_slackness(floor):
        return -1
    return 1 if fewest > floor + floor_slackness(floor) else 0


@compiled
def _near_last_price(kinds: Kinds, n_slots: int, floor: float) -> tuple[bool, Line, Line]:
    """Look for the price around the last one; say whether it was found, and what was."""
    few, many = Line(-1.0, 0.0, 0.0), Line(np.inf, 0.0, 0.0)
    price = kinds.last_price[0]
    step, longest = 1e-3 * price, 4.0 * price
    while 0.0 < price <= longest and (few.price < 0.0 or many.price == np.inf):
        pages = _pages_at(kinds, n_slots, 1.0, price)
        side = _side(kinds, floor)
        if side == 0:
            # a price lost in the rounding of the scores proves nothing: that at 0 decides
            is_found = price * pages.clicks > TIE * n_slots * pages.value
            return is_found, pages if is_found else Line(-1.0, 0.0, 0.0), many
        if side < 0:
            few = pages
        else:
            many = pages
        price += step if side < 0 else -step
        step *= 6.0
    return False, few, many


@compiled
def _search_price(kinds: Kinds, n_slots: int, floor: float) -> tuple[int, float, float]:
    """Return the status and the weights of value and clicks at which the floor is kept."""
    is_found, few, many = _near_last_price(kinds, n_slots, floor)
    if is_found:
        return BINDING, 1.0, few.price
    if few.price < 0.0:
        few = _pages_at(kinds, n_slots, 1.0, 0.0)
        if few.clicks >= floor - floor_slackness(floor):
            return SLACK, 1.0, 0.0
        if _side(kinds, floor) == 0:
            return BINDING, 1.0, 0.0
    if many.price == np.inf:
        pages = _pages_at(kinds, n_slots, 0.0, 1.0)
        if pages.clicks < floor - floor_slackness(floor):
            return INFEASIBLE, 0.0, 1.0
        many = Line(np.inf, pages.value, pages.clicks)
    nudge = 4.0 * TIE
    for _ in range(MAX_STEPS):
        price = meeting_price(few, many, nudge)
        if price >= MAX_PRICE or price == few.price or price == many.price:
            break
        pages = _pages_at(kinds, n_slots, 1.0, price)
        side = _side(kinds, floor)
        if side == 0:
            return BINDING, 1.0, price
        if side < 0:
            few = pages
        else:
            many = pages
        nudge *= 4.0
    # no price between the two can be told apart: the larger one keeps the floor
    if many.price < MAX_PRICE:
        _pages_at(kinds, n_slots, 1.0, many.price)
        return BINDING, 1.0, many.price
    _pages_at(kinds, n_slots, 0.0, 1.0)
    return BINDING, 0.0, 1.0


@compiled
def _write_page(
    kinds: Kinds, kind: int, n_slots: int, wanted: float, price: Price, probabilities: Floats
) -> None:
    """Write the page of one kind that brings the clicks `wanted`, or any best one if slack."""
    _top_page(kinds, kind, n_slots, price.value_weight, price.click_weight)
    search, mix = kinds.search, kinds.mix
    mix.sizes[:] = 0
    share_slots(kinds.clicks[kind], search.links, n_slots, wanted, price, search, mix)
    for k in range(mix.sizes[N_SURE]):
        probabilities[mix.sure[k]] = 1.0
    for k in range(mix.sizes[N_OPEN]):
        probabilities[mix.open[k]] = mix.probabilities[k]


@compiled
def solve_kept_kinds(
    kinds: Kinds, n_slots: int, floor: float
) -> tuple[Floats, float, int, float, float]:
    """Return the best probabilities of every kind, their price, status, value and clicks."""
    status, value_weight, click_weight = _search_price(kinds, n_slots, floor)
    price = Price(int64(status), value_weight, click_weight, 0.0, 0.0)
    kinds.last_price[0] = click_weight if status == BINDING and value_weight > 0.0 else 0.0
    probabilities = np.zeros(kinds.value.shape)
    missing = floor
    for kind in range(len(kinds.shares)):
        missing -= kinds.shares[kind] * kinds.fewest[kind]
    average_value = average_clicks = 0.0
    for kind in range(len(kinds.shares)):
        share, wanted = kinds.shares[kind], kinds.fewest[kind]
        more = share * (kinds.most[kind] - wanted)
        if more > 0.0 and missing > 0.0:
            wanted = kinds.most[kind] if more <= missing else wanted + missing / share
            missing -= more
        _write_page(kinds, kind, n_slots, wanted, price, probabilities[kind])
        average_value += share * np.sum(probabilities[kind] * kinds.value[kind])
        average_clicks += share * np.sum(probabilities[kind] * kinds.clicks[kind])
    shadow_price = np.inf if status == INFEASIBLE else click_weight
    if status == BINDING and value_weight == 0.0:
        shadow_price = MAX_PRICE
    return probabilities, shadow_price, status, average_value, average_clicks
