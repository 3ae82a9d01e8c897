"""The twin of Paced KL: the displayed formula, link by link, from counts alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

Floats = NDArray[np.float64]
Links = NDArray[np.int64]


def kl_bound(total: float, n_views: float, width: float) -> float:
    """Solve n kl(total/n, q) = width by bisection."""
    mean = total / n_views

    def excess(rate: float) -> float:
        kl = mean * math.log(mean / rate) + (1 - mean) * math.log((1 - mean) / (1 - rate))
        return n_views * kl - width

    if width <= 0:
        return mean
    return float(brentq(excess, mean + 1e-15, 1 - 1e-12, xtol=1e-14))


def power_below(number: float, grid: float) -> float:
    """Find the largest power of `grid` up to a number, step by step."""
    power = 1.0
    while power > number * (1 + 1e-12):
        power /= grid
    while power * grid <= number * (1 + 1e-12):
        power *= grid
    return power


class Queue:
    """The paced queue of one floor."""

    def __init__(self, floor: float, patience: float) -> None:
        self.floor, self.patience = floor, patience
        self.Q = self.owed = 0.0
        self.t = 0

    def price(self) -> float:
        return self.Q / (self.patience * math.sqrt(self.floor * (self.t + 1)))

    def learn(self, brought: float) -> None:
        missing = self.floor - brought
        self.t += 1
        self.owed += missing
        growth = min(0.5, 0.5 / self.t) * max(0.0, self.Q - max(0.0, self.owed))
        if self.owed > 0:
            growth += 0.25 * math.sqrt(self.floor / self.t)
        self.Q = max(0.0, self.Q + missing + growth)


class PacedKLTwin:
    """Paced KL with a queue for each of `floors`, which are by level."""

    def __init__(
        self,
        K: int,
        L: int,
        floors: Mapping[int, float],
        exploration: float,
        patience: float,
        rewards: Sequence[float] = (0.0, 1.0),
    ) -> None:
        self.K, self.L, self.exploration, self.rewards = K, L, exploration, rewards
        self.queues = {level: Queue(floor, patience) for level, floor in floors.items()}
        self.N, self.S = np.zeros((len(rewards), K)), np.zeros((len(rewards), K))
        self.t = 0

    def scores(self) -> Floats:
        worth = list(self.rewards)
        for level, queue in self.queues.items():
            worth[level] += queue.price()
        scores = np.zeros(self.K)
        for level, weight in enumerate(worth):
            if weight > 0:
                scores += [weight * self.bound(level, link) for link in range(self.K)]
        return scores

    def bound(self, level: int, link: int) -> float:
        most = 0.5 if level == 0 else 0.25
        average = (self.S[level].sum() + most) / (self.N[level].sum() + 1)
        prior = min(most, power_below(4 * average, 1.25))
        n_shown, n_settled = self.N[0, link] + 1, self.N[level, link] + 1
        share = power_below(self.t + 1, 1.02) * self.L / self.K
        width = self.exploration * max(0.0, math.log(share / n_shown)) * n_settled / n_shown
        return kl_bound(self.S[level, link] + prior, n_settled, width)

    def learn(self, level: int, shown: Links, outcomes: Floats) -> None:
        self.N[level, shown] += 1
        self.S[level, shown] += outcomes
        self.t += level == 0
        if level in self.queues:
            self.queues[level].learn(outcomes.sum())
