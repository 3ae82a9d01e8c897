"""Twins of the floor-program policies beyond the paper: every bound anew in every round."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tests.reference.bounds import anytime_bound, kl_bound, kl_lower_bound
from tests.reference.floor_program import mix_by_all_pairs

__all__ = ["AnytimeConUCBTwin", "DeficitTwin", "FloorTwin", "KLConUCBTwin", "SafeConUCBTwin"]

Floats = NDArray[np.float64]
Links = NDArray[np.int64]


class FloorTwin:
    """Counts, faded in every round, and the program on bounds that a child names."""

    def __init__(self, K: int, L: int, floor: float, width: float, kept: float = 1.0) -> None:
        self.L, self.floor, self.width, self.kept = L, floor, width, kept
        self.N, self.sum_a, self.sum_g = np.zeros(K), np.zeros(K), np.zeros(K)
        self.t, self.clicks = 0, 0.0
        self.status = ""

    def upper(self, total: float, n: float) -> float:
        raise NotImplementedError

    def uppers(self, totals: Floats) -> Floats:
        return np.array([self.upper(s, n) for s, n in zip(totals, self.N, strict=True)])

    def wanted(self) -> float:
        return self.floor

    def probabilities(self) -> Floats:
        value, clicks = self.uppers(self.sum_g), self.uppers(self.sum_a)
        self.status, mix = mix_by_all_pairs(value, clicks, self.L, self.wanted())
        return mix

    def learn(self, shown: Links, chances: Floats, clicks: Floats, revenue: Floats) -> None:
        for count in (self.N, self.sum_a, self.sum_g):
            count *= self.kept
        self.N[shown] += 1
        self.sum_a[shown] += clicks
        self.sum_g[shown] += revenue
        self.t += 1
        self.clicks += clicks.sum()


class KLConUCBTwin(FloorTwin):
    """KL-Con-UCB."""

    def upper(self, total: float, n: float) -> float:
        return kl_bound(total, n, self.width)


class DeficitTwin(KLConUCBTwin):
    """KL-Con-UCB that asks for more clicks while some are missing."""

    def __init__(self, K: int, L: int, floor: float, width: float, T: int) -> None:
        super().__init__(K, L, floor, width)
        self.T = T

    def wanted(self) -> float:
        missing = (self.floor * self.t - self.clicks) / math.sqrt(self.T)
        return self.floor + float(np.clip(missing, 0.0, self.floor / 4))


class AnytimeConUCBTwin(FloorTwin):
    """Anytime-Con-UCB."""

    def upper(self, total: float, n: float) -> float:
        return anytime_bound(total, n, self.width)


class SafeConUCBTwin(KLConUCBTwin):
    """Safe-Con-UCB."""

    def probabilities(self) -> Floats:
        value = self.uppers(self.sum_g)
        lower = [kl_lower_bound(s, n, self.width) for s, n in zip(self.sum_a, self.N, strict=True)]
        status, mix = mix_by_all_pairs(value, np.array(lower), self.L, self.floor)
        self.status = f"careful, {status}"
        if status == "infeasible":
            status, mix = mix_by_all_pairs(value, self.uppers(self.sum_a), self.L, self.floor)
            self.status = f"hopeful, {status}"
        return mix
