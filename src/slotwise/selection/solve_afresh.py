"""The floor program solved once, from nothing: arrays in, arrays and numbers out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.selection.compiled import compiled
from slotwise.selection.mix import N_OPEN, N_SURE, Mix
from slotwise.selection.price_search import INFEASIBLE, floor_slackness, search_price
from slotwise.selection.share_slots import share_slots
from slotwise.selection.top_page import Search

__all__ = ["solve_afresh"]


@compiled
def solve_afresh(
    value: NDArray[np.float64], clicks: NDArray[np.float64], n_slots: int, floor: float
) -> tuple[NDArray[np.float64], float, int, float, float]:
    """Return the best probabilities, their price, status, value and clicks."""
    n_links = len(value)
    links = np.arange(n_links)
    search = Search(
        np.empty(n_links, np.int64),
        np.empty(n_links),
        np.empty(n_links),
        np.empty(n_links, np.int64),
        links,
        np.zeros(3, np.int64),
        np.zeros(4),
    )
    slackness = floor_slackness(floor)
    price = search_price(value, clicks, n_links, n_slots, floor, slackness, 0.0, 0.0, search)
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
        probabilities[link] = mix.chances[k]
        page_value += mix.chances[k] * value[link]
        page_clicks += mix.chances[k] * clicks[link]
    shadow_price = np.inf if price.status == INFEASIBLE else price.click_weight
    return probabilities, shadow_price, price.status, page_value, page_clicks
