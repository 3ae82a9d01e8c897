"""Confidence bounds: how high a rate may plausibly be, from (sum, count).

Every bound is a function of the sum of outcomes in [0, 1], the number of settled views and one
width parameter, so a policy picks one by name and the tests check each against its promise.
"""

from __future__ import annotations

import math

import numpy as np

from slotwise.selection.compiled import hot

__all__ = ["cucb_bonus", "paper_gamma", "paper_upper"]


def paper_gamma(
    n_links: int, horizon: int, failure_probability: float, n_levels: int = 2
) -> float:
    """Return the paper's confidence width for `n_levels` levels of feedback.

        gamma = 72 ln(4 n K T / delta)        (two levels: 72 ln(8 K T / delta))

    >>> round(paper_gamma(271, 50_000, 0.01))
    1669
    """
    return 72.0 * math.log(4 * n_levels * n_links * horizon / failure_probability)


@hot
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
