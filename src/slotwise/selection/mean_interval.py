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
from typing import Any

import numpy as np

from slotwise.arrays import Floats

FAILURE_PROBABILITY = 0.05
MOST_LOST = 0.9
"""The share of its capital that the largest bet may lose on one page."""
N_BETS = 20
"""Bets: the largest one, half of it, a quarter of it and so on."""
LARGEST_WEIGHT = 0.2
"""The weight of the largest bet in the average; the others share the rest. While there are few
pages, the bound is that of the largest bet alone, so its weight decides how wide it is then."""
LARGEST_BET = 128.0
"""No bet is larger than this, in units of one over the largest value."""

_HALVES: Floats = 0.5 ** np.arange(N_BETS, dtype=np.float64)
_LOG_WEIGHTS: Floats = np.log(
    [LARGEST_WEIGHT] + [(1.0 - LARGEST_WEIGHT) / (N_BETS - 1)] * (N_BETS - 1)
)
_LOST = np.maximum(MOST_LOST * _HALVES, 1e-4)  # the limit of k at 0 is 1/2; below, digits are lost
_PARABOLA: Floats = (-np.log1p(-_LOST) - _LOST) / (_LOST * _LOST)


def largest_total(evidence: Floats, bets: Floats, alpha: Any) -> Any:
    """Return the m at which the sum of exp(evidence - bet m) falls to 1/alpha.

    The sum is along the last axis; there may be an alpha for each entry of the others. A convex
    function of m that falls: Newton's method from the left never overshoots, so that what is
    returned errs on the safe side.
    """
    target = -np.log(alpha)
    total = ((evidence - target[..., None]) / bets).max(axis=-1)
    for _ in range(60):  # no exponent is above the target, so that no sum overflows
        parts = np.exp(evidence - bets * total[..., None])
        sums = np.add.reduce(parts, -1)
        excess = np.log(sums) - target
        parts *= bets
        total += excess * sums / np.add.reduce(parts, -1)
        if excess.max() <= 1e-6:
            break
    return total


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
    sums = np.array(n_pages), np.array(total), np.array(squares)
    low, high = mean_intervals(*sums, most, centre=centre, failure_probability=failure_probability)
    return float(low), float(high)


def mean_intervals(
    n_pages: Floats,
    totals: Floats,
    squares: Floats,
    most: float,
    *,
    centre: float = 0.0,
    failure_probability: float = FAILURE_PROBABILITY,
) -> tuple[Floats, Floats]:
    """Return the ends of many intervals, each like those of `mean_interval`, of a page or more."""
    alpha = failure_probability / 2.0
    above = totals - n_pages * centre
    spread = np.maximum(squares - 2.0 * centre * totals + n_pages * centre * centre, 0.0)
    reach = np.full_like(above, centre), np.full_like(above, most - centre)
    low = centre + least_sums(above, spread, reach[0], most, alpha) / n_pages
    high = centre - least_sums(-above, spread, reach[1], most, alpha) / n_pages
    return np.maximum(low, 0.0), np.minimum(high, np.maximum(most, totals / n_pages))


def least_sum(above: float, spread: float, reach: float, most: float, alpha: float) -> float:
    """Return a lower bound for the sum of the expected X - c, where no X - c is below `-reach`.

    `above` is the sum of X - c and `spread` that of its squares; `most` only scales the bets. The
    bound ever misses with a probability of at most `alpha`.
    """
    return float(least_sums(np.array(above), np.array(spread), np.array(reach), most, alpha))


def least_sums(above: Floats, spread: Floats, reach: Floats, most: float, alpha: object) -> Floats:
    """Return the bound of `least_sum` for each entry; it misses with its `alpha`."""
    largest = MOST_LOST / np.maximum(reach, MOST_LOST * most / LARGEST_BET)
    bets = largest[..., None] * _HALVES
    evidence = bets * (above[..., None] - _PARABOLA * bets * spread[..., None]) + _LOG_WEIGHTS
    bounds: Floats = largest_total(evidence, bets, alpha)
    return bounds
