"""The floor program solved once, from nothing: arrays in, arrays and numbers out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.selection.compiled import compiled, inner
from slotwise.selection.mix import N_OPEN, N_SURE, Mix
from slotwise.selection.price_search import BINDING, INFEASIBLE, floor_slackness, search_price
from slotwise.selection.score_passes import WORD
from slotwise.selection.share_slots import share_slots
from slotwise.selection.top_page import SCRATCH_NUMBERS, SCRATCH_SIZES, Search, sampled_cut

__all__ = ["INVALID_RATES", "SHORTLIST_POOL", "solve_afresh", "solve_if_valid"]

Answer = tuple[NDArray[np.float64], float, int, float, float]
"""Probabilities, price, status, value and clicks."""

INVALID_RATES = -1
"""The status of a program in which a rate is not in [0, 1]."""

SHORTLIST_POOL = 2_000
"""From this many links on, a shortlist saves more than it costs."""


@inner
def _price_of_shortlist(
    value: NDArray[np.float64],
    clicks: NDArray[np.float64],
    n_slots: int,
    floor: float,
    search: Search,
    shortlist: NDArray[np.float64],
) -> float:
    """Return the price among the links that are good in value, in clicks or in their mean.

    Few links fill the pages at all prices, so their price is nearly always that of the pool;
    the search of the pool, which starts there, decides. Zero where there is nothing to gain.
    """
    n_links = len(value)
    if n_links < SHORTLIST_POOL or 8 * n_slots > n_links:
        return 0.0
    least_value = sampled_cut(value, clicks, n_links, n_slots, 1.0, 0.0, search)
    least_clicks = sampled_cut(value, clicks, n_links, n_slots, 0.0, 1.0, search)
    if least_value <= 0.0 or least_clicks <= 0.0:
        return 0.0
    ratio = least_value / least_clicks
    least_both = sampled_cut(value, clicks, n_links, n_slots, 1.0, ratio, search)
    short_value, short_clicks = shortlist[0], shortlist[1]
    n_short = 0
    for i in range(n_links):
        short_value[n_short] = value[i]
        short_clicks[n_short] = clicks[i]
        is_good = (value[i] >= least_value) | (clicks[i] >= least_clicks)
        n_short += is_good | (value[i] + ratio * clicks[i] >= least_both)
    if n_short < n_slots:
        return 0.0
    slackness = floor_slackness(floor)
    price = search_price(
        short_value, short_clicks, n_short, n_slots, floor, slackness, 0.0, 0.0, search
    )
    return price.click_weight if price.status == BINDING else 0.0


@compiled
def solve_if_valid(
    value: NDArray[np.float64], clicks: NDArray[np.float64], n_slots: int, floor: float
) -> Answer:
    """Solve like `solve_afresh`, or return the status INVALID_RATES."""
    is_valid = True
    for i in range(len(value)):
        is_valid &= (value[i] >= 0.0) & (value[i] <= 1.0)
        is_valid &= (clicks[i] >= 0.0) & (clicks[i] <= 1.0)
    if not is_valid:
        return np.zeros(0), 0.0, INVALID_RATES, 0.0, 0.0
    return solve_afresh(value, clicks, n_slots, floor)


@compiled
def solve_afresh(
    value: NDArray[np.float64], clicks: NDArray[np.float64], n_slots: int, floor: float
) -> Answer:
    """Return the best probabilities, their price, status, value and clicks."""
    n_links = len(value)
    links = np.arange(n_links)
    n_padded = n_links + WORD
    search = Search(
        np.empty(n_links, np.int64),
        np.empty(n_links),
        np.empty(n_links),
        np.empty(n_links, np.int64),
        links,
        np.empty(n_padded, np.int64),
        np.zeros(n_padded),
        np.zeros(n_padded),
        np.empty(n_padded),
        np.zeros(SCRATCH_SIZES, np.int64),
        np.zeros(SCRATCH_NUMBERS),
    )
    shortlist = np.empty((2, n_links))
    guess = _price_of_shortlist(value, clicks, n_slots, floor, search, shortlist)
    slackness, step = floor_slackness(floor), 1e-3 * guess
    price = search_price(value, clicks, n_links, n_slots, floor, slackness, guess, step, search)
    nothing = np.empty(0, np.int64)
    mix = Mix(
        np.empty(n_links, np.int64),
        np.empty(n_links, np.int64),
        np.empty(n_links),
        nothing,
        nothing,
        np.zeros(4, np.int64),
    )
    share_slots(clicks, links, n_slots, floor, price, search, mix)
    probabilities = np.zeros(n_links)
    page_value = 0.0
    page_clicks = 0.0
    for k in range(mix.sizes[N_SURE]):
        link = mix.sure[k]
        probabilities[link] = 1.0
        page_value += value[link]
        page_clicks += clicks[link]
    for k in range(mix.sizes[N_OPEN]):
        link = mix.open[k]
        probabilities[link] = mix.probabilities[k]
        page_value += mix.probabilities[k] * value[link]
        page_clicks += mix.probabilities[k] * clicks[link]
    shadow_price = np.inf if price.status == INFEASIBLE else price.click_weight
    return probabilities, shadow_price, price.status, page_value, page_clicks
