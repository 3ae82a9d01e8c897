"""What is fitted to a pool, the slow way: the priors of two levels and the sizes of sales."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np


def trials_of(views: Any, sums: Any, level: int, link: int) -> float:
    """Return the settled trials of a link: at the second level, views that were clicked on."""
    if level == 0 or views[0, link] == 0:
        return float(views[level, link])
    return float(views[1, link] * sums[0, link] / views[0, link])


def mean_of_links(views: Any, clicks: Any) -> float:
    """Return the mean click rate of links, by n / (n + 100), and a tenth of a link at 1/2."""
    rates, weights = [0.5], [0.1]
    for n, s in zip(views, clicks, strict=True):
        if n > 0:
            rates.append(s / n)
            weights.append(n / (n + 100))
    return float(np.average(rates, weights=weights))


def psi(x: float) -> float:
    """Return the digamma function as the policy computes it."""
    return math.log(x + 0.5) - 1.0 / x


def likeliest_mean(views: Any, sums: Any, sales: Any, mean: float) -> float:
    """Return the mean of the likeliest prior of sales per click, by steps from the present."""
    is_rare = mean <= 0.5
    rarer = mean if is_rare else 1.0 - mean
    beta = (1.0 - rarer) / rarer
    for _ in range(10):
        links, total = 0.1, 0.1
        for link in range(len(sales)):
            n = trials_of(views, sums, 1, link)
            s = min(sales[link], n)
            if n > 0:
                s = s if is_rare else n - s
                links += 1
                total += psi(1 + beta + n) - psi(beta + n - s)
        before, beta = beta, links / total
        if abs(beta - before) <= 0.01 * before:
            break
    return 1 / (1 + beta) if is_rare else beta / (1 + beta)


class SaleSizes(NamedTuple):
    """The mean sale, 0 before the first, how sales vary, and the sale of a link without any."""

    unit: float = 0.0
    within: float = 0.25
    between: float = 0.25
    unseen: float = 1.0

    @property
    def kappa(self) -> float:
        """The weight of the mean sale in the mean sale of a link."""
        return min(10.0, max(0.1, self.within / self.between))

    def with_first(self, revenue: Any) -> SaleSizes:
        """Return the sizes after revenue: the first sale is the mean until the next fit."""
        sold = [float(amount) for amount in revenue if amount > 0]
        return self._replace(unit=sold[0]) if sold and not self.unit else self

    def fitted(self, sales: Any, money: Any, squares: Any) -> SaleSizes:
        """Return the sizes fitted to the sales of all links, with their money and its squares."""
        sold = [link for link in range(len(sales)) if sales[link] > 0]
        if not sold:
            return self
        weight = {link: sales[link] / (sales[link] + self.kappa) for link in sold}
        means = {link: money[link] / sales[link] for link in sold}
        unit = sum(weight[k] * means[k] for k in sold) / sum(weight.values())
        several = [link for link in sold if sales[link] > 1]
        spread = sum(max(0.0, squares[k] / means[k] ** 2 - sales[k]) for k in several)
        within = (0.25 + spread) / (1 + sum(sales[k] - 1 for k in several))
        between = 0.25
        for k in sold:
            ratio = means[k] / unit
            between += weight[k] * ((ratio - 1) ** 2 - within * ratio**2 / sales[k])
        between = max(0.25, between) / (1 + sum(weight.values()))
        most = max(1 + 1e-9, 1 / unit)
        unseen = 1 + 6 / (6 + len(sold)) * ((most - 1) / math.log(most) - 1)
        return SaleSizes(unit, within, between, unseen)

    def of_link(self, n_sales: float, money: float) -> tuple[float, float]:
        """Return mean and variance of the sale of a link, in mean sales."""
        mean, guesses = self.unseen, 0.0
        if n_sales > 0:
            mean = (money / (self.unit or 1.0) + self.kappa) / (n_sales + self.kappa)
        elif mean > 1.0 + 1e-6:
            guesses = self.variance_of_guesses
        return mean, mean**2 * self.between * self.kappa / (n_sales + self.kappa) + guesses

    @property
    def variance_of_guesses(self) -> float:
        """The variance of a sale of a link without any: the mean sale or, by chance, any other."""
        log = math.log(1 / self.unit)
        usual, other = 1.0, (1 / self.unit - 1) / log  # means of both guesses, and of their squares
        squares = 1.0, (1 / self.unit**2 - 1) / (2 * log)
        chance = (self.unseen - usual) / (other - usual)
        return (1 - chance) * squares[0] + chance * squares[1] - self.unseen**2
