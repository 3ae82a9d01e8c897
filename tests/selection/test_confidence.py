"""Do the bounds hold as often as they say, and would these tests notice if they did not?

What the paper's bound promises at width gamma. With N = n + 1 and c = sqrt(gamma / N), the bound
m + 2 c sqrt(m) + 2 c^2 of a mean m = total / N is below the rate mu exactly when

    total < N mu - 2 sqrt(gamma (N mu - gamma))   and   N mu > 2 gamma.

So a failure means that the sum of n outcomes is more than x = 2 sqrt(gamma (N mu - gamma)) - mu
below its mean n mu, and Chernoff's bound for the lower tail, exp(-x^2 / (2 n mu)), limits its
probability. Where N mu > 2 gamma, x >= sqrt(2 gamma N mu) - mu, which makes it at most
exp(1 - gamma): at the paper's gamma = 72 ln(8 K T / delta), and already at ln(8 K T / delta),
2 K T such failures together stay below delta.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from slotwise.selection.confidence import (
    cucb_bonus,
    kl_lower,
    kl_upper,
    paper_gamma,
    paper_upper,
)
from tests.selection.chance import divergence, is_plausible, is_plausibly_at_most

Floats = NDArray[np.float64]

N_LINKS = 200_000

CASES = [
    (mu, n_views, gamma)
    for mu in (0.05, 0.3)
    for n_views in (200, 2_000)
    for gamma in (1.0, 2.0, 4.0)
    if (n_views + 1) * mu > 2 * gamma
]


def promised_failures(mu: float, n_views: int, gamma: float) -> float:
    """Return how often the bound may be below the rate, by Chernoff."""
    x = 2 * math.sqrt(gamma * ((n_views + 1) * mu - gamma)) - mu
    return math.exp(-(x**2) / (2 * n_views * mu))


def uppers(n_views: int, gamma: float) -> NDArray[np.float64]:
    """Return the paper's bound for every number of clicks."""
    return np.array([paper_upper(float(s), float(n_views), gamma) for s in range(n_views + 1)])


def half_as_wide(n_views: int, gamma: float) -> NDArray[np.float64]:
    """Return the mistake of adding the radius once instead of twice."""
    mean = np.arange(n_views + 1) / (n_views + 1)
    return mean + np.sqrt(gamma * mean / (n_views + 1)) + gamma / (n_views + 1)


@pytest.mark.parametrize(("mu", "n_views", "gamma"), CASES)
def test_the_papers_bound_fails_at_most_as_often_as_it_says(
    mu: float, n_views: int, gamma: float
) -> None:
    # By accident with probability below FALSE_ALARM = 1e-7 for each of the two.
    clicks = np.random.default_rng(n_views).binomial(n_views, mu, N_LINKS)
    n_failures = int(np.sum(uppers(n_views, gamma)[clicks] < mu))
    promise = promised_failures(mu, n_views, gamma)
    assert promise <= math.exp(1.0 - gamma)
    assert is_plausibly_at_most(n_failures, N_LINKS, promise, 1)
    boundary = (n_views + 1) * mu - 2 * math.sqrt(gamma * ((n_views + 1) * mu - gamma))
    exactly = float(binom.cdf(math.ceil(boundary) - 1, n_views, mu))
    assert is_plausible(n_failures, N_LINKS, exactly, 1)


@pytest.mark.parametrize(("mu", "n_views"), [(0.05, 2_000), (0.3, 200), (0.3, 2_000)])
def test_a_bound_half_as_wide_would_be_caught(mu: float, n_views: int) -> None:
    clicks = np.random.default_rng(n_views).binomial(n_views, mu, N_LINKS)
    n_failures = int(np.sum(half_as_wide(n_views, 4.0)[clicks] < mu))
    promise = promised_failures(mu, n_views, 4.0)
    assert not is_plausibly_at_most(n_failures, N_LINKS, promise, 1)


def test_the_papers_bound_is_never_below_what_its_algebra_says() -> None:
    for n_views in (0, 1, 5, 50, 700):
        for gamma in (0.25, 1.0, 3.0):
            upper = uppers(n_views, gamma)
            for mu in np.linspace(0.01, 0.99, 45):
                weight = (n_views + 1) * mu
                reach = weight - 2 * math.sqrt(max(0.0, gamma * (weight - gamma)))
                fails = (np.arange(n_views + 1) < reach) & (weight > 2 * gamma)
                settled = np.abs(np.arange(n_views + 1) - reach) > 1e-9
                assert np.array_equal((upper < mu)[settled], fails[settled])


def test_every_bound_of_every_link_holds_at_every_time() -> None:
    """Play whole runs at 1/72 of the printed width, where the promise still holds.

    A run fails where any bound, of clicks or of revenue, is ever below its rate. The promise
    is 2 K T exp(1 - gamma) = e delta / 4 with gamma = ln(8 K T / delta).
    """
    K, T, delta, n_runs = 20, 300, 0.5, 60
    gamma = paper_gamma(K, T, delta) / 72
    promise = math.e * delta / 4
    rng = np.random.default_rng(12)
    n_failed = 0
    n_views = np.arange(1.0, T + 1)[:, None]
    for _ in range(n_runs):
        click_rate = rng.beta(1, 3, K)
        per_click = rng.random(K)
        clicks = rng.random((T, K)) < click_rate
        revenue = clicks * rng.beta(2.0, 2.0 / per_click - 2.0, (T, K))
        failed = False
        for outcome, rate in ((clicks, click_rate), (revenue, click_rate * per_click)):
            totals = np.cumsum(outcome, axis=0, dtype=np.float64)
            mean = totals / (n_views + 1)
            wide = mean + 2 * (np.sqrt(gamma * mean / (n_views + 1)) + gamma / (n_views + 1))
            failed |= bool(np.any(np.minimum(1.0, wide) < rate))
            last = [paper_upper(float(s), float(T), gamma) for s in totals[-1]]
            assert last == pytest.approx(np.minimum(1.0, wide[-1]).tolist())
        n_failed += failed
    assert is_plausibly_at_most(n_failed, n_runs, promise, 1)


def test_the_papers_bound_by_hand() -> None:
    # n + 1 = 4, mean = 1/4, gamma = 1/16: 1/4 + 2 (sqrt(1/256) + 1/64) = 1/4 + 1/8 + 1/32
    assert paper_upper(1.0, 3.0, 1 / 16) == pytest.approx(13 / 32)
    assert paper_upper(0.0, 0.0, 0.125) == pytest.approx(0.25)  # nothing seen: 2 gamma
    assert paper_upper(4.0, 4.0, 1.0) == 1.0


def test_the_papers_width_by_hand() -> None:
    assert paper_gamma(1, 1, 8 / math.e) == pytest.approx(72.0)
    assert paper_gamma(10, 1000, 0.01) == pytest.approx(72 * math.log(8e6))
    assert paper_gamma(10, 1000, 0.01, n_levels=3) == pytest.approx(72 * math.log(12e6))


def test_the_bonus_of_cucb_by_hand() -> None:
    assert cucb_bonus(math.e**6) == pytest.approx(3.0)


@pytest.mark.parametrize("width", [0.01, 1.0, 8.0])
@pytest.mark.parametrize("n_views", [1, 10, 1_000])
def test_kl_bounds_are_where_the_divergence_reaches_the_width(n_views: int, width: float) -> None:
    for total in np.linspace(0.0, n_views, 21):
        mean = total / n_views
        upper = kl_upper(float(total), float(n_views), width)
        lower = kl_lower(float(total), float(n_views), width)
        assert 0.0 <= lower <= mean <= upper <= 1.0
        if upper < 1.0 - 1e-9:
            assert n_views * divergence(mean, upper) == pytest.approx(width, rel=1e-7)
        if lower > 1e-9:
            assert n_views * divergence(mean, lower) == pytest.approx(width, rel=1e-7)


@pytest.mark.parametrize("n_views", [20, 500])
@pytest.mark.parametrize("mu", [0.03, 0.5])
def test_kl_bounds_fail_at_most_as_often_as_they_say(mu: float, n_views: int) -> None:
    # Exact: the probability of every number of clicks whose bound is on the wrong side.
    width = 2.0
    clicks = np.arange(n_views + 1)
    chance = binom.pmf(clicks, n_views, mu)
    upper = np.array([kl_upper(float(s), float(n_views), width) for s in clicks])
    lower = np.array([kl_lower(float(s), float(n_views), width) for s in clicks])
    assert chance[upper < mu].sum() <= math.exp(-width)
    assert chance[lower > mu].sum() <= math.exp(-width)
    assert chance[(upper < mu) | (lower > mu)].sum() > 0.001  # tight enough to mean something


def divergence_in_full(mean: float, rate: float) -> float:
    """Return kl(mean, rate) without the cancellation of its two terms."""
    above = rate - mean
    return -mean * math.log1p(above / mean) - (1.0 - mean) * math.log1p(-above / (1.0 - mean))


def test_kl_bounds_are_exact_at_any_mean_and_width() -> None:
    rng = np.random.default_rng(5)
    means = np.concatenate([10.0 ** rng.uniform(-6, -0.01, 3_000), rng.uniform(0.3, 0.999, 3_000)])
    # from bounds close to the mean to bounds close to 1
    levels = means * (1.0 - means) * 10.0 ** rng.uniform(-6, 2, len(means))
    for mean, level in zip(means.tolist(), levels.tolist(), strict=True):
        upper = kl_upper(mean, 1.0, level)
        if upper < 0.9999:
            slack = 1e-12 * (upper - mean) + 4e-16 * upper
            assert divergence_in_full(mean, upper - slack) < level + 1e-15
            assert divergence_in_full(mean, upper + slack) > level - 1e-15


def test_kl_bounds_of_nothing_seen_say_nothing() -> None:
    assert kl_upper(0.0, 0.0, 1.0) == 1.0
    assert kl_lower(0.0, 0.0, 1.0) == 0.0
