"""Safe-Con-UCB: optimistic about revenue, pessimistic about clicks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slotwise.policies.checks import check_failure_probability, check_horizon, require_horizon
from slotwise.policies.floors.floor_on_bounds import BoundsPolicy, BoundsState
from slotwise.problem import Problem

__all__ = ["SafeConUCB"]


@dataclass(frozen=True)
class SafeConUCB(BoundsPolicy):
    """Safe-Con-UCB: optimistic revenue, pessimistic clicks.

        U, Lower = KL bounds at B = ln(4 n_levels K T / delta)
        x = floor program on (U of revenue, Lower of clicks, floor)
        where that is infeasible:  floor program on (U of revenue, U of clicks, floor)

    With probability 1 - delta every page chosen by the first program keeps the floor in
    expectation. Until enough is known for that, it learns about clicks as KL-Con-UCB does.
    (Taking the links with the largest lower bounds instead would show the few links that are
    known, learn about no others and stay there.)

    Use it where falling short is worse than earning less: it always keeps more clicks than asked
    for and pays for them with revenue. `deficit_feedback` makes up for clicks missed in the
    beginning. It has no memory setting: where rates drift a lower bound is not safe.

    >>> from slotwise.policies import NOBODY, NO_SLOTS
    >>> import numpy as np
    >>> from slotwise.problem import Problem
    >>> policy = SafeConUCB(horizon=1000)
    >>> state = policy.start(Problem(n_links=4, n_slots=2, click_floor=0.5))
    >>> SafeConUCB.learn(state, NOBODY, 0, np.array([2]), NO_SLOTS,
    ...                  np.ones(1), np.full(1, 90.0), np.full(1, 60.0))
    >>> state.careful.clicks.round(3).tolist(), state.program.clicks.round(3).tolist()
    ([0.0, 0.0, 0.381, 0.0], [1.0, 1.0, 0.885, 1.0])
    """

    horizon: int | None = None
    failure_probability: float = 0.01
    deficit_feedback: bool = False

    name: ClassVar[str] = "safe-con-ucb"
    is_careful: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_failure_probability(self.failure_probability)
        check_horizon(self.horizon)

    def start(self, problem: Problem) -> BoundsState:
        """Return the state in which every bound is what no observation allows."""
        return self.start_on_bounds(problem, require_horizon(self.name, self.horizon, problem))
