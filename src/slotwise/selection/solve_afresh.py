"""The floor program solved once, from nothing: arrays in, probabilities and numbers out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.selection.compiled import compiled, inner
from slotwise.selection.mix import N_OPEN, N_SURE, Mix
from slotwise.selection.page_search.page_scratch import SCRATCH_NUMBERS, SCRATCH_SIZES, Search
from slotwise.selection.price_search import BINDING, INFEASIBLE, floor_slackness, search_price
from slotwise.selection.share_slots import share_slots
from slotwise.selection.top_page import sampled_cut
from slotwise.selection.vectors.score_passes import WORD

__all__ = ["INVALID_RATES", "SHORTLIST_POOL", "solve_into"]

Answer = tuple[float, int, float, float]
"""Price, status, value and clicks."""

INVALID_RATES = -1
"""The status of a program in which a rate is not in [0, 1]."""

SHORTLIST_POOL = 2_000
"""From this many links on, a shortlist saves more than it costs."""

FIRST_STEP = 0.6
"""How far the price may be off the ratio of the largest value to the most clicks, as a share."""


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
    if 8 * n_slots > n_links:
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


@inner
def _are_valid(value: NDArray[np.float64], clicks: NDArray[np.float64]) -> bool:
    are_valid = True
    for i in range(len(value)):
        are_valid &= (value[i] >= 0.0) & (value[i] <= 1.0)
        are_valid &= (clicks[i] >= 0.0) & (clicks[i] <= 1.0)
    return are_valid


@inner
def _ratio_of_largest(value: NDArray[np.float64], clicks: NDArray[np.float64]) -> float:
    """Return the largest value over the most clicks: prices are of that order, in any units."""
    most_value = most_clicks = 0.0
    for i in range(len(value)):
        most_value = max(most_value, value[i])
        most_clicks = max(most_clicks, clicks[i])
    return most_value / most_clicks if most_clicks > 0.0 else 0.0


@inner
def _has_one_number(clicks: NDArray[np.float64], mix: Mix) -> bool:
    """Say whether all best pages at a price have the same number of clicks.

    A page that has exactly the clicks of the floor is the best one over a range of prices. A guess
    may fall anywhere into it; the search from nothing tells whether the floor costs anything.
    """
    fewest, most = np.inf, 0.0
    for k in range(mix.sizes[N_OPEN]):
        fewest = min(fewest, clicks[mix.open[k]])
        most = max(most, clicks[mix.open[k]])
    return most <= fewest


@compiled
def _new_scratch(
    integers: NDArray[np.int64], numbers: NDArray[np.float64], n_links: int
) -> tuple[Search, Mix]:
    """Return scratch whose arrays are rows of two tables: each allocation would cost 40 ns."""
    n_padded = integers.shape[1]
    listed_value, listed_clicks = numbers[0], numbers[1]
    listed_value[n_links:n_padded] = 0.0
    listed_clicks[n_links:n_padded] = 0.0
    links, sizes, of_mix, last = integers[0], integers[1], integers[2], numbers[2]
    for link in range(n_links):
        links[link] = link
    sizes[:SCRATCH_SIZES] = 0
    of_mix[:4] = 0
    last[:SCRATCH_NUMBERS] = 0.0
    search = Search(
        integers[3],
        numbers[3],
        numbers[4],
        integers[4],
        links,
        integers[5],
        listed_value,
        listed_clicks,
        numbers[5],
        sizes,
        last,
    )
    nobody = integers[6]  # ties are shared among the open ones
    return search, Mix(integers[7], integers[8], numbers[6], nobody, nobody, last, of_mix)


@compiled
def solve_into(
    value: NDArray[np.float64],
    clicks: NDArray[np.float64],
    n_slots: int,
    floor: float,
    probabilities: NDArray[np.float64],
) -> Answer:
    """Write the best probabilities into an array of zeros; return the rest of the answer.

    Rates are checked here, all else by the caller.
    """
    n_links = len(value)
    if not _are_valid(value, clicks):
        return 0.0, INVALID_RATES, 0.0, 0.0
    n_padded = n_links + WORD
    integers, numbers = np.empty((9, n_padded), np.int64), np.empty((7, n_padded))
    search, mix = _new_scratch(integers, numbers, n_links)
    if n_links >= SHORTLIST_POOL:
        shortlist = np.empty((2, n_links))
        guess = _price_of_shortlist(value, clicks, n_slots, floor, search, shortlist)
        step = 1e-3 * guess
    else:
        guess = _ratio_of_largest(value, clicks)
        step = FIRST_STEP * guess
    slackness = floor_slackness(floor)
    price = search_price(value, clicks, n_links, n_slots, floor, slackness, guess, step, search)
    share_slots(clicks, search.links, n_slots, floor, price, search, mix)
    if n_links < SHORTLIST_POOL and price.status == BINDING and _has_one_number(clicks, mix):
        mix.sizes[:4] = 0
        price = search_price(value, clicks, n_links, n_slots, floor, slackness, 0.0, 0.0, search)
        share_slots(clicks, search.links, n_slots, floor, price, search, mix)
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
    return shadow_price, price.status, page_value, page_clicks
