"""The optimum of a data set with and without its floor, and the largest number of clicks."""

from __future__ import annotations

from dataclasses import dataclass

from slotwise.environments.datasets.dataset import Dataset
from slotwise.selection import solve

__all__ = ["Outlook", "look_ahead"]


@dataclass(frozen=True)
class Outlook:
    """Expected revenue and clicks per page view of the best fixed mixes of a data set.

    If the floor is infeasible, `revenue` and `clicks` are those of the most clicked page, and
    the shadow price is infinite.
    """

    floor: str
    """The status of the floor: "slack", "binding" or "infeasible"."""
    revenue: float
    clicks: float
    shadow_price: float
    revenue_without_floor: float
    clicks_without_floor: float
    most_clicks: float


def look_ahead(dataset: Dataset) -> Outlook:
    """Solve the floor program on the true rates of `dataset`.

    >>> from slotwise.environments.datasets import load_dataset
    >>> outlook = look_ahead(load_dataset("ads-like-binding"))
    >>> outlook.floor, round(outlook.revenue, 3), round(outlook.revenue_without_floor, 3)
    ('binding', 3.765, 3.871)
    """
    value, clicks = dataset.revenue_rate, dataset.click_rate
    free = solve(value, clicks, dataset.n_slots, 0.0)
    best = solve(value, clicks, dataset.n_slots, dataset.click_floor)
    return Outlook(
        floor=best.status,
        revenue=best.value,
        clicks=best.clicks,
        shadow_price=best.shadow_price,
        revenue_without_floor=free.value,
        clicks_without_floor=free.clicks,
        most_clicks=dataset.most_clicks,
    )
