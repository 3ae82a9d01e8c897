"""An estimated rate with its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

from slotwise.selection.confidence import kl_lower, kl_upper

__all__ = ["Rate", "rate_of"]


@dataclass(frozen=True)
class Rate:
    """An estimated rate per view, 0 before any view, with a 95 % interval around it.

    The interval covers the true rate at least that often for a number of views that was fixed
    beforehand; it makes no promise for the moment somebody picks because of what it shows.
    """

    estimate: float
    low: float
    high: float


def rate_of(total: float, n_views: float, scale: float = 1.0) -> Rate:
    """Return a rate with its 95 % Chernoff interval, valid for any outcomes in [0, 1].

    >>> rate_of(0.0, 0.0)
    Rate(estimate=0.0, low=0.0, high=1.0)
    """
    if n_views <= 0:
        return Rate(0.0, 0.0, scale)
    width = math.log(2 / 0.05)
    mean = min(1.0, total / n_views)
    low = min(mean, kl_lower(total, n_views, width))
    high = max(mean, kl_upper(total, n_views, width))
    return Rate(float(mean * scale), float(low * scale), float(high * scale))
