"""Verdicts on claims, computed from intervals over runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np

from slotwise import metrics
from slotwise.figures.look.known_policies import display_name
from slotwise.figures.look.style import measured
from slotwise.simulation.results import Results

__all__ = [
    "SUB_LINEAR_BELOW",
    "Judgement",
    "Verdict",
    "all_of",
    "final_evidence",
    "judge_below",
    "judge_sub_linear",
    "with_interval",
]

SUB_LINEAR_BELOW = 0.95
"""Growth like t to this power or more counts as linear. Over 50,000 rounds, a curve that is linear
except for its first rounds has an exponent slightly below 1, and must not count as sub-linear."""

MIN_CHECKPOINTS = 4


class Verdict(Enum):
    """The verdict of the data on a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNKNOWN = "undecided"


class Judgement(NamedTuple):
    """A verdict and the numbers that it is based on."""

    verdict: Verdict
    evidence: str


def with_interval(mean: float, low: float, high: float) -> str:
    """Return a measured number with its interval.

    >>> with_interval(23_500, 23_000, 24_000)
    '23.5k (23.0k to 24.0k)'
    """
    if low == high or math.isnan(mean):
        return measured(mean)
    return f"{measured(mean)} ({measured(low)} to {measured(high)})"


def judge_below(
    results: Results, metric: str, lower: str, upper: str, factor: float = 1.0
) -> Verdict:
    """Judge whether `factor` times a metric of `lower` is below that of `upper`.

    In a run all policies meet the same visitors, so the interval is that of the difference within
    each run. The claim holds if the whole interval is on its side of zero. One run has no interval.
    """
    left, right = results.final(lower, metric), results.final(upper, metric)
    n_shared = min(len(left), len(right))
    if n_shared == 1:
        return Verdict.UNKNOWN
    with np.errstate(invalid="ignore"):
        difference = right[:n_shared] - factor * left[:n_shared]
    _, low, high = map(float, metrics.mean_interval(difference))
    if low > 0:
        return Verdict.HOLDS
    if high < 0 or low == high == 0:
        return Verdict.FAILS
    return Verdict.UNKNOWN


def final_evidence(results: Results, metric: str, label: str) -> str:
    """Return the name of a policy and the final value of its metric."""
    interval = metrics.mean_interval(results.final(label, metric))
    return f"{display_name(label)} {with_interval(*map(float, interval))}"


def judge_sub_linear(results: Results, metric: str, label: str) -> Judgement:
    """Judge whether a metric grew more slowly than the rounds over their second half."""
    totals = results.over_time(label, metric)
    end = metrics.mean_interval(totals[:, -1])
    if len(totals) == 1:
        return Judgement(Verdict.UNKNOWN, "one run has no interval")
    if end.high <= 0:
        return Judgement(
            Verdict.HOLDS, f"ends at {with_interval(*map(float, end))}, so it does not grow"
        )
    if (results.rounds >= results.n_rounds / 2).sum() < MIN_CHECKPOINTS:
        return Judgement(Verdict.UNKNOWN, "too few checkpoints in the second half of the rounds")
    mean, low, high = map(float, metrics.growth_exponent(results.rounds, totals))
    if math.isnan(mean) or math.isinf(low):
        return Judgement(Verdict.UNKNOWN, "too close to zero to fit its growth")
    evidence = f"grows like t^{mean:.2f} ({low:.2f} to {high:.2f}); twice the rounds give "
    evidence += f"{2**mean:.2f} times as much"
    if high < SUB_LINEAR_BELOW:
        return Judgement(Verdict.HOLDS, evidence)
    if low >= SUB_LINEAR_BELOW:
        return Judgement(Verdict.FAILS, evidence)
    return Judgement(Verdict.UNKNOWN, evidence)


def all_of(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict on a claim with several parts; it fails if one part fails.

    >>> all_of([Verdict.HOLDS, Verdict.UNKNOWN, Verdict.FAILS])
    <Verdict.FAILS: 'does not hold'>
    """
    for verdict in (Verdict.FAILS, Verdict.UNKNOWN):
        if verdict in verdicts:
            return verdict
    return Verdict.HOLDS
