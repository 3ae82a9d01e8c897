"""Search for the price of the floor: the dual of the floor program, which has one dimension.

    phi(price) = max over pages of  value + price * (clicks - floor)

is convex and piecewise linear. A page found at some price is a line under phi; two lines, one
with too few clicks and one with enough, meet at a better price, until no page lies above the
meeting point.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.selection.compiled import hot
from slotwise.selection.top_page import N_CANDIDATES, TIE, Search, top_page

__all__ = ["BINDING", "INFEASIBLE", "SLACK", "Price", "search_price"]

SLACK, BINDING, INFEASIBLE = range(3)

MAX_STEPS = 200
"""More lines than any search needs; ends it if rounding makes two lines chase each other."""


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


@hot
def _price(
    status: int, value_weight: float, click_weight: float, n_slots: int, search: Search
) -> Price:
    last = n_slots - 1
    return Price(status, value_weight, click_weight, search.first[last], search.second[last])


@hot
def _fewest_clicks(
    clicks: NDArray[np.float64], n_slots: int, price: float, page_clicks: float, search: Search
) -> float:
    """Return the fewest clicks of a page that is as good at this price as the one found.

    A candidate outside that ties with the page's last may replace one inside that ties as well.
    Only one exchange is tried, the usual case; more of them would only widen the interval.
    """
    entry, first = search.entry, search.first
    threshold = first[n_slots - 1]
    tolerance = TIE * (1.0 + price)
    most = -1.0
    for k in range(n_slots):
        if first[k] <= threshold + tolerance:
            most = max(most, clicks[entry[k]])
    fewest = most
    for k in range(n_slots, search.sizes[N_CANDIDATES]):
        if first[k] >= threshold - tolerance:
            fewest = min(fewest, clicks[entry[k]])
    return page_clicks - most + fewest


@hot
def search_price(
    value: NDArray[np.float64],
    clicks: NDArray[np.float64],
    n_entries: int,
    n_slots: int,
    floor: float,
    guess: float,
    step: float,
    search: Search,
) -> Price:
    """Find the price at which the best page keeps the floor, exactly; leave it in `search`.

    `guess` is a price believed near and `step` how far it may be off (zero: start from
    nothing). They change the work, never the answer. Needs 1 <= n_slots <= n_entries.
    """
    slackness = TIE * n_slots
    enough = floor - slackness
    few_value = few_clicks = many_value = many_clicks = 0.0
    has_few = has_many = False

    if guess == 0.0:
        few_value, few_clicks = top_page(value, clicks, n_entries, n_slots, 1.0, 0.0, search)
        if few_clicks >= enough:
            return _price(SLACK, 1.0, 0.0, n_slots, search)
        has_few = True
    price = guess if guess > 0.0 else step
    while price > 0.0 and price <= 4.0 * guess + 1.0:
        page_value, page_clicks = top_page(value, clicks, n_entries, n_slots, 1.0, price, search)
        if page_clicks >= enough:
            fewest = _fewest_clicks(clicks, n_slots, price, page_clicks, search)
            if fewest <= floor + slackness:
                return _price(BINDING, 1.0, price, n_slots, search)
            many_value, many_clicks, has_many = page_value, page_clicks, True
        else:
            few_value, few_clicks, has_few = page_value, page_clicks, True
        if has_few and has_many:
            break
        price += -step if has_many else step
        step *= 6.0

    if not has_few:
        few_value, few_clicks = top_page(value, clicks, n_entries, n_slots, 1.0, 0.0, search)
        if few_clicks >= enough:
            return _price(SLACK, 1.0, 0.0, n_slots, search)
    if not has_many:
        many_value, many_clicks = top_page(value, clicks, n_entries, n_slots, 0.0, 1.0, search)
        if many_clicks < enough:
            return _price(INFEASIBLE, 0.0, 1.0, n_slots, search)

    for _ in range(MAX_STEPS):
        price = max(0.0, (few_value - many_value) / (many_clicks - few_clicks))
        page_value, page_clicks = top_page(value, clicks, n_entries, n_slots, 1.0, price, search)
        meeting = few_value + price * few_clicks
        if page_value + price * page_clicks <= meeting + slackness * (1.0 + price):
            break
        if page_clicks >= enough:
            many_value, many_clicks = page_value, page_clicks
        else:
            few_value, few_clicks = page_value, page_clicks
    return _price(BINDING, 1.0, price, n_slots, search)
