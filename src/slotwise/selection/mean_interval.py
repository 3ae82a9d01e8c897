"""An interval for the mean of page values that holds at every number of pages at once.

It needs sums only: of the values X in [0, most] and of their squares. For a bet b and a centre c
that were fixed beforehand, with y = b (X - c) >= -z for some z < 1,

    ln(1 + y) >= y - k(z) y^2,     k(z) = (-ln(1 - z) - z) / z^2
    so   E exp(y - k(z) y^2) <= E (1 + y) = 1 + b (mu - c) <= exp(b (mu - c))

and the product of exp(y - k y^2) over exp(b (mu - c)) is a supermartingale that starts at 1. By
Ville's inequality it stays below 1/alpha for ever with probability 1 - alpha: a lower bound for
the mean of mu, which may change from page to page. Bets b < 0 give the upper bound. Many bets are
averaged, so that none has to be chosen in advance. It is the confidence sequence of
`slotwise.evaluation` with its logarithm bounded by a parabola, whose sums can be stored.

The interval is narrowest where c is near the mean; c = 0 costs little where most values are 0. Used
by `floor_status`, `promise`, `evaluation`, `selector`, `service` and `simulation`.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from slotwise.arrays import Floats

FAILURE_PROBABILITY = 0.05
MOST_LOST = 0.9
"""The share of its capital that a bet may lose on one page."""
FIRST, LAST = 10, -20
"""Bets are these powers of two, and those between, in units of one over the largest value."""


def largest_total(evidence: Floats, bets: Floats, alpha: float) -> float:
    """Return the m at which the sum of exp(evidence - bet m) falls to 1/alpha.

    A convex function of m that falls: Newton's method from the left never overshoots.
    """
    target = -math.log(alpha)
    total = float(((evidence - target) / bets).max())
    for _ in range(60):
        exponents = evidence - bets * total
        top = exponents.max()
        parts = np.exp(exponents - top)
        excess = top + np.log(parts.sum()) - target
        slope = float(bets @ parts / parts.sum())
        total += excess / slope
        if excess <= 1e-12 * max(1.0, abs(target)):
            break
    return float(total)


@functools.lru_cache(maxsize=4096)  # reports often use the same sums
def mean_interval(
    n_pages: float,
    total: float,
    squares: float,
    most: float,
    *,
    centre: float = 0.0,
    failure_probability: float = FAILURE_PROBABILITY,
) -> tuple[float, float]:
    """Return the ends of the interval; both together ever miss with `failure_probability`.

    `total` and `squares` sum up values in [0, `most`] of `n_pages` pages, or squares that are
    too large where the exact ones are not known.

    >>> mean_interval(0, 0.0, 0.0, 2.0)
    (0.0, 2.0)
    >>> low, high = mean_interval(1_000, 300.0, 340.0, 2.0, centre=0.3)
    >>> round(low, 2), round(high, 2)
    (0.24, 0.37)
    """
    if n_pages <= 0:
        return 0.0, most
    alpha = failure_probability / 2.0
    above = total - n_pages * centre
    spread = max(squares - 2.0 * centre * total + n_pages * centre * centre, 0.0)
    low = centre + least_sum(above, spread, centre, most, alpha) / n_pages
    high = centre - least_sum(-above, spread, most - centre, most, alpha) / n_pages
    return max(low, 0.0), min(high, max(most, total / n_pages))


def least_sum(above: float, spread: float, reach: float, most: float, alpha: float) -> float:
    """Return a lower bound for the sum of the expected X - c, where no X - c is below `-reach`.

    `above` is the sum of X - c and `spread` that of its squares; `most` only scales the bets. The
    bound ever misses with a probability of at most `alpha`.
    """
    bets: Floats = 2.0 ** np.arange(FIRST, LAST - 1, -1, dtype=np.float64) / most
    bets = bets[bets * reach < MOST_LOST]
    if reach > 0.0:  # the largest bet that is allowed
        bets = np.append(bets, min(MOST_LOST / reach, 2.0**60 / most))
    z = np.maximum(bets * reach, 1e-4)  # the limit of k at 0 is 1/2; below, digits are lost
    k = (-np.log1p(-z) - z) / (z * z)
    evidence = bets * above - k * bets * bets * spread - math.log(len(bets))
    return largest_total(evidence, bets, alpha)
