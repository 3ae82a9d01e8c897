"""Twins of the queue policies and of posterior sampling, with nothing left out."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from tests.reference.bounds import kl_bound

__all__ = ["QueueKLTwin", "con_ts_page", "draw_rates", "queue_ts_page"]

Floats = NDArray[np.float64]
Links = NDArray[np.int64]


def shared_top(keys: list[tuple[float, float]], L: int) -> Floats:
    """Return the chances of the L largest keys; those that tie with the last share its slots."""
    last = sorted(keys, reverse=True)[L - 1]
    n_above = sum(key > last for key in keys)
    share = (L - n_above) / sum(key == last for key in keys)
    return np.array([1.0 if key > last else share if key == last else 0.0 for key in keys])


class QueueKLTwin:
    """Queue-KL for one floor: every bound anew in every round."""

    def __init__(self, K: int, L: int, floor: float, T: int | None, delta: float) -> None:
        self.K, self.L, self.floor, self.T, self.delta = K, L, floor, T, delta
        self.N, self.sum_a, self.sum_g = np.zeros(K), np.zeros(K), np.zeros(K)
        self.t, self.Q = 0, 0.0

    def width(self) -> float:
        if self.T is not None:
            return math.log(8 * self.K * self.T / self.delta)
        # the next step of 0.1 above ln t
        log_t = 0.1 * (1 + math.floor(math.log(self.t + 1) / 0.1))
        return log_t + 3 * math.log(max(1.0, log_t))

    def probabilities(self) -> Floats:
        V = math.sqrt(self.T) if self.T is not None else math.sqrt(max(1, self.t))
        width = self.width()
        keys = []
        for n, a, g in zip(self.N, self.sum_a, self.sum_g, strict=True):
            clicks = kl_bound(a, n, width)
            keys.append((kl_bound(g, n, width) + self.Q / V * clicks, clicks))
        return shared_top(keys, self.L)

    def learn(self, shown: Links, chances: Floats, clicks: Floats, revenue: Floats) -> None:
        self.N[shown] += 1
        self.sum_a[shown] += clicks
        self.sum_g[shown] += revenue
        self.t += 1
        self.Q = max(0.0, self.Q + self.floor - clicks.sum())


def draw_rates(
    views: Floats, clicks: Floats, revenue: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return a draw of click and revenue rates of all links under uniform priors."""
    a = rng.beta(1 + clicks, 1 + views - clicks)
    return a, a * rng.beta(1 + revenue, 1 + clicks - revenue)


def queue_ts_page(clicks: Floats, revenue: Floats, L: int, price: float) -> Floats:
    """Return the page of Queue-TS for a draw, with `price` standing for Q / V."""
    page = np.zeros(len(clicks))
    page[np.argsort(revenue + price * clicks)[-L:]] = 1.0
    return page


def con_ts_page(clicks: Floats, revenue: Floats, L: int, floor: float) -> Floats:
    """Return the page mix of Con-TS for a draw, by HiGHS."""
    K = len(clicks)
    answer = linprog(
        -revenue, A_ub=-clicks[None], b_ub=[-floor], A_eq=np.ones((1, K)), b_eq=[L], bounds=(0, 1)
    )
    if answer.status == 2:
        return queue_ts_page(clicks, np.zeros(K), L, 1.0)
    return np.asarray(answer.x)
