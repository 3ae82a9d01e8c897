"""Search for the price of the floor: the dual of the floor program, which has one dimension.

    phi(price) = max over pages of  value + price * (clicks - floor)

is convex and piecewise linear. The best pages at a price have a range of clicks, one number unless
links tie at the boundary; the range rises with the price. The search ends at a price whose range
contains the floor: then a mix of best pages keeps the floor exactly.

Two pages, one with too few clicks and one with too many, are two lines under phi. The next price is
where they intersect. Rounding may put that point outside the remaining interval of prices; then the
search steps inward from the nearer end.

The search is the same within rules, where a page comes from `greedy_page`: then it ends at two
lines that meet where no page is above them. Used by most of `selection`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from slotwise.arrays import Floats
from slotwise.compile import inner, int64
from slotwise.selection.greedy_page import drop_dominated, keep_line, line_within
from slotwise.selection.page_search import (
    BINDING,
    INFEASIBLE,
    MAX_PRICE,
    SLACK,
    Entries,
    Line,
    Objective,
    Search,
)
from slotwise.selection.top_page import TIE, find_page, forget_list, lay_out_page, page_boundary

MAX_STEPS = 200
"""More steps than any search needs in which no score overflows."""

N_GUESSES = 3
"""Prices within rules tried first, each twice or half the last."""

GAIN = 1e-14
"""Within rules, a page must be better by this share to continue the search."""


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
    entries: Entries, n_slots: int, floor: float, slackness: float, price: float, search: Search
) -> tuple[Line, int]:
    """Return a best page at a price and its side: 0 where best pages there keep the floor exactly.

    On side 0 the page is left in `search`. At price 0 a page with enough clicks is on side 1.
    """
    if price == np.inf:
        value, clicks = _page_at(entries, n_slots, Objective(0.0, 1.0), search)
        return Line(price, value, clicks), -1 if clicks < floor - slackness else 1
    objective = Objective(1.0, price)
    found = find_page(entries, n_slots, objective, search)
    if found.n_reaching == n_slots and price > 0.0:  # its clicks are known without laying it out
        side = _side(found.clicks, found.clicks, floor, slackness)
        if side != 0:
            return Line(price, found.value, found.clicks), side
    value, clicks = lay_out_page(entries, n_slots, objective, found, search)
    if price == 0.0 and clicks >= floor - slackness:
        return Line(price, value, clicks), 1
    side = _side_of_boundary(entries.clicks, n_slots, floor, slackness, search)
    return Line(price, value, clicks), side


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
def _is_above(line: Line, few: Line) -> bool:
    """Return whether a page is better at its price than the page with too few clicks."""
    gain = line.value - few.value + line.price * (line.clicks - few.clicks)
    return gain > GAIN * (abs(few.value) + line.price * few.clicks)


@inner
def search_price(
    entries: Any,
    n_slots: int,
    floor: float,
    slackness: float,
    guess: float,
    step: float,
    search: Any,
    rules: Any,
) -> tuple[int, Line, Line]:
    """Return the status of a floor, and two best pages that enclose it: the first has fewer clicks.

    Pages are those of `entries`, found with `search`, where `rules` is None, otherwise those within
    the rules; the compiler leaves the other half out. Both pages are the same where one keeps the
    floor by itself. `guess` is a price expected to be near, 0 for none, and `step` how far it may
    be off: they affect the work, not the result.
    """
    few, many = Line(-1.0, 0.0, 0.0), Line(np.inf, 0.0, 0.0)
    is_enclosed, has_many = False, False
    price, most_guess, n_guesses = guess, 4.0 * guess + 1.0, int64(0)
    nudge = 4.0 * TIE
    if rules is not None:
        nudge, most_guess, n_guesses = GAIN, np.inf, int64(MAX_STEPS - N_GUESSES)
    is_guess = guess > 0.0
    for _ in range(MAX_STEPS):
        if is_enclosed:
            price = meeting_price(few, many, nudge)
            nudge *= 4.0
            if price >= MAX_PRICE or not few.price < price < many.price:
                break
        elif not (is_guess and 0.0 < price <= most_guess and n_guesses < MAX_STEPS):
            is_guess = False
            price = 0.0 if few.price < 0.0 else np.inf
        n_guesses += 1
        line, side = Line(price, 0.0, 0.0), 0
        if entries is not None:
            line, side = _line_at(entries, n_slots, floor, slackness, price, search)
            if side == 0:
                scale = search.first[n_slots - 1]
                is_kept = not is_guess or price * line.clicks > TIE * n_slots * scale
                if is_kept or is_enclosed:
                    return int64(BINDING), line, line
                is_guess = False  # lost in the rounding of the scores: price 0 decides
                continue
        if rules is not None:
            line, is_certain = line_within(rules, price)
            side = -1 if line.clicks < floor - slackness else 1
            if is_enclosed and not _is_above(line, few):
                break
            keep_line(rules, 0 if side < 0 and price < np.inf else 1, is_certain)
        if (price == 0.0 and side > 0) or (price == np.inf and side < 0):
            return int64(SLACK if side > 0 else INFEASIBLE), line, line
        if side < 0:
            few = line
        else:
            many, has_many = line, True
        if not is_enclosed and few.price >= 0.0 and has_many:
            is_enclosed = True
            if rules is not None:
                drop_dominated(rules, few.price, many.price)
        if rules is None:
            price += step if side < 0 else -step
            step *= 6.0
        else:
            price *= 2.0 if side < 0 else 0.5
    return int64(BINDING), few, many


@inner
def price_of_floor(
    entries: Entries,
    n_slots: int,
    floor: float,
    slackness: float,
    guess: float,
    step: float,
    search: Search,
) -> Price:
    """Find the price at which the best pages keep the floor exactly; leave them in `search`.

    `slackness` is `floor_slackness` of the whole floor if `floor` is what remains of it. Needs
    1 <= n_slots <= n_entries.
    """
    forget_list(search)
    status, few, many = search_price(entries, n_slots, floor, slackness, guess, step, search, None)
    value_weight, price = 1.0, many.price
    if few.price < many.price:
        # no price between the two can be distinguished: the larger one keeps the floor
        price = min(price, MAX_PRICE)
        is_finite = price < MAX_PRICE
        _page_at(
            entries, n_slots, Objective(1.0, price) if is_finite else Objective(0.0, 1.0), search
        )
    elif status == INFEASIBLE:
        value_weight, price = 0.0, 1.0
    last = n_slots - 1
    return Price(status, value_weight, price, search.first[last], search.second[last])
