"""Copies of what a policy has learned, so that a `learn` that raises leaves nothing behind.

The `learn` of slotwise's own policies cannot raise: feedback is checked before it is learned. One
of another package may, at the second level of a page or halfway through a batch.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from slotwise.policies.policy import Policy

__all__ = ["copied_state", "may_raise"]


def may_raise(policy: type[Policy]) -> bool:
    """Say whether the `learn` of a policy comes from another package."""
    learn: Any = policy.learn
    module: str = getattr(learn, "py_func", learn).__module__
    return module.partition(".")[0] != "slotwise"


def copied_state(state: Any) -> Any:
    """Return a state that equals another one and shares no array with it."""
    if isinstance(state, np.ndarray):
        return state.copy()
    if isinstance(state, tuple):
        parts = [copied_state(part) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
    return copy.deepcopy(state)
