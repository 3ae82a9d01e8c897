"""Anytime-Con-UCB: the floor program on bounds that hold at every time, without a horizon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slotwise.policies.checks import check_failure_probability
from slotwise.policies.floors.floor_on_bounds import BoundsPolicy, BoundsState
from slotwise.problem import Problem

__all__ = ["AnytimeConUCB"]


@dataclass(frozen=True)
class AnytimeConUCB(BoundsPolicy):
    """Anytime-Con-UCB: Con-UCB's plan on confidence sequences, for a page without an end date.

        ln M(q) = ln Beta(s+1/2, n-s+1/2) - ln Beta(1/2, 1/2) - s ln q - (n-s) ln(1-q)
        U(s, n) = max { q >= s/n : ln M(q) <= ln(4 n_levels K / delta) }
        x = floor program on (U of revenue, U of clicks, floor)

    With probability 1 - delta every bound of every link holds at all times at once, however
    long the page is in use; regret and shortfall grow as sqrt(K L T ln T). Without T the width
    has about ln(n) / 2 in place of ln(T), which is less for links seldom shown.

    Use it where a guarantee for all links is wanted and the number of page views is not known.
    `deficit_feedback` asks for more clicks while some are missing. It has no memory setting: a
    confidence sequence is about one rate that stays, not about one that drifts.

    >>> from slotwise.policies import NOBODY, NO_SLOTS
    >>> import numpy as np
    >>> from slotwise.problem import Problem
    >>> policy = AnytimeConUCB()
    >>> state = policy.start(Problem(n_links=4, n_slots=2, click_floor=0.5))
    >>> AnytimeConUCB.learn(state, NOBODY, 0, np.array([2]), NO_SLOTS,
    ...                     np.ones(1), np.full(1, 50.0), np.zeros(1))
    >>> state.program.clicks.round(3).tolist()
    [1.0, 1.0, 0.191, 1.0]
    """

    failure_probability: float = 0.01
    deficit_feedback: bool = False

    name: ClassVar[str] = "anytime-con-ucb"

    def __post_init__(self) -> None:
        check_failure_probability(self.failure_probability)

    def start(self, problem: Problem) -> BoundsState:
        """Return the state in which every bound is 1, since nothing was observed."""
        return self.start_on_bounds(problem, horizon=None)
