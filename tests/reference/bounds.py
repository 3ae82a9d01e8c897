"""Confidence bounds the slow way: halve the interval until nothing is left of it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln

Floats = NDArray[np.float64]


def _last_allowed(mean: float, allowed: Callable[[float], bool]) -> float:
    """Return the largest rate from `mean` up that is allowed."""
    low, high = mean, 1.0
    if allowed(math.nextafter(high, 0.0)):
        return high  # no float lies between
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if allowed(middle) else (low, middle)
    return low


def _part(p: float, q: float) -> float:
    return 0.0 if p == 0 else math.inf if q == 0 else p * math.log(p / q)


def kl_bound(total: float, n: float, width: float) -> float:
    """Return max { q >= m : n kl(m, q) <= width }."""
    if n == 0:
        return 1.0
    m = min(1.0, total / n)
    return _last_allowed(m, lambda q: n * (_part(m, q) + _part(1 - m, 1 - q)) <= width)


def kl_lower_bound(total: float, n: float, width: float) -> float:
    """Return min { q <= m : n kl(m, q) <= width }."""
    return 1.0 - kl_bound(n - total, n, width)


def log_mixture(total: float, n: float, q: float) -> float:
    """Return ln M(q), the mixture of likelihood ratios against the rate q."""
    misses = n - total
    log_likelihood = total * math.log(q) if total > 0 else 0.0
    log_likelihood += misses * math.log1p(-q) if misses > 0 else 0.0
    return float(betaln(total + 0.5, misses + 0.5)) - math.log(math.pi) - log_likelihood


def anytime_bound(total: float, n: float, width: float) -> float:
    """Return max { q >= s/n : ln M(q) <= width }."""
    if n == 0:
        return 1.0
    return _last_allowed(total / n, lambda q: q == 0.0 or log_mixture(total, n, q) <= width)
