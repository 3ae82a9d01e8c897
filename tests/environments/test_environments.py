"""What environments are made of: rates by brute force, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from slotwise.environments import (
    BernoulliLevels,
    BernoulliLinks,
    BetaRevenueLinks,
    DriftingLinks,
    FixedPriceLinks,
    IntervalLinks,
    LateFeedback,
    drift_towards,
)
from slotwise.errors import InvalidInput

NOBODY = np.zeros(1, np.int64)

LINKS = BernoulliLinks([0.2, 0.6, 0.4], [0.9, 0.1, 0.5])


@pytest.mark.parametrize("n_rounds", [1, 2, 7, 100, 1001])
@pytest.mark.parametrize("n_stations", [2, 3, 5])
def test_rates_of_a_drift_are_the_mean_over_its_rounds(n_rounds: int, n_stations: int) -> None:
    rng = np.random.default_rng(n_stations)
    stations = [BernoulliLinks(*rng.random((2, 4))) for _ in range(n_stations)]
    total = np.zeros((2, 4))
    for round_number in range(1, n_rounds + 1):
        along = round_number / n_rounds * (n_stations - 1)
        k = min(int(along), n_stations - 2)
        before = np.asarray(stations[k].rates_given_last)
        after = np.asarray(stations[k + 1].rates_given_last)
        click, revenue = before + (along - k) * (after - before)
        total += [click, click * revenue]
    expected = total / n_rounds
    assert np.allclose(DriftingLinks(stations).rates(n_rounds), expected, rtol=0, atol=1e-12)


def test_a_drift_ends_at_its_last_station() -> None:
    drift = DriftingLinks([BernoulliLinks([0.0], [1.0]), BernoulliLinks([1.0], [1.0])])
    outcomes = np.zeros((2, 1))
    rng = np.random.default_rng(1)
    drift.serving(drift.world(10), 10, NOBODY, np.array([0]), rng, outcomes)
    assert outcomes.tolist() == [[1.0], [1.0]]


def test_a_drift_wanders_within_its_strength() -> None:
    stations = drift_towards(LINKS, seed=2, n_stations=6, strength=1.0).world(1).stations
    base = np.asarray(LINKS.rates_given_last)
    assert len(stations) == 6
    assert np.array_equal(stations[0], base)
    assert np.all(stations <= np.minimum(1.0, 2 * base) + 1e-12)
    assert np.all(stations >= base / 2 - 1e-12)
    assert np.array_equal(stations, drift_towards(LINKS, 2, 6, 1.0).world(1).stations)


def test_beta_amounts_are_between_all_and_nothing() -> None:
    links = BetaRevenueLinks([1.0], [0.3], concentration=5.0)
    outcomes = np.zeros((2, 1))
    rng = np.random.default_rng(1)
    amounts = []
    for _ in range(50):
        links.serving(links.world(1), 1, NOBODY, np.array([0]), rng, outcomes)
        amounts.append(outcomes[1, 0])
    assert len(set(amounts)) == 50
    assert 0 < min(amounts) < 0.3 < max(amounts) < 1


def test_a_fixed_price_is_paid_whole_or_not_at_all() -> None:
    links = FixedPriceLinks([1.0, 1.0], sale_rate=[0.5, 1.0], price=[0.25, 0.75])
    outcomes = np.zeros((2, 2))
    rng = np.random.default_rng(1)
    seen = set()
    for _ in range(60):
        links.serving(links.world(1), 1, NOBODY, np.array([0, 1]), rng, outcomes)
        seen.add(tuple(outcomes[1]))
    assert seen == {(0.25, 0.75), (0.0, 0.75)}


def test_an_interval_counts_whole_views() -> None:
    links = IntervalLinks([0.5, 1.0], [0.5, 1.0], views_per_round=40)
    outcomes = np.zeros((2, 2))
    links.serving(links.world(1), 1, NOBODY, np.array([0, 1]), np.random.default_rng(1), outcomes)
    assert outcomes[:, 1].tolist() == [40.0, 40.0]
    assert np.array_equal(outcomes, np.round(outcomes))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BernoulliLinks([0.5, 1.2], [0.1, 0.1]), "`click_rate` must be numbers in [0, 1]"),
        (lambda: BernoulliLinks([0.5], [float("nan")]), "`revenue_per_click` must be numbers in"),
        (lambda: BernoulliLinks([0.5], [0.1, 0.2]), "`revenue_per_click` must be as many numbers"),
        (lambda: BernoulliLevels([[0.5]], ("a", "b")), "`rates_given_last` must be one row for"),
        (lambda: IntervalLinks([0.5], [0.1], 0), "`views_per_round` must be at least 1, got 0"),
        (lambda: BetaRevenueLinks([0.5], [1.0]), "`revenue_per_click` must be inside (0, 1)"),
        (lambda: BetaRevenueLinks([0.5], [0.5], 0.0), "`concentration` must be a positive number"),
        (lambda: FixedPriceLinks([0.5], [0.5], [0.1, 0.2]), "`price` must be as many numbers as"),
        (lambda: DriftingLinks([LINKS]), "`stations` must be at least two, got 1"),
        (
            lambda: DriftingLinks([LINKS, BernoulliLinks([0.5], [0.5])]),
            "`stations` must be of one number of links, got [1, 3]",
        ),
        (lambda: LateFeedback(LINKS, -1, 0), "`click_delay` must be at least 0, got -1"),
        (lambda: LateFeedback(LINKS, 0, -5), "`revenue_delay` must be at least 0, got -5"),
    ],
)
def test_what_is_wrong_is_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidInput) as error:
        make()
    assert message in str(error.value)
