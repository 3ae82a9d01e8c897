"""The measures of an experiment, as functions of arrays.

Every measure is cumulative: `rounds` holds how many rounds have passed, and the totals next to it
hold the sums up to that round. Totals may have further leading axes, for example one for runs. Used
by `figures` and `simulation`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from slotwise.arrays import Floats, Whole
from slotwise.errors import InvalidInput
from slotwise.extras import naming_extra
from slotwise.selection.confidence import paper_gamma

__all__ = [
    "METRICS",
    "Interval",
    "Measured",
    "Metric",
    "first_useful_round",
    "growth_exponent",
    "mean_interval",
    "ratio",
    "regret",
    "shortfall",
    "student_quantile",
    "theorem_bound",
    "trivial_bound",
    "violation_of_round",
]


class Interval(NamedTuple):
    """A mean and the two ends of its confidence interval."""

    mean: Floats
    low: Floats
    high: Floats


def regret(rounds: ArrayLike, optimum: float, reward: ArrayLike) -> Floats:
    """Return the revenue missed against the best fixed mix: t · x*·g − Σ g shown.

    Negative if chance, or a missed floor, brought more than the best mix earns on average.

    >>> regret([10, 20], optimum=0.5, reward=[4.0, 9.5]).tolist()
    [1.0, 0.5]
    """
    return np.asarray(rounds, np.float64) * optimum - np.asarray(reward, np.float64)


def violation_of_round(floor: float, clicks: ArrayLike) -> Floats:
    """Return by how much each round misses the floor, (h − clicks)₊; the paper plots the sum.

    Rounds above the floor do not compensate for rounds below it, so the violation of even the
    best mix grows in proportion to the rounds.

    >>> violation_of_round(2.0, [0, 1, 2, 5]).tolist()
    [2.0, 1.0, 0.0, 0.0]
    """
    return np.maximum(floor - np.asarray(clicks, np.float64), 0.0)


def shortfall(rounds: ArrayLike, floor: float, clicks: ArrayLike) -> Floats:
    """Return the clicks missing in total so far, [h·t − Σ clicks]₊; the theorem bounds this.

    >>> shortfall([10, 20], floor=2.0, clicks=[15, 44]).tolist()
    [5.0, 0.0]
    """
    promised = np.asarray(rounds, np.float64) * floor
    return np.maximum(promised - np.asarray(clicks, np.float64), 0.0)


def ratio(reward: ArrayLike, violation: ArrayLike) -> Floats:
    """Return reward / violation: infinite without violation, not a number for 0 / 0.

    Not a measure of quality: more clicks than the floor needs raise it above the ratio of the
    best mix.

    >>> ratio([3.0, 3.0], [2.0, 0.0]).tolist()
    [1.5, inf]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(reward, np.float64) / np.asarray(violation, np.float64)


class Measured(NamedTuple):
    """What metrics are computed from: checkpoints, optimum, floor and the recorded totals."""

    rounds: Whole
    optimum: float
    click_floor: float
    totals: Mapping[str, Floats]


@dataclass(frozen=True)
class Metric:
    """A measure of results, and where it is shown.

    `of` computes it over time, one row per run. `title` and `meaning` are those of its panel; a
    metric without them has no panel in the figure of an experiment. Tables of final values have the
    metrics that are `in_tables`.
    """

    name: str
    of: Callable[[Measured], Floats]
    is_recorded: bool = False
    """Whether the engine records it as a total; the others are computed from recorded ones."""
    title: str = ""
    meaning: str = ""
    in_tables: bool = True
    in_paper: bool = False
    """Whether the paper's figures have it."""
    is_loss: bool = False
    """Whether lower is better."""
    is_bounded: bool = False
    """Whether the paper's theorem bounds it."""

    @property
    def has_panel(self) -> bool:
        """Whether the figure of an experiment has a panel for it."""
        return bool(self.title)


def _recorded(name: str, **shown: str | bool) -> Metric:
    return Metric(name, lambda measured: measured.totals[name], is_recorded=True, **shown)  # type: ignore[arg-type]


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        one.name: one
        for one in (
            Metric(
                "regret",
                lambda of: regret(of.rounds, of.optimum, of.totals["reward"]),
                title="Cumulative regret",
                meaning="revenue missed relative to the best mix that keeps the floor",
                in_paper=True,
                is_loss=True,
                is_bounded=True,
            ),
            _recorded(
                "violation",
                title="Cumulative violation",
                meaning="clicks below the floor, summed over rounds",
                in_paper=True,
                is_loss=True,
            ),
            _recorded(
                "reward",
                title="Cumulative compound reward",
                meaning="total revenue; dotted: expectation of the best mix",
                in_paper=True,
            ),
            Metric(
                "ratio",
                lambda of: ratio(of.totals["reward"], of.totals["violation"]),
                title="Reward / violation",
                meaning="revenue per click below the floor",
                in_tables=False,  # more clicks than the floor needs raise it
                in_paper=True,
            ),
            Metric(
                "shortfall",
                lambda of: shortfall(of.rounds, of.click_floor, of.totals["clicks"]),
                title="Shortfall",
                meaning="clicks missing in total, which the theorem bounds",
                is_loss=True,
                is_bounded=True,
            ),
            _recorded("clicks"),
            _recorded("deficit", in_tables=False),
        )
    }
)
"""Every metric by its name, in the order of panels and tables."""


def theorem_bound(
    n_links: int,
    n_slots: int,
    n_rounds: int,
    failure_probability: float,
    gamma_scale: float = 1.0,
) -> float:
    """Return what the paper's theorem promises of Con-UCB's regret and shortfall, made explicit.

        2L·sqrt(2T ln(16/δ)) + 4(2·sqrt(γKLT) + Kγ(1 + ln(LT/K))),   γ = 72 ln(8KT/δ)

    Each is at most this with probability 1 − δ. With `gamma_scale` below 1 the formula is the same,
    but it is no longer a guarantee: the proof needs the paper's γ.

    >>> round(theorem_bound(271, 15, 50_000, 0.01) / 1e6, 1)
    20.8
    """
    _check_sizes(n_links, n_slots, n_rounds, failure_probability)
    gamma = gamma_scale * paper_gamma(n_links, n_rounds, failure_probability)
    chance = 2 * n_slots * math.sqrt(2 * n_rounds * math.log(16 / failure_probability))
    plays = n_slots * n_rounds
    spread = 2 * math.sqrt(gamma * n_links * plays)
    start = n_links * gamma * max(0.0, 1 + math.log(plays / n_links))
    return chance + 4 * (spread + start)


def trivial_bound(n_slots: int, n_rounds: int) -> float:
    """Return L·T, which the regret and the shortfall of no policy can exceed.

    >>> trivial_bound(15, 50_000)
    750000.0
    """
    return float(n_slots) * n_rounds


def first_useful_round(n_links: int, n_slots: int, failure_probability: float) -> int:
    """Return the horizon from which the theorem's bound is below the trivial one.

    >>> horizon = first_useful_round(271, 15, 0.01)
    >>> theorem_bound(271, 15, horizon, 0.01) < trivial_bound(15, horizon)
    True
    >>> theorem_bound(271, 15, horizon - 1, 0.01) < trivial_bound(15, horizon - 1)
    False
    """

    def is_useful(n_rounds: int) -> bool:
        bound = theorem_bound(n_links, n_slots, n_rounds, failure_probability)
        return bound < trivial_bound(n_slots, n_rounds)

    return 2 + bisect_left(range(2, 2**60), True, key=is_useful)


def mean_interval(samples: ArrayLike, level: float = 0.95) -> Interval:
    """Return mean and Student-t confidence interval over the first axis.

        mean ± t(level, n − 1) · s / sqrt(n)

    The interval of a single sample is the sample itself. If a sample is infinite or not a number,
    the ends are the smallest and the largest sample.

    >>> mean, low, high = mean_interval([1.0, 2.0, 3.0])
    >>> f"{mean:.1f} ({low:.3f} to {high:.3f})"
    '2.0 (-0.484 to 4.484)'
    """
    values = np.asarray(samples, np.float64)
    if values.ndim == 0 or len(values) == 0:
        raise InvalidInput.of("samples", "at least one sample on the first axis", samples)
    with np.errstate(invalid="ignore"):
        mean = np.asarray(values.mean(axis=0))
        if len(values) == 1:
            return Interval(mean, mean.copy(), mean.copy())
        spread = values.std(axis=0, ddof=1)
        half = student_quantile(level, len(values) - 1) * spread / math.sqrt(len(values))
        is_finite = np.isfinite(values).all(axis=0)
        low = np.where(is_finite, mean - half, values.min(axis=0))
        high = np.where(is_finite, mean + half, values.max(axis=0))
    return Interval(mean, low, high)


def growth_exponent(rounds: ArrayLike, totals: ArrayLike, level: float = 0.95) -> Interval:
    """Return the power of t with which a total grew over the second half of the rounds.

    The slope of log(mean total) against log(t) by least squares: 1 is linear growth, 1/2 the
    square root. The interval is a jackknife that leaves out one run at a time, because the total of
    a single run may be negative and have no logarithm. Not a number if the mean is not positive.

    `totals` has one row per run.

    >>> t = np.arange(1, 101)
    >>> runs = np.sqrt(t) * np.array([[2.9], [3.0], [3.1]])
    >>> f"{growth_exponent(t, runs).mean:.3f}"
    '0.500'
    """
    passed = np.asarray(rounds, np.float64)
    is_late = passed >= passed[-1] / 2
    log_rounds = np.log(passed[is_late])
    late = np.asarray(totals, np.float64)[:, is_late]
    n_runs = len(late)
    slope = _log_slope(log_rounds, late.mean(axis=0))
    if n_runs == 1 or math.isnan(slope):
        return _scalar_interval(slope, slope, slope)
    total = late.sum(axis=0)
    without = np.array([_log_slope(log_rounds, (total - run) / (n_runs - 1)) for run in late])
    with np.errstate(invalid="ignore"):
        pseudo_values = n_runs * slope - (n_runs - 1) * without
    if not np.isfinite(pseudo_values).all():
        return _scalar_interval(slope, -math.inf, math.inf)
    spread = mean_interval(pseudo_values, level)
    half = float(spread.high - spread.mean)
    return _scalar_interval(slope, slope - half, slope + half)


def student_quantile(level: float, degrees: int) -> float:
    """Return t such that a Student-t variable is in [−t, t] with probability `level`.

    >>> round(student_quantile(0.95, 199), 4)
    1.972
    """
    if not 0 < level < 1:
        raise InvalidInput.of("level", "between 0 and 1", level)
    if degrees < 1:
        raise InvalidInput.of("degrees", "at least 1", degrees)
    with naming_extra("an interval over runs"):
        from scipy.special import stdtrit  # slow to import

    return float(stdtrit(degrees, (1.0 + level) / 2.0))


def _log_slope(log_rounds: Floats, totals: Floats) -> float:
    if len(totals) < 2 or not (np.isfinite(totals).all() and totals.min() > 0):
        return math.nan
    centred = log_rounds - log_rounds.mean()
    return float(centred @ np.log(totals) / (centred @ centred))


def _scalar_interval(mean: float, low: float, high: float) -> Interval:
    return Interval(np.array(mean), np.array(low), np.array(high))


def _check_sizes(n_links: int, n_slots: int, n_rounds: int, failure_probability: float) -> None:
    if n_links < 1:
        raise InvalidInput.of("n_links", "at least 1", n_links)
    if not 1 <= n_slots <= n_links:
        raise InvalidInput.of("n_slots", f"between 1 and n_links ({n_links})", n_slots)
    if n_rounds < 1:
        raise InvalidInput.of("n_rounds", "at least 1", n_rounds)
    if not 0 < failure_probability < 1:
        raise InvalidInput.of("failure_probability", "between 0 and 1", failure_probability)
