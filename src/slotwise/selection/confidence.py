"""Confidence bounds: how high a rate may plausibly be, from (sum, count).

Every bound is a function of the sum of outcomes in [0, 1], the number of settled views and one
width parameter, so a policy selects one by name and the tests check the guarantee of each. Used by
most of the package.
"""

from __future__ import annotations

import math

import numpy as np

from slotwise.compile import hot, inner

LOG_PI = math.log(math.pi)
"""ln Beta(1/2, 1/2)."""

MAX_STEPS = 100
"""More steps than the search for a rate needs."""

NEGLIGIBLE = 1e-200
"""A divergence that leaves no rate above the mean."""


HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)


def paper_gamma(n_links: int, horizon: int, failure_probability: float, n_levels: int = 2) -> float:
    """Return the paper's confidence width for `n_levels` levels of feedback.

        gamma = 72 ln(4 n K T / delta)        (two levels: 72 ln(8 K T / delta))

    At this width all bounds of a run hold together: each of n K rates has a bound above and one
    below at T times, twice what the failure probability would need.

    >>> round(paper_gamma(271, 50_000, 0.01))
    1664
    """
    return 72.0 * math.log(4 * n_levels * n_links * horizon / failure_probability)


@hot
def paper_upper(total: float, n_views: float, gamma: float, n_open: float = 0.0) -> float:
    """Return the upper bound of Con-UCB (the paper's equation for a-hat and g-hat).

        mean = total / (n + 1)                       (shrunk: n + 1, not n)
        R(m, n) = sqrt(gamma m / n) + gamma / n
        upper = min(1, mean + 2 R(mean, n + 1))

    The feedback of `n_open` more views is open (not in the paper). They narrow the bound and do not
    change the mean: min(1, mean + 2 R(mean, n + open + 1)).

    >>> paper_upper(0.0, 0.0, 22.0)
    1.0
    >>> round(paper_upper(30.0, 399.0, 1.0), 4)
    0.1074
    """
    n = n_views + 1.0
    mean, n = total / n, n + n_open
    return min(1.0, mean + 2.0 * (math.sqrt(gamma * mean / n) + gamma / n))


@hot
def paper_lower(total: float, n_views: float, gamma: float) -> float:
    """Return the lower bound of Con-UCB's lemma: max(0, mean - 2 R(mean, n + 1)).

    The lemma bounds the distance of the shrunk mean from the rate, so it has two sides; the
    paper needs the upper one only.

    >>> paper_lower(0.0, 0.0, 22.0)
    0.0
    >>> round(paper_lower(300.0, 399.0, 1.0), 4)
    0.6584
    """
    n = n_views + 1.0
    mean = total / n
    return max(0.0, mean - 2.0 * (math.sqrt(gamma * mean / n) + gamma / n))


@hot
def cucb_bonus(round_number: float) -> float:
    """Return c so that CUCB's bound of a link is mean + c / sqrt(n): c = sqrt(3 ln t / 2).

    >>> float(cucb_bonus(1.0))
    0.0
    """
    return np.sqrt(1.5 * math.log(round_number))


@inner
def _rate_at(mean: float, level: float) -> float:
    """Return the rate q above `mean` at which kl(mean, q) = level; mean in (0, 1).

    Newton's method on d = q - mean, without cancellation. kl is convex in q, so from a larger q it
    decreases to the answer and never passes it. It starts at a bound on the answer: kl(m, q) is at
    least 2 (q - m)^2, (q - m)^2 / (2 q) and (1 - m) ln 1/(1 - q) - H(m), with H the entropy.
    """
    miss = 1.0 - mean
    above = min(level + math.sqrt(level * (level + 2.0 * mean)), math.sqrt(0.5 * level))
    if mean + above >= 0.9:
        entropy = -mean * math.log(mean) - miss * math.log(miss)
        above = min(above, miss - math.exp(-(level + entropy) / miss))
        if mean + above >= 1.0:
            return 1.0
    for _ in range(MAX_STEPS):
        excess = -mean * math.log1p(above / mean) - miss * math.log1p(-above / miss) - level
        lower = above - excess * (mean + above) * (miss - above) / above
        if not 0.0 < lower < above:
            break
        above = lower
    return mean + above


@hot
def kl_upper(total: float, n_views: float, width: float) -> float:
    """Return the largest rate that the outcomes do not exclude, by Chernoff's bound.

        U = max { q >= m : n kl(m, q) <= width },   m = total / n

    For outcomes in [0, 1] it is exceeded by the true rate with probability at most e^-width.
    Without views it is 1.

    >>> kl_upper(0.0, 0.0, 3.0)
    1.0
    >>> round(kl_upper(0.0, 100.0, 3.0), 6)        # 1 - e^(-3/100)
    0.029554
    """
    if n_views <= 0.0:
        return 1.0
    mean = min(1.0, max(0.0, total / n_views))
    level = width / n_views
    if mean >= 1.0:
        return 1.0
    if mean <= 0.0:
        return 1.0 - math.exp(-level)
    if level <= NEGLIGIBLE:
        return mean
    return _rate_at(mean, level)


@hot
def kl_lower(total: float, n_views: float, width: float) -> float:
    """Return the smallest rate that the outcomes do not exclude: 1 - kl_upper of the misses.

    >>> kl_lower(0.0, 100.0, 3.0)
    0.0
    """
    return 1.0 - kl_upper(n_views - total, n_views, width)


@inner
def log_gamma(x: float) -> float:
    """Return ln Gamma(x) for x > 0, by Stirling's series above 9.

    Implemented here, because the functions of Python and numba differ in the last bit.

    >>> round(log_gamma(5.0), 12) == round(math.log(24.0), 12)
    True
    """
    product = 1.0
    while x < 9.0:
        product *= x
        x += 1.0
    r = 1.0 / x
    s = r * r
    series = 1.0 / 1188.0 - s * (691.0 / 360360.0 - s / 156.0)
    series = 1.0 / 12.0 - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - s * (1.0 / 1680.0 - s * series)))
    return (x - 0.5) * math.log(x) - x + HALF_LOG_2_PI + r * series - math.log(product)


@inner
def _anytime_width(total: float, n_views: float, width: float) -> float:
    """Return the width at which the KL bound is the anytime bound of `width`.

        width + ln Beta(1/2, 1/2) - ln Beta(s + 1/2, n - s + 1/2) - n H(s / n)

    The mixture needs about ln(n) / 2 more than a bound for one count.
    """
    misses = n_views - total
    log_beta = log_gamma(total + 0.5) + log_gamma(misses + 0.5) - log_gamma(n_views + 1.0)
    entropy = 0.0
    if total > 0.0 and total / n_views > 0.0:
        entropy -= total * math.log(total / n_views)
    if misses > 0.0:
        entropy -= misses * math.log(misses / n_views)
    return width + LOG_PI - log_beta - entropy


@hot
def anytime_upper(total: float, n_views: float, width: float) -> float:
    """Return an upper bound of the rate that holds at every number of views at once.

        U = max { q >= s/n : ln M(q) <= width }
        ln M(q) = ln Beta(s + 1/2, n - s + 1/2) - ln Beta(1/2, 1/2) - s ln q - (n - s) ln(1 - q)

    M is a mixture of likelihood ratios against q (beta-binomial, Robbins 1970), a nonnegative
    martingale under the true rate, so the rate is ever above U or below the lower bound, at any
    of infinitely many counts, with probability at most e^-width together.

    >>> anytime_upper(0.0, 0.0, 3.0)
    1.0
    >>> kl_upper(10.0, 100.0, 3.0) < anytime_upper(10.0, 100.0, 3.0) < 0.3
    True
    """
    if n_views <= 0.0 or total >= n_views:
        return 1.0
    return kl_upper(total, n_views, max(0.0, _anytime_width(total, n_views, width)))


@hot
def anytime_lower(total: float, n_views: float, width: float) -> float:
    """Return the lower bound that belongs to `anytime_upper`.

    >>> anytime_lower(0.0, 100.0, 3.0)
    0.0
    """
    return 1.0 - anytime_upper(n_views - total, n_views, width)
