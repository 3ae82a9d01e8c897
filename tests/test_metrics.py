"""The measures against hand-worked numbers, scipy and the figures of the paper's sizes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from slotwise import metrics
from slotwise.errors import InvalidInput

PAPER_SIZES = {"coupon": (271, 15, 0.01), "ads": (225, 20, 0.02), "edx": (290, 60, 0.05)}


def test_violation_counts_bad_rounds_where_shortfall_forgives_them() -> None:
    clicks = np.array([0.0, 4.0, 1.0, 3.0])
    violation = metrics.violation_of_round(2.0, clicks).sum()
    shortfall = metrics.shortfall([4], 2.0, [clicks.sum()])
    assert violation == 3.0
    assert shortfall.tolist() == [0.0]


def test_shortfall_and_regret_keep_the_axis_of_runs() -> None:
    rounds = np.array([10, 20])
    clicks = np.array([[15.0, 44.0], [25.0, 30.0]])
    np.testing.assert_array_equal(metrics.shortfall(rounds, 2.0, clicks), [[5, 0], [0, 10]])
    np.testing.assert_array_equal(metrics.regret(rounds, 1.0, clicks), [[-5, -24], [-15, -10]])


def test_ratio_without_violation_is_infinite_and_nothing_over_nothing_unknown() -> None:
    answer = metrics.ratio([6.0, 1.0, 0.0], [3.0, 0.0, 0.0])
    assert answer[:2].tolist() == [2.0, math.inf]
    assert math.isnan(answer[2])


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_student_quantile_equals_scipy(level: float) -> None:
    for degrees in [*range(1, 40), 199, 200, 9_999]:
        expected = scipy.stats.t.ppf((1 + level) / 2, degrees)
        assert metrics.student_quantile(level, degrees) == pytest.approx(expected, rel=1e-9)


def test_mean_interval_equals_scipy_on_every_column() -> None:
    samples = np.random.default_rng(3).gamma(2.0, size=(17, 5))
    mean, low, high = metrics.mean_interval(samples, level=0.9)
    expected = scipy.stats.t.interval(
        0.9, 16, loc=samples.mean(axis=0), scale=scipy.stats.sem(samples, axis=0)
    )
    np.testing.assert_allclose(mean, samples.mean(axis=0))
    np.testing.assert_allclose([low, high], expected)


def test_mean_interval_of_one_sample_is_the_sample() -> None:
    mean, low, high = metrics.mean_interval([[1.5, -2.0]])
    assert mean.tolist() == low.tolist() == high.tolist() == [1.5, -2.0]


def test_mean_interval_with_an_infinite_sample_spans_the_samples() -> None:
    mean, low, high = metrics.mean_interval([[1.0, 1.0], [np.inf, 3.0]])
    assert [mean[0], low[0], high[0]] == [math.inf, 1.0, math.inf]
    assert low[1] < 1.0 < 3.0 < high[1]


@pytest.mark.parametrize("samples", [3.0, []])
def test_mean_interval_needs_a_sample(samples: object) -> None:
    with pytest.raises(InvalidInput, match="`samples` must be at least one sample"):
        metrics.mean_interval(samples)  # type: ignore[arg-type]


def test_theorem_bound_is_far_above_the_trivial_one_at_the_paper_sizes() -> None:
    for n_links, n_slots, failure_probability in PAPER_SIZES.values():
        bound = metrics.theorem_bound(n_links, n_slots, 50_000, failure_probability)
        assert 18e6 < bound < 28e6
        assert metrics.trivial_bound(n_slots, 50_000) in (750_000, 1_000_000, 3_000_000)
        assert 1.3e6 < metrics.first_useful_round(n_links, n_slots, failure_probability) < 5.6e6


def test_theorem_bound_equals_the_formula_term_by_term() -> None:
    gamma = 0.5 * 72 * math.log(8 * 10 * 100 / 0.1)
    expected = 2 * 3 * math.sqrt(2 * 100 * math.log(160)) + 4 * (
        2 * math.sqrt(gamma * 10 * 3 * 100) + 10 * gamma * (1 + math.log(30))
    )
    assert metrics.theorem_bound(10, 3, 100, 0.1, gamma_scale=0.5) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 1, 1, 0.1), "`n_links` must be at least 1, got 0"),
        ((3, 4, 1, 0.1), r"`n_slots` must be between 1 and n_links \(3\), got 4"),
        ((3, 1, 0, 0.1), "`n_rounds` must be at least 1, got 0"),
        ((3, 1, 1, 1.0), "`failure_probability` must be between 0 and 1, got 1.0"),
    ],
)
def test_theorem_bound_names_the_bad_size(sizes: tuple[int, int, int, float], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        metrics.theorem_bound(*sizes)


@pytest.mark.parametrize(("level", "degrees", "name"), [(1.0, 3, "level"), (0.9, 0, "degrees")])
def test_student_quantile_names_the_bad_argument(level: float, degrees: int, name: str) -> None:
    with pytest.raises(InvalidInput, match=f"`{name}` must be"):
        metrics.student_quantile(level, degrees)


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_growth_exponent_finds_the_power_within_its_interval(power: float) -> None:
    """Twenty noisy runs: a 99.9999 % interval, so an accident has a chance of one in a million."""
    rng = np.random.default_rng(11)
    rounds = np.arange(100, 10_001, 100)
    noise = rng.normal(size=(20, len(rounds))).cumsum(axis=1)
    exponent = metrics.growth_exponent(rounds, 5.0 * rounds**power + 0.3 * noise, level=0.999999)
    assert exponent.low < power < exponent.high
    assert exponent.high - exponent.low < 0.2


def test_growth_exponent_of_one_run_has_no_spread() -> None:
    rounds = np.arange(1, 50)
    exponent = metrics.growth_exponent(rounds, [rounds**2.0])
    assert exponent.low == exponent.mean == exponent.high == pytest.approx(2.0)


def test_growth_exponent_of_a_total_below_zero_is_unknown() -> None:
    rounds = np.arange(1, 50)
    assert math.isnan(metrics.growth_exponent(rounds, [-rounds, rounds - 20.0]).mean)


def test_growth_exponent_that_hangs_on_one_run_is_wide_open() -> None:
    rounds = np.arange(1, 50)
    exponent = metrics.growth_exponent(rounds, [100.0 * rounds, -1.0 * rounds])
    assert [exponent.low, exponent.high] == [-math.inf, math.inf]


def test_the_table_of_metrics_has_the_papers_panels_first() -> None:
    table = metrics.METRICS
    papers = [name for name, one in table.items() if one.in_paper]
    assert papers == ["regret", "violation", "reward", "ratio"] == list(table)[:4]
    assert [name for name, one in table.items() if one.is_bounded] == ["regret", "shortfall"]
    assert {name for name, one in table.items() if one.is_recorded} == {
        "violation",
        "reward",
        "clicks",
        "deficit",
    }
    assert all(one.has_panel == bool(one.meaning) for one in table.values())
