"""KL-Con-UCB: Con-UCB's program on Kullback-Leibler bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slotwise.policies.checks import check_failure_probability, check_horizon, require_horizon
from slotwise.policies.floors.floor_on_bounds import BoundsPolicy, BoundsState
from slotwise.policies.knowledge.evidence import check_memory
from slotwise.problem import Problem

__all__ = ["KLConUCB"]


@dataclass(frozen=True)
class KLConUCB(BoundsPolicy):
    """KL-Con-UCB: Con-UCB's plan on Kullback-Leibler bounds.

        U(sum, n) = max { q >= m : n kl(m, q) <= B },   m = sum / n
        B = ln(4 n_levels K T / delta)
        x = floor program on (U of revenue, U of clicks, floor)

    For outcomes in [0, 1] all bounds hold together with probability 1 - delta, so the guarantee
    is the paper's: regret and shortfall grow as sqrt(K L T). The bounds are far tighter: their
    square-root term is 12 times and their 1/n term 72 times smaller than the printed one's.

    Use it where a guarantee for all links at once is wanted and the number of page views is
    known. It is optimistic about clicks, so the floor is missed while it explores;
    `deficit_feedback` asks for more clicks while some are missing. `memory`, in rounds, lets
    counts fade where rates drift; then the bounds guarantee nothing about a rate that moves.

    >>> from slotwise.policies import NOBODY, NO_SLOTS
    >>> import numpy as np
    >>> from slotwise.problem import Problem
    >>> policy = KLConUCB(horizon=1000)
    >>> state = policy.start(Problem(n_links=4, n_slots=2, click_floor=0.5))
    >>> KLConUCB.learn(state, NOBODY, 0, np.array([2]), NO_SLOTS,
    ...                np.ones(1), np.full(1, 50.0), np.zeros(1))
    >>> state.program.clicks.round(3).tolist()          # 1 - (4 * 2 * 4 * 1000 / 0.01)^(-1/50)
    [1.0, 1.0, 0.259, 1.0]
    """

    horizon: int | None = None
    failure_probability: float = 0.01
    deficit_feedback: bool = False
    memory: int | None = None

    name: ClassVar[str] = "kl-con-ucb"

    def __post_init__(self) -> None:
        check_failure_probability(self.failure_probability)
        check_horizon(self.horizon)
        check_memory(self.memory)

    def start(self, problem: Problem) -> BoundsState:
        """Return the state in which every bound is 1, since nothing was observed."""
        return self.start_on_bounds(problem, require_horizon(self.name, self.horizon, problem))
