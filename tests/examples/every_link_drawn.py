"""A twin of Queue-TS that draws every link."""

from __future__ import annotations

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
