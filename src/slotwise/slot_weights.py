"""Slot weights: how much more often a link is clicked in one slot than in another.

    P(click on link i in slot l) = weight_l * rate_i,   weights with mean 1

so that rates and floors keep their meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from slotwise.errors import InvalidInput

__all__ = ["LEARN", "asked_slot_weights", "check_slot_weights"]

LEARN = "learn"
"""Asks for weights that are learned while pages are shown."""


def check_slot_weights(weights: Sequence[float] | None) -> tuple[float, ...]:
    """Return weights with mean 1; nothing where all slots are alike.

    >>> check_slot_weights([3.0, 1.0])
    (1.5, 0.5)
    """
    if weights is None:
        return ()
    rule = "positive finite numbers, one a slot"
    try:
        array = np.asarray(weights)
    except ValueError:
        raise InvalidInput.of("slot_weights", rule, weights) from None
    if array.dtype.kind not in "iuf" or array.ndim != 1 or not len(array):
        raise InvalidInput.of("slot_weights", rule, weights)
    if not (np.isfinite(array) & (array > 0)).all():
        raise InvalidInput.of("slot_weights", rule, weights)
    scaled: tuple[float, ...] = tuple((array / array.mean()).tolist())
    return scaled


def asked_slot_weights(weights: Any, n_slots: int) -> tuple[float, ...] | str:
    """Return "learn", weights with mean 1 for a page of `n_slots`, or () where slots are alike.

    One slot is alike, and so are slots of equal weights.

    >>> asked_slot_weights([2, 1, 1], 3), asked_slot_weights([1, 1], 2)
    ((1.5, 0.75, 0.75), ())
    """
    if isinstance(weights, str):
        if weights != LEARN:
            raise InvalidInput.of("slot_weights", f"{LEARN!r}, None or one number a slot", weights)
        return LEARN if n_slots > 1 else ()
    if weights is None or (isinstance(weights, tuple) and not weights):
        return ()
    checked = check_slot_weights(weights)
    if len(checked) != n_slots:
        raise InvalidInput.of("slot_weights", f"one number for each of {n_slots} slots", weights)
    return checked if max(checked) > min(checked) else ()
