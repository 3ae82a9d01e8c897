"""Exp3.M, the baseline without stochastic assumptions. Found by the registry in `policies`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from slotwise.compile import hot
from slotwise.policies.exponential_weights import (
    Weights,
    WeightsPolicy,
    new_weights,
    new_weights_mix,
    raise_weight,
)
from slotwise.policies.policy import (
    Learn,
    LinkFeedback,
    Visitor,
    require_horizon,
    require_last_level_reward,
)
from slotwise.problem import Problem
from slotwise.selection.mix import Mix


class Exp3MRule(NamedTuple):
    """The settings as numbers; `step` is L gamma / K, `last_level` the one that is learned."""

    n_slots: int
    exploration: float
    step: float
    last_level: int


class Exp3MState(NamedTuple):
    """Weights, and the mix over all links."""

    rule: Exp3MRule
    weights: Weights
    mix: Mix


@hot
def learn(state: Exp3MState, visitor: Visitor, level: int, feedback: LinkFeedback) -> None:
    """Raise each weight by its revenue over its probability; capped links stay as they are."""
    links, _, probabilities, views, outcomes = feedback
    if level != state.rule.last_level:
        return
    for k in range(len(links)):
        if probabilities[k] < 1.0 and outcomes[k] > 0.0:
            rate = outcomes[k] / views[k] if views[k] > 0.0 else outcomes[k]
            gain = rate / probabilities[k]
            raise_weight(state.weights, links[k], state.rule.step * gain)


@dataclass(frozen=True)
class Exp3M(WeightsPolicy):
    """Exp3.M (Uchiya, Nakamura and Kudo 2010), fed with revenue; it ignores the floor.

        gamma = min(1, sqrt(K ln(K/L) / ((e-1) L T)))
        p = L ((1-gamma) w~ / sum of w~ + gamma/K),    w~ the capped weights
        w <- w exp(L gamma g^ / K) outside the capped set,    g^ = g / p on shown links

    >>> import numpy as np
    >>> from slotwise.policies import NOBODY
    >>> from slotwise.problem import Problem
    >>> state = Exp3M(horizon=100).start(Problem(n_links=4, n_slots=2))
    >>> Exp3M.choose(state, NOBODY, np.random.default_rng(1))
    >>> state.mix.probabilities.round(3).tolist()
    [0.5, 0.5, 0.5, 0.5]
    """

    horizon: int | None = None

    name: ClassVar[str] = "exp3-m"
    learn: ClassVar[Learn] = staticmethod(learn)
    keeps_floor: ClassVar[bool] = False

    def start(self, problem: Problem) -> Exp3MState:
        """Return equal weights."""
        require_last_level_reward(self.name, problem)
        horizon = require_horizon(self.name, self.horizon, problem)
        n_links, n_slots = problem.n_links, problem.n_slots
        spread = n_links * math.log(n_links / n_slots) / ((math.e - 1) * n_slots * horizon)
        exploration = min(1.0, math.sqrt(spread))
        step = n_slots * exploration / n_links
        rule = Exp3MRule(n_slots, exploration, step, problem.n_levels - 1)
        return Exp3MState(rule, new_weights(n_links), new_weights_mix(n_links))
