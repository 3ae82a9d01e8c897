"""What a caller asks of one page: links that must be on it and links that must not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.errors import InvalidInput
from slotwise.policies import Policy
from slotwise.policies.page_views import rest_of_page
from slotwise.problem import Problem
from slotwise.selector.link_pool import Pool

Floats = NDArray[np.float64]


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


def restricted_probabilities(
    asked: Restrictions,
    policy: Policy,
    state: Any,
    problem: Problem,
    rates: Floats,
    page_of: Callable[[Any, Problem], Floats],
) -> Floats:
    """Return the probabilities of all links: pinned ones 1, the rest as the policy fills it."""
    probabilities = np.zeros(len(asked.is_free))
    probabilities[asked.pinned] = 1.0
    if asked.n_left:
        probabilities[asked.is_free] = rest_of_page(
            policy,
            state,
            problem,
            free=np.flatnonzero(asked.is_free),
            n_slots=asked.n_left,
            pinned=asked.pinned,
            rates=rates,
            page_of=page_of,
        )
    return probabilities
