"""A twin of Queue-TS that draws every link, and one of the paced queue."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def draw_rates(
    views: Floats, clicks: Floats, revenue: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return a draw of click and revenue rates of all links under uniform priors."""
    a = rng.beta(1 + clicks, 1 + views - clicks)
    return a, a * rng.beta(1 + revenue, 1 + clicks - revenue)


def queue_ts_page(clicks: Floats, revenue: Floats, L: int, price: float) -> Floats:
    """Return the page of Queue-TS for a draw, with `price` standing for Q / V."""
    page = np.zeros(len(clicks))
    page[np.argsort(revenue + price * clicks)[-L:]] = 1.0
    return page


class Queue:
    """The paced queue of one floor."""

    def __init__(self, floor: float, patience: float) -> None:
        self.floor, self.patience = floor, patience
        self.Q = self.owed = 0.0
        self.t = 0

    def price(self) -> float:
        return self.Q / (self.patience * math.sqrt(self.floor * (self.t + 1)))

    def learn(self, brought: float) -> None:
        missing = self.floor - brought
        self.t += 1
        self.owed += missing
        growth = min(0.5, 0.5 / self.t) * max(0.0, self.Q - max(0.0, self.owed))
        if self.owed > 0:
            growth += 0.25 * math.sqrt(self.floor / self.t)
        self.Q = max(0.0, self.Q + missing + growth)
