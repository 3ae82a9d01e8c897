"""Search for the price of the floor: the dual of the floor program, which has one dimension.

    phi(price) = max over pages of  value + price * (clicks - floor)

is convex and piecewise linear. A page found at some price is a line under phi; two lines, one
with too few clicks and one with enough, meet at a better price, until no page lies above the
meeting point. Nothing here allocates: the caller owns the scratch arrays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.selection.compiled import compiled

__all__ = [
    "BINDING",
    "INFEASIBLE",
    "SLACK",
    "TIE",
    "Price",
    "Search",
    "new_search",
    "score",
    "search_price",
    "seed_page",
    "top_page",
]

SLACK, BINDING, INFEASIBLE = 0, 1, 2

TIE = 1e-12
"""Scores closer than this, relative to 1 + price, are equal."""

MAX_STEPS = 200
"""More lines than any search needs; ends it if rounding makes two lines chase each other."""


class Price(NamedTuple):
    """How links are ranked: by value_weight * value + click_weight * clicks.

    (1, price) while the floor can be kept, (0, 1) when it cannot: then clicks alone count.
    `threshold` is the score of the last link on the page, `second` decides its ties.
    """

    status: int
    value_weight: float
    click_weight: float
    threshold: float
    second: float


class Search(NamedTuple):
    """Scratch of a search: which entries are on the page, as flags and as a heap, worst first.

    `has_ties` says whether an entry outside equals the page's last in both keys; `links` names
    the entries where they are the whole pool in order.
    """

    inside: NDArray[np.bool_]
    entry: NDArray[np.int64]
    first: NDArray[np.float64]
    second: NDArray[np.float64]
    ties: NDArray[np.int64]
    links: NDArray[np.int64]
    has_ties: NDArray[np.bool_]


def new_search(n_links: int) -> Search:
    """Return scratch for programs of at most `n_links` links."""
    return Search(
        inside=np.zeros(n_links, np.bool_),
        entry=np.zeros(n_links, np.int64),
        first=np.zeros(n_links),
        second=np.zeros(n_links),
        ties=np.zeros(n_links, np.int64),
        links=np.arange(n_links),
        has_ties=np.zeros(1, np.bool_),
    )


@compiled
def score(price: Price, value: float, clicks: float) -> float:
    """Return what a link is worth on the page at this price."""
    return price.value_weight * value + price.click_weight * clicks


@compiled
def _sink(search: Search, root: int, size: int) -> None:
    """Restore the heap below `root`: every entry no better than its children."""
    entry, first, second = search.entry, search.first, search.second
    moved, key, tie = entry[root], first[root], second[root]
    while True:
        child = 2 * root + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (
            first[right] < first[child]
            or (first[right] == first[child] and second[right] < second[child])
        ):
            child = right
        if first[child] > key or (first[child] == key and second[child] >= tie):
            break
        entry[root], first[root], second[root] = entry[child], first[child], second[child]
        root = child
    entry[root], first[root], second[root] = moved, key, tie


@compiled
def seed_page(search: Search, n_entries: int, n_slots: int) -> None:
    """List the entries flagged inside, made up to exactly `n_slots`."""
    inside, entry = search.inside, search.entry
    n_listed = 0
    for i in range(n_entries):
        if inside[i]:
            if n_listed < n_slots:
                entry[n_listed] = i
                n_listed += 1
            else:
                inside[i] = False
    i = 0
    while n_listed < n_slots:
        if not inside[i]:
            inside[i] = True
            entry[n_listed] = i
            n_listed += 1
        i += 1


@compiled
def top_page(
    value: NDArray[np.float64],
    clicks: NDArray[np.float64],
    n_entries: int,
    n_slots: int,
    value_weight: float,
    click_weight: float,
    search: Search,
) -> tuple[float, float]:
    """Move the page in `search` to the best one at these weights; return its value and clicks.

    Ties go to more clicks; where clicks alone count, to more value. Starting from the last page
    most entries stay, so a pass over the pool costs one comparison a link.
    """
    inside, entry, first, second = search.inside, search.entry, search.first, search.second
    by_clicks = value_weight > 0.0
    for k in range(n_slots):
        i = entry[k]
        first[k] = value_weight * value[i] + click_weight * clicks[i]
        second[k] = clicks[i] if by_clicks else value[i]
    for k in range(n_slots // 2 - 1, -1, -1):
        _sink(search, k, n_slots)
    worst = first[0]
    tied = False
    for i in range(n_entries):
        key = value_weight * value[i] + click_weight * clicks[i]
        if key >= worst and not inside[i]:
            tie = clicks[i] if by_clicks else value[i]
            last = second[0]
            if key > worst or tie > last:
                inside[entry[0]] = False
                inside[i] = True
                entry[0], first[0], second[0] = i, key, tie
                _sink(search, 0, n_slots)
                tied = first[0] == worst and second[0] == last
                worst = first[0]
            elif tie == last:
                tied = True
    search.has_ties[0] = tied
    page_value = 0.0
    page_clicks = 0.0
    for k in range(n_slots):
        page_value += value[entry[k]]
        page_clicks += clicks[entry[k]]
    return page_value, page_clicks


@compiled
def _fewest_clicks(
    value: NDArray[np.float64],
    clicks: NDArray[np.float64],
    n_entries: int,
    n_slots: int,
    price: float,
    page_clicks: float,
    search: Search,
) -> float:
    """Return the fewest clicks of a page that is as good at this price as the one found.

    Entries outside that tie with the page's last may replace entries inside that tie as well.
    Only one exchange is tried, the usual case; more of them would only widen the interval.
    """
    threshold = search.first[0]
    tolerance = TIE * (1.0 + price)
    most = -1.0
    for k in range(n_slots):
        if search.first[k] <= threshold + tolerance and clicks[search.entry[k]] > most:
            most = clicks[search.entry[k]]
    fewest = most
    for i in range(n_entries):
        if not search.inside[i] and clicks[i] < fewest:
            key = value[i] + price * clicks[i]
            if key >= threshold - tolerance:
                fewest = clicks[i]
    return page_clicks - most + fewest


@compiled
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
    """Find the price at which the best page keeps the floor, exactly.

    `guess` is a price believed near (zero: start from nothing) and `step` how far it may be
    off. They change the work, never the answer. Needs 1 <= n_slots <= n_entries.
    """
    seed_page(search, n_entries, n_slots)
    slackness = TIE * n_slots
    enough = floor - slackness
    few_value = few_clicks = many_value = many_clicks = 0.0
    has_few = has_many = False

    price = guess
    while guess > 0.0 and not (has_few and has_many):
        page_value, page_clicks = top_page(value, clicks, n_entries, n_slots, 1.0, price, search)
        if page_clicks >= enough:
            fewest = _fewest_clicks(value, clicks, n_entries, n_slots, price, page_clicks, search)
            if fewest <= floor:
                return Price(BINDING, 1.0, price, search.first[0], search.second[0])
            many_value, many_clicks, has_many = page_value, page_clicks, True
            price -= step
        else:
            few_value, few_clicks, has_few = page_value, page_clicks, True
            price += step
        step *= 4.0
        if price <= 0.0 or price > 4.0 * guess + 1.0:
            break

    if not has_few:
        few_value, few_clicks = top_page(value, clicks, n_entries, n_slots, 1.0, 0.0, search)
        if few_clicks >= enough:
            return Price(SLACK, 1.0, 0.0, search.first[0], search.second[0])
    if not has_many:
        many_value, many_clicks = top_page(value, clicks, n_entries, n_slots, 0.0, 1.0, search)
        if many_clicks < enough:
            return Price(INFEASIBLE, 0.0, 1.0, search.first[0], search.second[0])

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
    return Price(BINDING, 1.0, price, search.first[0], search.second[0])
