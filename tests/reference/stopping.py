"""The stopping problem of one link, solved exactly over all its clicks and sales: slow."""

from __future__ import annotations

from functools import cache

import numpy as np


def stopping_value(
    click_rate: np.ndarray, revenue_per_click: np.ndarray, price: float, horizon: int, theta: float
) -> float:
    """Return what a link of unknown type brings until it is stopped, paying theta a view."""
    worth = click_rate * (revenue_per_click + price)

    @cache
    def value(n_views: int, clicks: int, sales: int) -> float:
        if n_views == horizon:
            return 0.0
        weight = (
            click_rate**clicks
            * (1 - click_rate) ** (n_views - clicks)
            * revenue_per_click**sales
            * (1 - revenue_per_click) ** (clicks - sales)
        )
        weight = weight / weight.sum()
        click, sale = float(weight @ click_rate), float(weight @ (click_rate * revenue_per_click))
        later = (
            (1 - click) * value(n_views + 1, clicks, sales)
            + (click - sale) * value(n_views + 1, clicks + 1, sales)
            + sale * value(n_views + 1, clicks + 1, sales + 1)
        )
        return max(0.0, float(weight @ worth) - theta + later)

    return value(0, 0, 0)
