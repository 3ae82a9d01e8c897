"""The width of a policy's bounds: fixed where the horizon is known, else growing with time.

    B = ln t + 3 ln ln t,   ln t rounded up in steps of 0.1

Steps, so that bounds follow from the rounds alone and are widened seldom.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from slotwise.policies.contract import Floats
from slotwise.selection.compiled import hot

__all__ = ["Width", "fixed_width", "growing_width", "widen"]

GROWTH = 0.1
"""By how much ln t grows before all bounds are widened."""


class Width(NamedTuple):
    """The width now and the round in which it grows next.

    `longest_time` caps the time that makes it grow, zero where the width is fixed.
    """

    longest_time: float
    now: Floats
    next_wider: Floats


def fixed_width(width: float) -> Width:
    """Return a width that never grows."""
    return Width(0.0, np.array([width]), np.full(1, np.inf))


def growing_width(memory: int | None) -> Width:
    """Return the width of the first round; t stops growing at the memory."""
    width = Width(float(memory or math.inf), np.zeros(1), np.zeros(1))
    widen(width, 0.0)
    return width


@hot
def widen(width: Width, n_rounds: float) -> bool:
    """Let the width grow with the rounds settled; say whether it did."""
    if n_rounds < width.next_wider[0] or width.longest_time == 0.0:
        return False
    time = min(1.0 + n_rounds, width.longest_time)
    log_time = GROWTH * (1.0 + math.floor(math.log(time) / GROWTH))
    width.now[0] = log_time + 3.0 * math.log(max(1.0, log_time))
    width.next_wider[0] = math.exp(log_time) - 1.0
    if time >= width.longest_time:
        width.next_wider[0] = np.inf
    return True
