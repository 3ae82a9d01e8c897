"""The policy and the problem that the settings of a pool stand for."""

from __future__ import annotations

import numpy as np

from slotwise.policies import Policy, make_policy
from slotwise.problem import Problem
from slotwise.service.records import PoolSettings

__all__ = ["policy_of", "problem_of"]


def policy_of(pool: PoolSettings) -> Policy:
    """Return the policy that a pool asks for."""
    return make_policy(pool.policy, pool.policy_settings)


def problem_of(n_links: int, n_slots: int, click_floor: float) -> Problem:
    """Return the problem of a page; a floor no page can have becomes the highest one it can."""
    slots = min(n_slots, n_links)
    return Problem(
        n_links=n_links, n_slots=slots, click_floor=min(click_floor, float(np.nextafter(slots, 0)))
    )
