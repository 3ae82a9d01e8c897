"""The floor program over segments of visitors: one price for all, a mix for each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.selection import Solution, solve

__all__ = ["best_segment_mix"]

Floats = NDArray[np.float64]
N_HALVINGS = 100


def best_segment_mix(
    rates: Floats, shares: Floats, n_slots: int, floor: float
) -> tuple[Floats, Solution]:
    """Return the best mix of each segment under a floor on the clicks of the average page.

        maximise sum_m w_m g_m x_m  subject to  sum_m w_m a_m x_m >= floor,  sum_i x_im = n_slots

    `rates` are clicks a and revenue g by segment and link, `shares` in proportion to w. One price
    p serves all segments: x_m takes the top links by g_m + p a_m. The price is found by halving;
    at the price where clicks pass the floor the pages on both sides of it are mixed.
    """
    clicks, revenue = rates
    n_links = clicks.shape[1]
    n_slots = min(n_slots, n_links)
    if len(clicks) == 1:
        solution = solve(revenue[0], clicks[0], n_slots, floor)
        return solution.probabilities[None, :], solution
    weights = shares / max(float(shares.sum()), 1.0)

    def page(value_weight: float, click_weight: float) -> tuple[Floats, float]:
        # the other level breaks ties, by too little to matter otherwise
        scores = value_weight * revenue + click_weight * clicks + 1e-12 * (revenue + clicks)
        table = np.zeros_like(clicks)
        top = np.argpartition(-scores, n_slots - 1, axis=1)[:, :n_slots]
        np.put_along_axis(table, top, 1.0, axis=1)
        return table, float(weights @ (table * clicks).sum(axis=1))

    def answer(table: Floats, price: float, status: str) -> tuple[Floats, Solution]:
        value = float(weights @ (table * revenue).sum(axis=1))
        brought = float(weights @ (table * clicks).sum(axis=1))
        return table, Solution(weights @ table, price, status, value, brought)

    few, few_clicks = page(1.0, 0.0)
    if few_clicks >= floor:
        return answer(few, 0.0, "slack")
    many, many_clicks = page(0.0, 1.0)
    if many_clicks < floor:
        return answer(many, float("inf"), "infeasible")
    low, high = 0.0, 1.0  # the price is share / (1 - share), so that none is out of reach
    for _ in range(N_HALVINGS):
        middle = (low + high) / 2
        table, brought = page(1.0 - middle, middle)
        if brought >= floor:
            high, many, many_clicks = middle, table, brought
        else:
            low, few, few_clicks = middle, table, brought
    part = (floor - few_clicks) / (many_clicks - few_clicks) if many_clicks > few_clicks else 1.0
    price = high / (1.0 - high) if high < 1.0 else float("inf")
    return answer(part * many + (1.0 - part) * few, price, "binding")
