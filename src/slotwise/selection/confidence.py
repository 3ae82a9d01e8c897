"""Confidence bounds: how high a rate may plausibly be, from (sum, count).

Every bound is a function of the sum of outcomes in [0, 1], the number of settled views and one
width parameter, so a policy picks one by name and the tests check each against its promise.
"""

from __future__ import annotations

import math

import numpy as np

from slotwise.selection.compiled import hot, inlined

__all__ = ["cucb_bonus", "kl_lower", "kl_upper", "paper_gamma", "paper_upper"]


def paper_gamma(n_links: int, horizon: int, failure_probability: float, n_levels: int = 2) -> float:
    """Return the paper's confidence width for `n_levels` levels of feedback.

        gamma = 72 ln(4 n K T / delta)        (two levels: 72 ln(8 K T / delta))

    >>> round(paper_gamma(271, 50_000, 0.01))
    1664
    """
    return 72.0 * math.log(4 * n_levels * n_links * horizon / failure_probability)


@inlined
def paper_upper(total: float, n_views: float, gamma: float) -> float:
    """Return the upper bound of Con-UCB (the paper's equation for a-hat and g-hat).

        mean = total / (n + 1)                       (shrunk: n + 1, not n)
        R(m, n) = sqrt(gamma m / n) + gamma / n
        upper = min(1, mean + 2 R(mean, n + 1))

    >>> paper_upper(0.0, 0.0, 22.0)
    1.0
    >>> round(paper_upper(30.0, 399.0, 1.0), 4)
    0.1074
    """
    n = n_views + 1.0
    mean = total / n
    return min(1.0, mean + 2.0 * (math.sqrt(gamma * mean / n) + gamma / n))


@hot
def cucb_bonus(round_number: float) -> float:
    """Return c so that CUCB's bound of a link is mean + c / sqrt(n): c = sqrt(3 ln t / 2).

    >>> cucb_bonus(1.0)
    0.0
    """
    return np.sqrt(1.5 * math.log(round_number))


@hot
def _divergence(mean: float, rate: float) -> float:
    """Return kl(mean, rate) of two Bernoulli distributions; rate in (0, 1)."""
    part = 0.0
    if mean > 0.0:
        part += mean * math.log(mean / rate)
    if mean < 1.0:
        part += (1.0 - mean) * math.log((1.0 - mean) / (1.0 - rate))
    return part


@hot
def kl_upper(total: float, n_views: float, width: float) -> float:
    """Return the largest rate that the outcomes do not rule out, by Chernoff's bound.

        U = max { q >= m : n kl(m, q) <= width },   m = total / n

    For outcomes in [0, 1] it is exceeded by the true rate with probability at most e^-width.
    Nothing seen gives 1. Solved by Newton's steps from the right, which cannot overshoot, since
    kl is convex in q; bisection guards the first steps.

    >>> kl_upper(0.0, 0.0, 3.0)
    1.0
    >>> round(kl_upper(0.0, 100.0, 3.0), 6)        # 1 - e^(-3/100)
    0.029554
    """
    if n_views <= 0.0:
        return 1.0
    mean = min(1.0, max(0.0, total / n_views))
    level = width / n_views
    if mean >= 1.0:
        return 1.0
    if mean <= 0.0:
        return 1.0 - math.exp(-level)
    # kl(m, q) >= 2 (q - m)^2 and kl(m, q) >= (q - m)^2 / (2 q): both bound q from the right
    high = min(1.0, mean + math.sqrt(0.5 * level))
    high = min(high, mean + level + math.sqrt(level * (level + 2.0 * mean)))
    if high >= 1.0:
        high = 1.0 - 1e-16
        if _divergence(mean, high) <= level:
            return 1.0
    rate = high
    for _ in range(50):
        excess = _divergence(mean, rate) - level
        if excess <= 1e-14 * (1.0 + level):
            break
        slope = (rate - mean) / (rate * (1.0 - rate))
        moved = rate - excess / slope
        if rate - moved <= 1e-15 * rate:
            break
        rate = moved
    return min(1.0, max(mean, rate))


@hot
def kl_lower(total: float, n_views: float, width: float) -> float:
    """Return the smallest rate that the outcomes do not rule out: 1 - kl_upper of the misses.

    >>> kl_lower(0.0, 100.0, 3.0)
    0.0
    """
    return 1.0 - kl_upper(n_views - total, n_views, width)
