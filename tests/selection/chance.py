"""How far frequencies may stray: Chernoff's bound for every number of draws, and a chi-square."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

FALSE_ALARM = 1e-7
"""The chance that a test built on this file fails by accident, all its comparisons together."""


def divergence(frequency: float, probability: float) -> float:
    """Return kl(frequency, probability) of two coins."""
    total = 0.0
    for f, p in ((frequency, probability), (1.0 - frequency, 1.0 - probability)):
        if f > 0.0:
            total += math.inf if p <= 0.0 else f * math.log(f / p)
    return total


def is_plausible(n_hits: int, n_draws: int, probability: float, n_comparisons: int) -> bool:
    """Say whether the hits fit the probability.

    P(n kl(frequency, p) > b) <= 2 exp(-b), so the chance that any of `n_comparisons` is called
    implausible by accident is below `FALSE_ALARM`.
    """
    allowed = math.log(2 * n_comparisons / FALSE_ALARM)
    return n_draws * divergence(n_hits / n_draws, min(1.0, probability)) <= allowed


def is_plausibly_at_most(n_hits: int, n_draws: int, probability: float, n_comparisons: int) -> bool:
    """Say whether the hits fit this probability or a smaller one."""
    below = n_hits / n_draws <= probability
    return below or is_plausible(n_hits, n_draws, probability, n_comparisons)


def are_centred(differences: NDArray[np.float64]) -> bool:
    """Say whether rows whose mean should be 0 given the rows before them sum to 0: a chi-square.

    The sum is compared with the covariance of the rows, which need not be alike or independent.
    """
    total, covariance = differences.sum(axis=0), differences.T @ differences
    values, vectors = np.linalg.eigh(covariance)
    is_kept = values > 1e-9 * values.max()
    along = (vectors.T @ total)[is_kept]
    statistic = float((along**2 / values[is_kept]).sum())
    rest = np.abs((vectors.T @ total)[~is_kept]).max(initial=0.0)
    limit = float(chi2.isf(FALSE_ALARM, is_kept.sum()))
    return statistic <= limit and bool(rest < 1e-6 * len(differences))
