"""Visitors' logits, the slow way: a matrix for every link and level, inverted at every step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.reference.floor_price import PriceTwin, price_for_visitors
from tests.reference.pool_fit import SaleSizes, likeliest_mean, mean_of_links, trials_of


def log(y: float) -> float:
    """Return the logarithm as the policy computes it."""
    z = math.sqrt(math.sqrt(math.sqrt(y)))
    return 24 * (z * z - 1) / (z * z + 4 * z + 1)


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
        self.sales, self.squares = np.zeros((2, n_links))
        self.amounts = SaleSizes()
        self.price_of_floor = PriceTwin(floor, patience=0.5)
        self.recent: list[Any] = []
        self.priced = 0.0

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
        return min(self.pool[level], 0.999)

    def price(self) -> float:
        """Return the price of a click, in mean sales."""
        return self.prior_mean(1) * self.price_of_floor.price(self.amounts.between)

    def rates(self, visitor: Any, link: int) -> list[tuple[float, float]]:
        """Return mean and variance of the click rate and of the revenue of a click."""
        x, found = self.x(visitor), []
        for level in (0, 1):
            mean, covariance = self.posterior(level, link)
            p = 1 / (1 + math.exp(-(x @ mean)))
            found.append((p, (p * (1 - p)) ** 2 * (x @ covariance @ x)))
        n_sales = min(self.sales[link], trials_of(self.views, self.sums, 1, link))
        size, doubt = self.amounts.of_link(n_sales, float(self.sums[1, link]))
        p, variance = found[1]
        return [found[0], (p * size, variance * (doubt + size**2) + p**2 * doubt)]

    def expect_price(self) -> None:
        """Find the price of the floor at the mean rates for the latest visitors."""
        if self.clock[0] < 1.05 * self.priced:
            return
        self.priced = self.clock[0]
        if self.recent:
            rates = [[self.rates(x, link) for link in range(self.n_links)] for x in self.recent]
            clicks, revenue = np.array(rates)[:, :, :, 0].transpose(2, 0, 1)
            unit = self.prior_mean(1)
            price = price_for_visitors(
                clicks * revenue, clicks, self.n_slots, self.floor, 20.0 * unit
            )
            self.price_of_floor.expected = price / unit

    def scores(self, visitor: Any) -> list[float]:
        """Return the bound on what every link is worth to a visitor."""
        scores, pages = [], self.rounds[0] + 1
        for link in range(self.n_links):
            (a, a_variance), (b, b_variance) = self.rates(visitor, link)
            n_views = total = self.views[0, link]
            for v in visitor:
                due = total * (self.seen[v] + 1) / pages
                n_views *= (self.value_views[v, link] + 1) / (due + 1)
            width = 0.6 * log(1 + pages * self.n_slots / (self.n_links * (n_views + 1)))
            worth = b + self.price()
            mean = a * worth
            variance = a_variance * (b_variance + worth**2) + a**2 * b_variance
            scores.append(mean + math.sqrt(2 * width * variance) + 2 / 3 * width * variance / mean)
        return scores

    def _add(self, level: int, link: int, x: Any, trials: float, outcome: float) -> None:
        logit = min(4.0, float(x @ self.posterior(level, link)[0]))
        p = 1 / (1 + math.exp(-logit))
        self.information[level, link] += trials * p * (1 - p) * np.outer(x, x)
        self.tilt[level, link] += (trials * (p * (1 - p) * logit - p) + outcome) * x

    def learn_clicks(self, visitor: Any, shown: Any, clicks: Any) -> None:
        """Record the clicks of a page."""
        self._refit(0)
        self.rounds[0] += 1
        self.price_of_floor.credit(float(clicks.sum()))
        self.recent = [*self.recent, visitor][-32:]
        for v in visitor:
            self.seen[v] += 1
        for link, click in zip(shown, clicks, strict=True):
            self.views[0, link] += 1
            self.sums[0, link] += click
            for v in visitor:
                self.value_views[v, link] += 1
            self._add(0, link, self.x(visitor), 1.0, click)
            self.clicked[link] += click

    def learn_revenue(self, visitor: Any, shown: Any, revenue: Any) -> None:
        """Record the revenue of the page whose clicks came last."""
        self._refit(1)
        self.rounds[1] += 1
        self.amounts = self.amounts.with_first(revenue)
        for link, amount in zip(shown, revenue, strict=True):
            self.views[1, link] += 1
            self.sums[1, link] += amount
            self.sales[link] += amount > 0
            self.squares[link] += amount**2
            if self.clicked[link] > 0:
                self._add(1, link, self.x(visitor), self.clicked[link], float(amount > 0))
            self.clicked[link] = 0

    def _refit(self, level: int) -> None:
        """Refit before a page is counted, from the pages before."""
        if self.rounds[level] + 1 < 1.02 * self.clock[level]:
            return
        self.clock[level] = self.rounds[level] + 1
        if level == 0:
            self.pool[0] = mean_of_links(self.views[0], self.sums[0])
        self.pool[1] = likeliest_mean(self.views, self.sums, self.sales, self.pool[1])
        if level == 1:
            self.amounts = self.amounts.fitted(self.sales, self.sums[1], self.squares)
        self._fit_prior(level)
        if level == 0:
            self.expect_price()

    def _fit_prior(self, level: int) -> None:
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
        has_moved = np.abs(center - self.center[level]).max() > 0.05
        if has_moved or np.abs(variance / self.variance[level] - 1).max() > 0.1:
            self.center[level], self.variance[level] = center, variance
