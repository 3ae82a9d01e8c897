"""Slot weights: how much more often a link is clicked in one slot than in another.

    P(click on link i in slot l) = weight_l * rate_i,   weights with mean 1

so that rates and floors keep their meaning.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slotwise.errors import InvalidInput
from slotwise.problem import is_finite_number

__all__ = ["check_slot_weights"]


def check_slot_weights(weights: Sequence[float] | None) -> tuple[float, ...]:
    """Return weights with mean 1; nothing where all slots are alike.

    >>> check_slot_weights([3.0, 1.0])
    (1.5, 0.5)
    """
    if weights is None:
        return ()
    rule = "positive finite numbers, one a slot"
    if isinstance(weights, str) or not len(weights):
        raise InvalidInput.of("slot_weights", rule, weights)
    if not all(is_finite_number(weight) and weight > 0 for weight in weights):
        raise InvalidInput.of("slot_weights", rule, weights)
    array = np.array(weights, dtype=np.float64)
    scaled: tuple[float, ...] = tuple((array / array.mean()).tolist())
    return scaled
