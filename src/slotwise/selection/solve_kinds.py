"""The floor program for visitors of several kinds: one floor for all, one price for all.

    maximise  sum_m share_m value_m . x_m
    subject to  sum_m share_m clicks_m . x_m >= floor,  sum of x_m = n_slots,  0 <= x_m <= 1

Given the price of the floor, the kinds have nothing to do with each other: each gets its best
page at that price. So the dual still has one dimension. The search keeps two prices, one whose
pages have too few clicks and one whose pages have enough, and moves to where their lines meet.
When no pages lie above that point, every mix of the two sets of pages is optimal: kinds change
from the first to the second, one by one, until the floor is kept, and only the kind at which that
happens mixes pages. It solves its own floor program for the clicks that are left to it, which has
at most two fractional entries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.selection.compiled import compiled
from slotwise.selection.mix import N_OPEN, N_SURE, Mix
from slotwise.selection.price_search import BINDING, INFEASIBLE, SLACK
from slotwise.selection.solve_afresh import solve_afresh
from slotwise.selection.top_links import share_top_page
from slotwise.selection.top_page import SCRATCH_NUMBERS, SCRATCH_SIZES, TIE, Search, top_page

__all__ = ["solve_kinds"]

MAX_STEPS = 200
"""More prices than any search needs; ends it if rounding makes two lines chase each other."""

Floats = NDArray[np.float64]


class Pages(NamedTuple):
    """The best page of every kind at these weights of value and clicks.

    `clicks` are those of each kind's page; the last two numbers are of the average visitor.
    """

    value_weight: float
    click_weight: float
    clicks: Floats
    average_value: float
    average_clicks: float


class Kinds(NamedTuple):
    """The program, and what the searches for its pages share.

    `remembered` holds, for each kind, where its last page ended: the next search starts there.
    """

    value: Floats
    clicks: Floats
    shares: Floats
    n_slots: int
    search: Search
    remembered: Floats


@compiled
def _top_page(
    kinds: Kinds, kind: int, value_weight: float, click_weight: float
) -> tuple[float, float]:
    """Put the best page of one kind into the shared search; return its value and clicks."""
    search, remembered = kinds.search, kinds.remembered[kind]
    for k in range(SCRATCH_SIZES):
        search.sizes[k] = int(remembered[k])
    for k in range(SCRATCH_NUMBERS):
        search.numbers[k] = remembered[SCRATCH_SIZES + k]
    value, clicks = kinds.value[kind], kinds.clicks[kind]
    found = top_page(value, clicks, len(value), kinds.n_slots, value_weight, click_weight, search)
    for k in range(SCRATCH_SIZES):
        remembered[k] = search.sizes[k]
    for k in range(SCRATCH_NUMBERS):
        remembered[SCRATCH_SIZES + k] = search.numbers[k]
    return found


@compiled
def _top_pages(kinds: Kinds, value_weight: float, click_weight: float) -> Pages:
    page_clicks = np.zeros(len(kinds.shares))
    average_value = average_clicks = 0.0
    for kind in range(len(kinds.shares)):
        value, page_clicks[kind] = _top_page(kinds, kind, value_weight, click_weight)
        average_value += kinds.shares[kind] * value
        average_clicks += kinds.shares[kind] * page_clicks[kind]
    return Pages(value_weight, click_weight, page_clicks, average_value, average_clicks)


@compiled
def _search_price(kinds: Kinds, floor: float) -> tuple[int, float, Pages, Pages]:
    """Return the status, the price, and the pages with too few clicks and with enough."""
    enough = floor - TIE * floor
    few = _top_pages(kinds, 1.0, 0.0)
    if few.average_clicks >= enough:
        return SLACK, 0.0, few, few
    many = _top_pages(kinds, 0.0, 1.0)
    if many.average_clicks < enough:
        return INFEASIBLE, np.inf, many, many
    price = 0.0
    for _ in range(MAX_STEPS):
        less_value = few.average_value - many.average_value
        price = max(0.0, less_value / (many.average_clicks - few.average_clicks))
        pages = _top_pages(kinds, 1.0, price)
        meeting = few.average_value + price * few.average_clicks
        score = pages.average_value + price * pages.average_clicks
        is_between = few.average_clicks < pages.average_clicks < many.average_clicks
        if score <= meeting + TIE * meeting or not is_between:
            break
        if pages.average_clicks >= enough:
            many = pages
        else:
            few = pages
    return BINDING, price, few, many


@compiled
def _write_page(kinds: Kinds, kind: int, pages: Pages, mix: Mix, probabilities: Floats) -> None:
    """Write the page of one kind; links that tie exactly at its end share their slots."""
    _top_page(kinds, kind, pages.value_weight, pages.click_weight)
    share_top_page(kinds.search.links, kinds.n_slots, kinds.search, mix)
    for k in range(mix.sizes[N_SURE]):
        probabilities[mix.sure[k]] = 1.0
    for k in range(mix.sizes[N_OPEN]):
        probabilities[mix.open[k]] = mix.probabilities[k]


@compiled
def solve_kinds(
    value: Floats, clicks: Floats, shares: Floats, n_slots: int, floor: float
) -> tuple[Floats, float, int, float, float]:
    """Return the best probabilities of every kind, their price, status, value and clicks."""
    n_kinds, n_links = value.shape
    search = Search(
        np.empty(n_links, np.int64),
        np.empty(n_links),
        np.empty(n_links),
        np.empty(n_links, np.int64),
        np.arange(n_links),
        np.zeros(SCRATCH_SIZES, np.int64),
        np.zeros(SCRATCH_NUMBERS),
    )
    nothing = np.empty(0, np.int64)
    mix = Mix(
        np.empty(n_links, np.int64),
        np.empty(n_links, np.int64),
        np.empty(n_links),
        nothing,
        nothing,
        np.zeros(4, np.int64),
    )
    kinds = Kinds(
        value, clicks, shares, n_slots, search, np.zeros((n_kinds, SCRATCH_SIZES + SCRATCH_NUMBERS))
    )
    status, price, few, many = _search_price(kinds, floor)
    missing = floor - few.average_clicks if status == BINDING else 0.0
    probabilities = np.zeros((n_kinds, n_links))
    for kind in range(n_kinds):
        more = shares[kind] * (many.clicks[kind] - few.clicks[kind])
        if more <= 0.0 or missing <= 0.0:
            _write_page(kinds, kind, few, mix, probabilities[kind])
        elif more <= missing:
            _write_page(kinds, kind, many, mix, probabilities[kind])
        else:
            wanted = few.clicks[kind] + missing / shares[kind]
            probabilities[kind] = solve_afresh(value[kind], clicks[kind], n_slots, wanted)[0]
        missing -= max(0.0, more)
    average_value = average_clicks = 0.0
    for kind in range(n_kinds):
        average_value += shares[kind] * np.sum(probabilities[kind] * value[kind])
        average_clicks += shares[kind] * np.sum(probabilities[kind] * clicks[kind])
    return probabilities, price, status, average_value, average_clicks
