"""The anytime bounds: where they say they are, and held at many counts at once."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.selection.confidence import anytime_lower, anytime_upper, kl_upper
from tests.reference.bounds import anytime_bound, log_mixture
from tests.selection.chance import is_plausibly_at_most


@pytest.mark.parametrize("width", [0.5, 3.0, 12.0])
@pytest.mark.parametrize("n_views", [1, 7, 200, 30_000])
def test_the_bounds_are_where_the_mixture_reaches_the_width(n_views: int, width: float) -> None:
    for total in np.linspace(0.0, n_views, 23):
        upper = anytime_upper(float(total), float(n_views), width)
        lower = anytime_lower(float(total), float(n_views), width)
        assert 0.0 <= lower <= total / n_views <= upper <= 1.0
        assert upper == pytest.approx(anytime_bound(float(total), n_views, width), abs=1e-9)
        if upper < 1.0 - 1e-9:
            assert log_mixture(float(total), n_views, upper) == pytest.approx(width, abs=1e-5)
        if lower > 1e-9:
            assert log_mixture(float(total), n_views, lower) == pytest.approx(width, abs=1e-5)


def test_nothing_seen_says_nothing() -> None:
    assert anytime_upper(0.0, 0.0, 1.0) == 1.0
    assert anytime_lower(0.0, 0.0, 1.0) == 0.0


N_PATHS, N_VIEWS = 4_000, 2_000
WIDTH = math.log(10.0)
"""The bounds may fail, at any of all counts and on either side, on a tenth of the paths."""

Bound = Callable[[float, float, float], float]


def fewest_clicks(rate: float, upper: Bound) -> NDArray[np.int64]:
    """Return for every number of views the fewest clicks whose bound is not below the rate."""
    fewest = np.zeros(N_VIEWS, np.int64)
    clicks = 0
    for n in range(1, N_VIEWS + 1):
        while upper(float(clicks), float(n), WIDTH) < rate:
            clicks += 1
        fewest[n - 1] = clicks
    return fewest


@pytest.mark.parametrize("rate", [0.02, 0.3, 0.5])
def test_the_bounds_hold_at_all_counts_at_once(rate: float) -> None:
    # By accident with probability below FALSE_ALARM = 1e-7.
    views = np.arange(1, N_VIEWS + 1)
    least = fewest_clicks(rate, anytime_upper)
    most = views - fewest_clicks(1.0 - rate, anytime_upper)  # a lower bound is one of the misses
    rng = np.random.default_rng(int(100 * rate))
    n_left = 0
    for _ in range(N_PATHS):
        clicks = np.cumsum(rng.random(N_VIEWS) < rate)
        n_left += bool(np.any((clicks < least) | (clicks > most)))
    assert is_plausibly_at_most(n_left, N_PATHS, math.exp(-WIDTH), 1)
    assert n_left > 0.01 * N_PATHS  # tight enough to mean something


@pytest.mark.parametrize("rate", [0.3, 0.5])
def test_a_bound_for_one_count_would_be_caught(rate: float) -> None:
    least = fewest_clicks(rate, kl_upper)
    rng = np.random.default_rng(int(100 * rate))
    n_left = 0
    for _ in range(N_PATHS):
        n_left += bool(np.any(np.cumsum(rng.random(N_VIEWS) < rate) < least))
    assert not is_plausibly_at_most(n_left, N_PATHS, math.exp(-WIDTH), 1)


def test_the_bounds_hold_for_outcomes_between_0_and_1() -> None:
    # Outcomes of Beta(1, 3) spread less than clicks of the same rate 1/4.
    n_paths, counts = 600, np.unique(np.geomspace(1, 1_000, 50).astype(int))
    rng = np.random.default_rng(8)
    n_left = 0
    for _ in range(n_paths):
        totals = np.cumsum(rng.beta(1.0, 3.0, 1_000))[counts - 1]
        n_left += any(
            anytime_upper(total, float(n), WIDTH) < 0.25
            or anytime_lower(total, float(n), WIDTH) > 0.25
            for total, n in zip(totals.tolist(), counts.tolist(), strict=True)
        )
    assert is_plausibly_at_most(n_left, n_paths, math.exp(-WIDTH), 1)
