"""Priors fitted to the pool: right where the pool is a sample, never sure of themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray
from queue_ts import QueueTS
from queue_ts.pool_prior import LEAST_SHAPE, MOST_SHAPE

from slotwise.policies.policy import NOBODY
from slotwise.problem import Problem

Floats = NDArray[np.float64]
POLICY = QueueTS(prior="fitted")


def fitted(views: Floats, clicks: Floats, revenue: Floats) -> Any:
    """Return the state that knows these counts, after it has looked at them."""
    problem = Problem(len(views), 1)
    knowledge = POLICY.knowledge(POLICY.start(problem))
    knowledge["views"][:] = views
    knowledge["sums"][:] = clicks, revenue
    state: Any = POLICY.restore(problem, knowledge)
    QueueTS.choose(state, NOBODY, np.random.default_rng(1))
    return state


def mean_and_shape(state: Any, level: int) -> tuple[float, float]:
    a = float(state.posterior.prior_hits[level])
    b = float(state.posterior.prior_misses[level])
    return a / (a + b), min(a, b)


@pytest.mark.parametrize(("a", "b"), [(1.0, 9.0), (1.5, 4.0), (0.8, 80.0), (6.0, 1.2)])
def test_the_law_of_a_pool_is_found(a: float, b: float) -> None:
    rng = np.random.default_rng(3)
    rates = rng.beta(a, b, 2_000)
    views = rng.integers(50, 400, 2_000).astype(np.float64)
    clicks = rng.binomial(views.astype(int), rates).astype(np.float64)
    state = fitted(views, clicks, clicks)
    mean, shape = mean_and_shape(state, 0)
    # within the 10 % steps, or 5 % on either side, and some error of the fit
    assert mean == pytest.approx(a / (a + b), rel=0.12)
    assert shape == pytest.approx(min(a, b), rel=0.25)
    # every click brought all its revenue: the second level lies near 1
    assert mean_and_shape(state, 1)[0] > 0.98


def test_nothing_known_leaves_the_uniform_prior() -> None:
    state = fitted(np.zeros(5), np.zeros(5), np.zeros(5))
    mean, shape = mean_and_shape(state, 0)
    assert mean == pytest.approx(0.5, rel=0.05)
    assert shape == pytest.approx(1.0, rel=0.06)


counts = st.lists(
    st.tuples(st.integers(0, 10**6), st.floats(0.0, 1.0), st.floats(0.0, 1.0)),
    min_size=1,
    max_size=30,
)


@given(counts)
def test_a_prior_never_collapses(pool: list[tuple[int, float, float]]) -> None:
    views = np.array([n for n, _, _ in pool], np.float64)
    clicks = views * [share for _, share, _ in pool]
    revenue = clicks * [share for _, _, share in pool]
    state = fitted(views, clicks, revenue)
    for level in range(2):
        mean, shape = mean_and_shape(state, level)
        assert 0.0 < mean < 1.0
        assert 0.94 * LEAST_SHAPE <= shape <= 1.06 * MOST_SHAPE
        a = float(state.posterior.prior_hits[level])
        b = float(state.posterior.prior_misses[level])
        spread = np.sqrt(a * b / (a + b + 1)) / (a + b)
        assert spread > 0.4 * min(mean, 1 - mean)


def test_bad_luck_with_few_views_counts_little() -> None:
    """A hundred links that never were clicked in 3 views against five known to be good."""
    views = np.array([3.0] * 100 + [5_000.0] * 5)
    clicks = np.array([0.0] * 100 + [1_500.0] * 5)
    mean, _ = mean_and_shape(fitted(views, clicks, clicks / 2), 0)
    plain_mean_of_rates = 5 * 0.3 / 105
    assert mean > 3 * plain_mean_of_rates
