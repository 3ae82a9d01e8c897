"""Search for the price of the floor: the dual of the floor program, which has one dimension.

    phi(price) = max over pages of  value + price * (clicks - floor)

is convex and piecewise linear. The best pages at a price have a range of clicks, one number unless
links tie at the boundary; the range rises with the price. The search ends at a price whose range
contains the floor: then a mix of best pages keeps the floor exactly.

Two pages, one with too few clicks and one with too many, are two lines under phi. The next price is
where they intersect. Rounding may put that point outside the remaining interval of prices; then the
search steps inward from the nearer end. Used by most of `selection`, and by `policies`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slotwise.arrays import Floats
from slotwise.compile import inner, int64
from slotwise.selection.page_search import Entries, Objective, Search
from slotwise.selection.top_page import TIE, find_page, forget_list, lay_out_page, page_boundary

SLACK, BINDING, INFEASIBLE = range(3)

MAX_STEPS = 200
"""More steps than any search needs in which no score overflows."""

MAX_PRICE = 1e290
"""Larger prices would overflow; they need click rates below 1e-290."""


class Price(NamedTuple):
    """How links are ranked: by value_weight * value + click_weight * clicks.

    (1, price) while the floor can be kept, (0, 1) when it cannot: then clicks alone count.
    `threshold` is the score of the last link on the page, `second` decides its ties: its clicks,
    or its value where clicks alone count.
    """

    status: int
    value_weight: float
    click_weight: float
    threshold: float
    second: float


@inner
def floor_slackness(floor: float) -> float:
    """Return by how many clicks a page may miss the floor through rounding alone."""
    return TIE * floor


@inner
def _price(
    status: int, value_weight: float, click_weight: float, n_slots: int, search: Search
) -> Price:
    last = n_slots - 1
    return Price(status, value_weight, click_weight, search.first[last], search.second[last])


class Line(NamedTuple):
    """A page as a line under phi: the price at which it was found, its value and clicks."""

    price: float
    value: float
    clicks: float


@inner
def _page_at(
    entries: Entries, n_slots: int, objective: Objective, search: Search
) -> tuple[float, float]:
    """Leave the best page in `search`; return its value and clicks."""
    found = find_page(entries, n_slots, objective, search)
    return lay_out_page(entries, n_slots, objective, found, search)


@inner
def _side(least: float, most: float, floor: float, slackness: float) -> int:
    """Return -1 where pages of these clicks have too few, 1 where too many, else 0."""
    if most < floor - slackness:
        return -1
    return 1 if least > floor + slackness else 0


@inner
def _side_of_boundary(
    clicks: Floats, n_slots: int, floor: float, slackness: float, search: Search
) -> int:
    """Return the side of the best pages that are left in `search`."""
    edge = page_boundary(clicks, n_slots, search)
    return _side(edge.fewest, edge.most, floor - edge.clicks_above, slackness)


@inner
def _line_at(
    entries: Entries,
    n_slots: int,
    floor: float,
    slackness: float,
    price: float,
    search: Search,
) -> tuple[Line, int]:
    """Return a best page at a price and its side; on side 0 it is left in `search`.

    Where nothing ties at its end, the page need not be laid out to know its clicks.
    """
    objective = Objective(1.0, price)
    found = find_page(entries, n_slots, objective, search)
    if found.n_reaching == n_slots:
        side = _side(found.clicks, found.clicks, floor, slackness)
        if side != 0:
            return Line(price, found.value, found.clicks), side
    page_value, page_clicks = lay_out_page(entries, n_slots, objective, found, search)
    side = _side_of_boundary(entries.clicks, n_slots, floor, slackness, search)
    return Line(price, page_value, page_clicks), side


@inner
def meeting_price(few: Line, many: Line, nudge: float) -> float:
    """Return a price between those of two lines: where they meet, unless rounding forbids.

    If rounding of sums hides the difference of the two pages, the price is moved inward by the
    share `nudge`, or halfway.
    """
    more_clicks = many.clicks - few.clicks
    price = (few.value - many.value) / more_clicks if more_clicks > 0.0 else -1.0
    if few.price < price < many.price:
        return price
    inward = nudge * few.value / many.clicks
    if price <= few.price or many.price == np.inf:
        price = few.price + inward + nudge * few.price
    else:
        price = many.price - inward - nudge * many.price
    if few.price < price < many.price:
        return price
    return 0.5 * (few.price + many.price)


@inner
def search_price(
    entries: Entries,
    n_slots: int,
    floor: float,
    slackness: float,
    guess: float,
    step: float,
    search: Search,
) -> Price:
    """Find the price at which the best pages keep the floor exactly; leave them in `search`.

    `guess` is a price expected to be near and `step` how far it may be off (both zero: start from
    nothing). They affect the work, not the result. `slackness` is `floor_slackness` of the whole
    floor if `floor` is its rest. Needs 1 <= n_slots <= n_entries.
    """
    few, many = Line(-1.0, 0.0, 0.0), Line(np.inf, 0.0, 0.0)
    price = guess
    forget_list(search)
    while 0.0 < price <= 4.0 * guess + 1.0:
        line, side = _line_at(entries, n_slots, floor, slackness, price, search)
        if side == 0 and price * line.clicks <= TIE * n_slots * search.first[n_slots - 1]:
            # lost in the rounding of the scores: the best page at price 0 decides
            break
        if side == 0:
            return _price(int64(BINDING), 1.0, price, n_slots, search)
        if side < 0:
            few = line
        else:
            many = line
        if few.price > 0.0 and many.price < np.inf:
            break
        price += step if side < 0 else -step
        step *= 6.0

    if few.price < 0.0:
        page_value, page_clicks = _page_at(entries, n_slots, Objective(1.0, 0.0), search)
        if page_clicks >= floor - slackness:
            return _price(int64(SLACK), 1.0, 0.0, n_slots, search)
        if _side_of_boundary(entries.clicks, n_slots, floor, slackness, search) == 0:
            return _price(int64(BINDING), 1.0, 0.0, n_slots, search)
        few = Line(0.0, page_value, page_clicks)
    if many.price == np.inf:
        page_value, page_clicks = _page_at(entries, n_slots, Objective(0.0, 1.0), search)
        if page_clicks < floor - slackness:
            return _price(int64(INFEASIBLE), 0.0, 1.0, n_slots, search)
        many = Line(np.inf, page_value, page_clicks)

    nudge = 4.0 * TIE
    for _ in range(MAX_STEPS):
        price = meeting_price(few, many, nudge)
        if price >= MAX_PRICE or price == few.price or price == many.price:
            break
        line, side = _line_at(entries, n_slots, floor, slackness, price, search)
        if side == 0:
            return _price(int64(BINDING), 1.0, price, n_slots, search)
        if side < 0:
            few = line
        else:
            many = line
        nudge *= 4.0
    # no price between the two can be distinguished: the larger one keeps the floor
    if many.price < MAX_PRICE:
        _page_at(entries, n_slots, Objective(1.0, many.price), search)
    else:
        _page_at(entries, n_slots, Objective(0.0, 1.0), search)
    return _price(int64(BINDING), 1.0, min(many.price, MAX_PRICE), n_slots, search)
