"""What a selector knows, for people to read."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slotwise.rounds import Link
from slotwise.selection.confidence import kl_lower, kl_upper

__all__ = ["LinkReport", "PageReport", "Rate", "Report", "rate_of"]


@dataclass(frozen=True)
class Rate:
    """An estimated rate per view with an interval that covers the truth with 95 % or more."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class LinkReport:
    """What is known of one link; revenue in the money of `max_revenue`, per view."""

    link: Link
    views: int
    clicks: float
    revenue: float
    click_rate: Rate
    revenue_rate: Rate
    probability: float


@dataclass(frozen=True)
class PageReport:
    """What the present mix is expected to do, and what the floor costs.

    `status` is that of the floor program on the present estimates: "slack", "binding" or
    "infeasible"; `shadow_price` is the revenue given up for one more click a page view.
    """

    expected_clicks: float
    expected_revenue: float
    click_floor: float
    status: str
    shadow_price: float
    most_clicks: float


@dataclass(frozen=True)
class Report:
    """Links in the order of the pool, the page, and what became of the feedback."""

    policy: str
    links: tuple[LinkReport, ...]
    page: PageReport
    n_pages: int
    n_open_pages: int
    n_forgotten_pages: int
    n_clipped: int


def rate_of(total: float, n_views: float, scale: float = 1.0) -> Rate:
    """Return a rate with its 95 % Chernoff interval, valid for any outcomes in [0, 1].

    >>> rate_of(0.0, 0.0)
    Rate(estimate=0.0, low=0.0, high=1.0)
    """
    width = math.log(2 / 0.05)
    mean = total / n_views if n_views else 0.0
    low = kl_lower(total, n_views, width) if n_views else 0.0
    return Rate(mean * scale, low * scale, kl_upper(total, n_views, width) * scale)


def means(sums: NDArray[np.float64], views: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sums over views, 0 where there are none."""
    return np.minimum(1.0, np.divide(sums, views, out=np.zeros_like(sums), where=views > 0))
