"""Visitors' logits, the slow way: a matrix for every link and level, inverted at every step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def log(y: float) -> float:
    """Return the logarithm as the policy computes it."""
    z = math.sqrt(math.sqrt(math.sqrt(y)))
    return 24 * (z * z - 1) / (z * z + 4 * z + 1)


def pool_mean(views: Any, sums: Any, level: int, unit: float) -> float:
    """Return the mean of the links' rates, given that the level before was passed."""
    rates, weights = [0.5 * (unit if level == 1 else 1.0)], [0.1]
    for link in range(views.shape[1]):
        trials, total = views[level, link], sums[level, link]
        if level == 1 and views[0, link] > 0:
            trials = max(trials * sums[0, link] / views[0, link], total / unit)
        if trials > 0:
            rates.append(total / trials)
            weights.append(trials / (trials + (100 if level == 0 else 3)))
    return float(np.average(rates, weights=weights))


class RegressionTwin:
    """The displayed formulas of paced Bayes for visitors, for two levels and one click floor."""

    def __init__(self, n_links: int, n_slots: int, floor: float, sizes: tuple[int, ...]) -> None:
        self.n_links, self.n_slots, self.floor, self.sizes = n_links, n_slots, floor, sizes
        self.n_values = sum(sizes)
        size = 1 + self.n_values
        self.feature_of = [f for f, size in enumerate(sizes) for _ in range(size)]
        self.information = np.zeros((2, n_links, size, size))
        self.tilt = np.zeros((2, n_links, size))
        self.center = np.zeros((2, size))
        self.variance = np.full((2, 1 + len(sizes)), 0.03 / len(sizes))
        self.variance[:, 0] = 1.0
        self.views = np.zeros((2, n_links))
        self.sums = np.zeros((2, n_links))
        self.value_views = np.zeros((self.n_values, n_links))
        self.seen = np.zeros(self.n_values)
        self.rounds = [0, 0]
        self.clicked = np.zeros(n_links)
        self.clock, self.pool = [1.0, 1.0], [0.5, 0.5]
        self.sales: list[float] = []
        self.unit = 1.0
        self.counted_in = 0.0
        self.queue = self.owed = 0.0

    def x(self, visitor: Any) -> Any:
        """Return the visitor as a vector: 1 for the link and for every value that holds."""
        vector = np.zeros(1 + self.n_values)
        vector[0] = 1.0
        vector[1 + np.asarray(visitor)] = 1.0
        return vector

    def prior_precision(self, level: int) -> Any:
        """Return the precision of the prior of every parameter."""
        own = [self.variance[level, 0]]
        own += [self.variance[level, 1 + f] for f in self.feature_of]
        return 1.0 / np.array(own)

    def posterior(self, level: int, link: int) -> tuple[Any, Any]:
        """Return mean and covariance of a link's parameters."""
        precision = self.prior_precision(level)
        covariance = np.linalg.inv(self.information[level, link] + np.diag(precision))
        return covariance @ (self.tilt[level, link] + precision * self.center[level]), covariance

    def prior_mean(self, level: int) -> float:
        """Return the mean rate of the pool, given that the level before was passed."""
        if level == 0:
            return min(self.pool[0], 0.999)
        return min(self.pool[1] / self.unit, 0.999)

    def price(self) -> float:
        """Return the price of a click, in sales."""
        promised = self.floor * (self.rounds[0] + 1)
        return self.prior_mean(1) * self.queue / (0.5 * math.sqrt(promised))

    def scores(self, visitor: Any) -> list[float]:
        """Return the bound on what every link is worth to a visitor."""
        x, scores = self.x(visitor), []
        pages = self.rounds[0] + 1
        for link in range(self.n_links):
            means, variances = [], []
            for level in (0, 1):
                mean, covariance = self.posterior(level, link)
                p = 1 / (1 + math.exp(-(x @ mean)))
                means.append(p)
                variances.append((p * (1 - p)) ** 2 * (x @ covariance @ x))
            n_views = total = self.views[0, link]
            for v in visitor:
                due = total * (self.seen[v] + 1) / pages
                n_views *= (self.value_views[v, link] + 1) / (due + 1)
            width = 0.6 * log(1 + pages * self.n_slots / (self.n_links * (n_views + 1)))
            worth = means[1] + self.price()
            mean = means[0] * worth
            variance = variances[0] * (variances[1] + worth**2) + means[0] ** 2 * variances[1]
            scores.append(mean + math.sqrt(2 * width * variance) + 2 / 3 * width * variance / mean)
        return scores

    def _add(self, level: int, link: int, x: Any, trials: float, outcome: float) -> None:
        logit = min(4.0, float(x @ self.posterior(level, link)[0]))
        p = 1 / (1 + math.exp(-logit))
        self.information[level, link] += trials * p * (1 - p) * np.outer(x, x)
        self.tilt[level, link] += (trials * (p * (1 - p) * logit - p) + outcome) * x

    def learn_clicks(self, visitor: Any, shown: Any, clicks: Any) -> None:
        """Record the clicks of a page."""
        self.rounds[0] += 1
        missing = self.floor - clicks.sum()
        self.owed += missing
        reserve = max(0.0, self.queue - max(0.0, self.owed))
        growth = min(0.5, 0.5 / self.rounds[0]) * reserve
        if self.owed > 0:
            growth += 0.25 * math.sqrt(self.floor / self.rounds[0])
        self.queue = max(0.0, self.queue + missing + growth)
        for v in visitor:
            self.seen[v] += 1
        for link, click in zip(shown, clicks, strict=True):
            self.views[0, link] += 1
            self.sums[0, link] += click
            for v in visitor:
                self.value_views[v, link] += 1
            self._add(0, link, self.x(visitor), 1.0, click)
            self.clicked[link] += click
        self._refit(0)

    def learn_revenue(self, visitor: Any, shown: Any, revenue: Any) -> None:
        """Record the revenue of the page whose clicks came last."""
        self.rounds[1] += 1
        for amount in revenue[revenue > 0]:
            if not self.sales:
                self.unit = self.counted_in = amount
            self.sales.append(amount)
        for link, amount in zip(shown, revenue, strict=True):
            self.views[1, link] += 1
            self.sums[1, link] += amount
            if self.clicked[link] > 0:
                in_sales = min(100.0, amount / (self.counted_in or 1.0))
                self._add(1, link, self.x(visitor), self.clicked[link], in_sales)
            self.clicked[link] = 0
        self._refit(1)

    def _refit(self, level: int) -> None:
        if self.rounds[level] + 1 < 1.02 * self.clock[level]:
            return
        self.clock[level] = self.rounds[level] + 1
        must = False
        if level == 1:
            self.unit = sum(r * r for r in self.sales) / sum(self.sales) if self.sales else 1.0
            if self.sales and abs(math.log(self.unit / self.counted_in)) > 0.05:
                self.tilt[1] += math.log(self.counted_in / self.unit) * self.information[1, :, :, 0]
                self.counted_in, must = self.unit, True
        for later in range(level, 2):
            self.pool[later] = pool_mean(self.views, self.sums, later, self.unit)
        self._fit_prior(level, must)

    def _fit_prior(self, level: int, must: bool) -> None:
        known, tilted, squares = np.zeros((3, self.n_values))
        for link in range(self.n_links):
            if self.information[level, link, 0, 0] > 0:
                mean, covariance = self.posterior(level, link)
                for v, f in enumerate(self.feature_of):
                    share = max(0.0, 1 - covariance[1 + v, 1 + v] / self.variance[level, 1 + f])
                    known[v] += share
                    tilted[v] += share * mean[1 + v]
                    squares[v] += (mean[1 + v] - self.center[level, 1 + v]) ** 2
        p = self.prior_mean(level)
        center = np.array([math.log(p / (1 - p)), *(tilted / (known + 5))])
        variance = self.variance[level].copy()
        first = 0.03 / len(self.sizes)
        for f in range(len(self.sizes)):
            of_feature = np.array(self.feature_of) == f
            above = first + squares[of_feature].sum()
            variance[1 + f] = min(1.0, max(1e-4, above / (1 + known[of_feature].sum())))
        must |= bool(np.abs(center - self.center[level]).max() > 0.05)
        must |= bool(np.abs(variance / self.variance[level] - 1).max() > 0.1)
        if must:
            self.center[level], self.variance[level] = center, variance
