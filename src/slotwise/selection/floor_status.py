"""The status of a click floor, defined once for Selector and service.

Used by `selector` and `service`.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from slotwise.arrays import Floats
from slotwise.selection.mean_interval import mean_interval

KNOWN_SHARE = 0.1
"""Clicks are known when half of their interval is at most this share of the floor."""
SURE_ERRORS = 3.0
"""Standard errors by which the best page must miss the floor to be called infeasible."""


def floor_status(
    click_floor: float, interval: tuple[float, float], most_clicks: float
) -> Literal["met", "learning", "infeasible"]:
    """Return the status of a floor, given an interval of clicks per page view.

    - `infeasible`: `most_clicks`, the most that a page may get, are fewer than the floor
    - `met`: the interval is above the floor; or it contains the floor and is known to
      within 10 % of the floor
    - `learning`: everything else, so also clicks that are certainly below the floor

    A floor of 0 is met.

    >>> floor_status(0.3, (0.28, 0.31), most_clicks=0.5)
    'met'
    >>> floor_status(0.3, (0.1, 0.6), most_clicks=0.5)
    'learning'
    """
    low, high = interval
    if click_floor <= 0.0 or low >= click_floor:
        return "met"
    if most_clicks < click_floor:
        return "infeasible"
    is_known = high - low <= 2.0 * KNOWN_SHARE * click_floor
    return "met" if is_known and high >= click_floor else "learning"


def clicks_delivered(
    n_pages: float, clicks: float, squares: float, n_slots: int, click_floor: float
) -> tuple[float, float]:
    """Return the 95 % interval of clicks per page view; it holds at all times at once.

    `squares` sums up the squared clicks of each page.
    """
    most = float(n_slots)
    return mean_interval(n_pages, clicks, squares, most, centre=min(click_floor, most))


def click_estimates(views: Floats, clicks: Floats) -> tuple[Floats, Floats]:
    """Return the click rate of each link and its variance.

    A rate is the mean, shrunk towards the pool's mean by one view.

        mean_i = (clicks_i + pool mean) / (views_i + 1)
    """
    pooled = (clicks.sum() + 0.5) / (views.sum() + 1.0)
    rates = ((clicks + pooled) / (views + 1.0)).clip(0.0, 1.0)
    return rates, (rates * (1.0 - rates) + 0.25 / (views + 1.0)) / (views + 1.0)


def most_clicks(
    rates: Floats, variances: Floats, n_slots: int, page: Floats | None = None
) -> tuple[float, float]:
    """Return the clicks of the most clicked page, and their upper confidence bound.

    `page` has its probabilities where rules do not allow the links with most clicks.
    """
    if page is None:
        best = np.argsort(-rates, kind="stable")[:n_slots]
        rates, variances, page = rates[best], variances[best], np.ones(len(best))
    attainable = float(page @ rates)
    return attainable, attainable + SURE_ERRORS * math.sqrt(float(page**2 @ variances))
