"""What a caller asks of one page: links that must be on it and links that must not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.errors import InvalidInput
from slotwise.selector.pool import Pool

__all__ = ["Restrictions", "checked_restrictions"]


class Restrictions(NamedTuple):
    """Pinned places of the pool, and the free ones that the policy fills the other slots from."""

    pinned: NDArray[np.int64]
    is_free: NDArray[np.bool_]
    n_left: int
    """Slots that the pinned links leave."""


def checked_restrictions(
    pool: Pool, n_slots: int, pinned: NDArray[np.int64], excluded: NDArray[np.int64]
) -> Restrictions:
    """Return the restrictions, or raise what is wrong with them."""
    if len(pinned) > n_slots:
        raise InvalidInput.of("pin", f"at most {n_slots} links, one a slot", len(pinned))
    both = np.intersect1d(pinned, excluded)
    if len(both):
        raise InvalidInput.of("pin", "links that are not excluded", pool.links[both[0]])
    if len(pool) - len(excluded) < n_slots:
        rule = f"few enough links to leave {n_slots} for the page"
        raise InvalidInput.of("exclude", rule, len(excluded))
    is_free = np.ones(len(pool), bool)
    is_free[pinned] = False
    is_free[excluded] = False
    return Restrictions(pinned, is_free, n_slots - len(pinned))
