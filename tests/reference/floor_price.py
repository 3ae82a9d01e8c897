"""The price of a click floor, the slow way, and the price that visitors' pages need."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np


class PriceTwin:
    """What is owed to a click floor, with a reserve, and its price in mean revenue per click."""

    def __init__(self, floor: float, patience: float) -> None:
        self.floor, self.patience = floor, patience
        self.owed = self.reserve = 0.0
        self.expected = 20.0
        self.n_pages = 0

    def credit(self, n_clicks: float) -> None:
        """Record the clicks of a page."""
        self.n_pages += 1
        deviation = math.sqrt(self.floor * self.n_pages)
        step = 0.25 * math.sqrt(self.floor / self.n_pages)
        self.reserve = max(0.0, self.reserve + (step if self.owed > 0 else -step))
        most = 16 * math.sqrt(self.floor * (10_000 + self.n_pages))
        self.owed = min(self.owed + self.floor, max(self.owed, most))
        self.owed = max(self.owed - n_clicks, -4 * deviation)

    def price(self, between: float) -> float:
        """Return the price of a click; `between` says how the mean sales of links vary."""
        promised = self.floor * (self.n_pages + 1)
        correction = (self.owed + self.reserve) / (self.patience * math.sqrt(promised))
        steepness = max(1.0, math.sqrt(self.expected)) * math.sqrt(1.0 + between)
        return max(0.0, self.expected + steepness * correction)


def price_for_visitors(value: Any, clicks: Any, n_slots: int, floor: float, most: float) -> float:
    """Return the least price at which the best pages of all visitors keep the floor on average.

    Rows are visitors. The pages change only at prices where two links of a visitor tie.
    """

    def clicks_at(price: float) -> float:
        worth = value + price * clicks
        best = np.argsort(-worth, axis=1)[:, :n_slots]
        return float(np.take_along_axis(clicks, best, axis=1).sum(axis=1).mean())

    ties = {0.0, most}
    for i, j in combinations(range(value.shape[1]), 2):
        for more_value, more_clicks in zip(
            value[:, i] - value[:, j], clicks[:, j] - clicks[:, i], strict=True
        ):
            if more_clicks != 0 and 0 < more_value / more_clicks < most:
                ties.add(float(more_value / more_clicks))
    prices = sorted(ties)
    if clicks_at(most) < floor:
        return most
    low, high = 0, len(prices) - 1
    while low < high:  # the first price after which the pages keep the floor
        middle = (low + high) // 2
        if clicks_at(0.5 * (prices[middle] + prices[middle + 1])) >= floor:
            high = middle
        else:
            low = middle + 1
    return prices[low]
