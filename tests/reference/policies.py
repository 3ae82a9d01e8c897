"""Twins of the policies: each formula as it is displayed, in plain numpy, nothing kept warm.

A twin answers `probabilities()` and takes in one whole round at a time with
`learn(shown, chances, clicks, revenue)`: the links shown, the probability each had, and what
each brought.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tests.reference.floor_program import mix_by_all_pairs

Floats = NDArray[np.float64]
Links = NDArray[np.int64]


class Twin(Protocol):
    """A policy, obvious and slow."""

    def probabilities(self) -> Floats:
        """Return the chance of every link."""
        ...

    def learn(self, shown: Links, chances: Floats, clicks: Floats, revenue: Floats) -> None:
        """Record one round."""
        ...


class ConstantTwin:
    """Uniform play and fixed mixes: the same chances for ever."""

    def __init__(self, chances: Floats) -> None:
        self.chances = chances

    def probabilities(self) -> Floats:
        return self.chances

    def learn(self, shown: Links, chances: Floats, clicks: Floats, revenue: Floats) -> None:
        pass


class ConUCBTwin:
    """Con-UCB: every bound and the whole floor program anew in every round."""

    def __init__(
        self, K: int, L: int, floor: float, T: int, delta: float, gamma_scale: float
    ) -> None:
        self.L, self.floor = L, floor
        self.gamma = gamma_scale * 72 * math.log(8 * K * T / delta)
        self.N, self.sum_a, self.sum_g = np.zeros(K), np.zeros(K), np.zeros(K)
        self.status = ""

    def bound(self, total: Floats) -> Floats:
        mean = total / (self.N + 1)
        radius = np.sqrt(self.gamma * mean / (self.N + 1)) + self.gamma / (self.N + 1)
        return np.minimum(1.0, mean + 2 * radius)

    def probabilities(self) -> Floats:
        value, clicks = self.bound(self.sum_g), self.bound(self.sum_a)
        self.status, mix = mix_by_all_pairs(value, clicks, self.L, self.floor)
        return mix

    def learn(self, shown: Links, chances: Floats, clicks: Floats, revenue: Floats) -> None:
        self.N[shown] += 1
        self.sum_a[shown] += clicks
        self.sum_g[shown] += revenue


class CUCBTwin:
    """CUCB: all bounds anew in every round, links never shown first."""

    def __init__(self, K: int, L: int) -> None:
        self.L, self.t = L, 1
        self.N, self.sum_g = np.zeros(K), np.zeros(K)

    def probabilities(self) -> Floats:
        keys = []
        for n, total in zip(self.N, self.sum_g, strict=True):
            if n == 0:
                keys.append((math.inf, 0.0))
            else:
                keys.append((total / n + math.sqrt(3 * math.log(self.t) / (2 * n)), 1 / n))
        last = sorted(keys, reverse=True)[self.L - 1]
        tied = [key == last for key in keys]
        n_above = sum(key > last for key in keys)
        share = (self.L - n_above) / sum(tied)
        return np.array([1.0 if key > last else share if key == last else 0.0 for key in keys])

    def learn(self, shown: Links, chances: Floats, clicks: Floats, revenue: Floats) -> None:
        self.t += 1
        self.N[shown] += 1
        self.sum_g[shown] += revenue


def capped_probabilities(w: Floats, L: int, gamma: float) -> tuple[Floats, NDArray[np.bool_]]:
    """Return p and the capped set S, capping by sorting as it is printed."""
    K = len(w)
    if L == K:
        return np.ones(K), np.ones(K, np.bool_)
    if gamma >= 1:
        return np.full(K, L / K), np.zeros(K, np.bool_)
    beta = (1 / L - gamma / K) / (1 - gamma)
    capped = np.zeros(K, np.bool_)
    tamed = w.copy()
    if w.max() >= beta * w.sum():
        descending = np.sort(w)[::-1]
        k = 0
        alpha = beta * descending.sum()
        while not alpha > descending[k]:
            k += 1
            alpha = beta * descending[k:].sum() / (1 - k * beta)
        capped = w >= alpha
        tamed[capped] = alpha
    return L * ((1 - gamma) * tamed / tamed.sum() + gamma / K), capped


class Exp3MTwin:
    """Exp3.M on plain weights."""

    def __init__(self, K: int, L: int, T: int) -> None:
        self.K, self.L = K, L
        self.gamma = min(1.0, math.sqrt(K * math.log(K / L) / ((math.e - 1) * L * T)))
        self.w = np.ones(K)
        self.capped = np.zeros(K, np.bool_)

    def probabilities(self) -> Floats:
        p, self.capped = capped_probabilities(self.w, self.L, self.gamma)
        return p

    def learn(self, shown: Links, chances: Floats, clicks: Floats, revenue: Floats) -> None:
        g_hat = np.zeros(self.K)
        g_hat[shown] = revenue / chances
        grown = self.w * np.exp(self.L * self.gamma * g_hat / self.K)
        self.w = np.where(self.capped, self.w, grown)


class LExpTwin:
    """LExp on plain weights, with its multiplier."""

    def __init__(self, K: int, L: int, floor: float, T: int, parameters: str) -> None:
        self.K, self.L, self.floor = K, L, floor
        if parameters == "theta":
            self.gamma = self.delta = T ** (-1 / 3)
        elif L == K:
            self.gamma = self.delta = 1.0
        else:
            spread = (2 * (math.e - 2) * K + K * L) / (L * math.log(K / L) * T ** (2 / 3))
            self.gamma = min(1.0, (2 / L) * math.sqrt(spread))
            self.delta = 4 * (math.e - 2) * self.gamma * L / (1 - self.gamma)
        self.eta = self.gamma * self.delta * L / ((self.delta + L) * K)
        self.w = np.ones(K)
        self.multiplier = 0.0
        self.capped = np.zeros(K, np.bool_)

    def probabilities(self) -> Floats:
        p, self.capped = capped_probabilities(self.w, self.L, self.gamma)
        return p

    def learn(self, shown: Links, chances: Floats, clicks: Floats, revenue: Floats) -> None:
        if self.gamma >= 1:
            return  # the formula divides by 1 - gamma; uniform play has nothing to learn
        a_hat, g_hat = np.zeros(self.K), np.zeros(self.K)
        a_hat[shown], g_hat[shown] = clicks / chances, revenue / chances
        grown = self.w * np.exp(self.eta * (g_hat + self.multiplier * a_hat))
        self.w = np.where(self.capped, self.w, grown)
        surplus = clicks.sum() / (1 - self.gamma) - self.floor
        kept = (1 - self.delta * self.eta) * self.multiplier
        self.multiplier = max(0.0, kept - self.eta * surplus)
