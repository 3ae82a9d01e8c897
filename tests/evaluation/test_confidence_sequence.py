"""Intervals: equal to a naive twin, and never missing more often than they say."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.evaluation.confidence_sequence import (
    BETS,
    LOG_WEIGHTS,
    Bets,
    PageValues,
    add_pages,
    mean_bounds,
    new_bets,
)
from tests.reference.evaluation import lower_total

pytestmark = pytest.mark.compiled

Floats = NDArray[np.float64]


def plain_values(outcomes: Floats, weights: Floats, most: float, peak: float) -> PageValues:
    """Pages without models: sum w r, sum w (1 - r) and what bounds them."""
    same = np.ones(len(outcomes))
    return PageValues(
        plain=outcomes,
        corrections=0 * same,
        complements=weights - outcomes,
        expected=0 * same,
        most=most * same,
        peak=peak * same,
        predicted_peak=np.full(len(outcomes), np.inf if peak == np.inf else 0.0),
    )


def followed(values: PageValues) -> Bets:
    bets = new_bets()
    add_pages(bets, values)
    return bets


def test_the_lower_bound_equals_its_twin() -> None:
    rng = np.random.default_rng(3)
    outcomes = np.where(rng.random(150) < 0.2, 2.0, 0.0)
    bets = followed(plain_values(outcomes, np.ones(150), 1.0, np.inf))
    before = np.concatenate([[0.0], np.cumsum(outcomes)[:-1]])
    centres = np.clip(before / np.arange(1, 151), 0, 1)
    expected = lower_total(
        outcomes.tolist(), centres.tolist(), BETS.tolist(), np.exp(LOG_WEIGHTS).tolist(), 0.01
    )
    assert mean_bounds(bets, 0.01)[0] * 150 == pytest.approx(expected, abs=1e-6)


def test_pages_may_come_in_any_portions() -> None:
    rng = np.random.default_rng(4)
    outcomes = rng.random(1000)
    whole = followed(plain_values(outcomes, np.ones(1000), 1.0, 3.0))
    parts = new_bets()
    for begin, end in ((0, 1), (1, 17), (17, 400), (400, 1000)):
        add_pages(parts, plain_values(outcomes[begin:end], np.ones(end - begin), 1.0, 3.0))
    assert mean_bounds(parts, 0.05) == pytest.approx(mean_bounds(whole, 0.05), rel=1e-9)


def test_weights_sum_to_one_and_bets_can_lose_no_more_than_they_have() -> None:
    assert np.exp(LOG_WEIGHTS).sum() == pytest.approx(1)
    worst = plain_values(np.full(500, 30.0), np.full(500, 30.0), 1.0, 30.0)
    assert np.isfinite(followed(worst).evidence).all()
    huge = plain_values(np.full(500, 1e300), np.full(500, 1e300), 1.0, np.inf)
    assert np.isfinite(followed(huge).evidence).all()


@pytest.mark.parametrize("peak", [20.0, np.inf])
def test_bounds_hold_at_all_lengths_at_once(peak: float) -> None:
    """Rare links with weight 20, drifting rates, looked at after every 50 pages.

    Each side may miss in 5 % of the runs. Of 100 runs at most 18 may miss, which a procedure
    that misses in exactly 5 % exceeds with a probability below 1e-6; in truth hardly any does.
    """
    n_missed = np.zeros(2, int)
    for seed in range(100):
        rng = np.random.default_rng(seed)
        n_pages = 1000
        means = np.where(np.arange(n_pages) < 400, 0.1, 0.4)
        shown = rng.random(n_pages) < 0.05
        outcomes = np.where(shown & (rng.random(n_pages) < means), 20.0, 0.0)
        values = plain_values(outcomes, np.where(shown, 20.0, 0.0), 1.0, peak)
        bets, missed = new_bets(), np.zeros(2, bool)
        for end in range(50, n_pages + 1, 50):
            add_pages(bets, PageValues(*(column[end - 50 : end] for column in values)))
            low, high = mean_bounds(bets, 0.05)
            truth = means[:end].mean()
            missed |= [truth < low, truth > high]
        n_missed += missed
    assert (n_missed <= 18).all()


def test_more_pages_make_narrower_intervals() -> None:
    rng = np.random.default_rng(5)
    widths = []
    for n_pages in (1_000, 10_000, 100_000):
        outcomes = np.where(rng.random(n_pages) < 0.1, 2.0, 0.0)
        bets = followed(plain_values(outcomes, np.full(n_pages, 2.0), 2.0, 4.0))
        low, high = mean_bounds(bets, 0.0125)
        assert low < 0.2 < high
        widths.append(high - low)
    # within a factor of 2.5 of the normal interval at this level, 2 * 2.5 standard errors
    normal = 5.0 * 0.6 / np.sqrt([1_000, 10_000, 100_000])
    assert (widths < 2.5 * normal).all()
