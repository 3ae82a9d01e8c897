"""The paper's claims, each judged on the results of one data set.

Used by `conclusion`, `paper_report`, `report_contents` and `cli`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import NamedTuple

import numpy as np

from slotwise import metrics
from slotwise.figures import style
from slotwise.figures.setting import Setting
from slotwise.simulation.results import Results

SUB_LINEAR_BELOW = 0.95
"""Growth like t to this power or more counts as linear. Over 50,000 rounds, a curve that is linear
except for its first rounds has an exponent slightly below 1, and must not count as sub-linear."""

MIN_CHECKPOINTS = 4
QUICK_LOOK_BELOW = 5_000


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
        return style.measured(mean)
    return f"{style.measured(mean)} ({style.measured(low)} to {style.measured(high)})"


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
    return f"{style.display_name(label)} {with_interval(*map(float, interval))}"


def judge_sub_linear(results: Results, label: str, metric: str) -> Judgement:
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


HUGE = 2.0
"""The paper calls the violations of other policies huge without a number; here, this factor."""

Judge = Callable[[Results, str], Judgement]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper that data can contradict."""

    name: str
    sentence: str
    judge: Judge
    stated_about: tuple[str, ...] = ()
    """The data sets about which the paper says it, by the names of their loaders."""

    def is_stated(self, setting: Setting) -> bool:
        """Return whether the paper says it about this data set with this floor."""
        return setting.original in self.stated_about and setting.has_papers_floor


@dataclass(frozen=True)
class Finding:
    """The judgement of one claim on one data set, for Con-UCB at one scale of γ."""

    claim: Claim
    setting: Setting
    label: str
    scale: float
    judgement: Judgement

    @property
    def verdict(self) -> Verdict:
        """The verdict alone."""
        return self.judgement.verdict


def scale_phrase(scale: float) -> str:
    """Return a scale of γ in words.

    >>> scale_phrase(1.0), scale_phrase(1 / 72)
    ('the printed γ', 'γ/72')
    """
    name = style.scale_name(scale)
    if scale == 1:
        return "the printed γ"
    return f"γ{name.removeprefix('1')}" if name.startswith("1/") else f"{name} γ"


def is_quick_look(results: Results) -> bool:
    """Return whether there are too few rounds to judge claims about 50,000 of them."""
    return results.n_rounds < QUICK_LOOK_BELOW


def quick_look_note(all_results: Iterable[Results]) -> str:
    """Return a warning about results of few rounds; empty if there are none."""
    short = next(filter(is_quick_look, all_results), None)
    if short is None:
        return ""
    size = f"{short.n_runs} runs of {short.n_rounds:,} rounds"
    return f"This is a quick look ({size}): too few to judge a claim. `slotwise reproduce` does."


def findings_of(results: Results) -> list[Finding]:
    """Judge every claim on one data set, for every Con-UCB in it, the largest γ first."""
    setting = Setting.of(results)
    found = []
    for label in setting.labels_of_policy(results.labels, style.SUBJECT):
        scale = setting.gamma_scale(label)
        if scale is None:
            continue
        for claim in CLAIMS:
            judgement = claim.judge(results, label)
            if is_quick_look(results):
                judgement = Judgement(Verdict.UNKNOWN, f"too few rounds; {judgement.evidence}")
            found.append(Finding(claim, setting, label, scale, judgement))
    return sorted(found, key=lambda finding: -finding.scale)


@dataclass(frozen=True)
class Comparison:
    """A comparison of Con-UCB with others: below, or above, each of them by a factor.

    The policies of `allies` are compared with the others in the same way.
    """

    metric: str
    others: tuple[str, ...]
    is_below: bool = True
    factor: float = 1.0
    allies: tuple[str, ...] = ()

    def __call__(self, results: Results, label: str) -> Judgement:
        """Judge the Con-UCB of `label`; undecided if one of the others was not run."""
        setting = Setting.of(results)

        def was_run(name: str) -> bool:
            return bool(setting.labels_of_policy(results.labels, name))

        def evidence(name: str) -> str:
            if not was_run(name):
                return f"{style.display_name(name)} was not run"
            found = setting.labels_of_policy(results.labels, name)[0]
            return final_evidence(results, self.metric, found)

        verdicts = []
        for name in self.others:
            for ally in (None, *self.allies):
                if not was_run(name) or (ally is not None and not was_run(ally)):
                    verdicts.append(Verdict.UNKNOWN)
                    continue
                other = setting.labels_of_policy(results.labels, name)[0]
                own = label if ally is None else setting.labels_of_policy(results.labels, ally)[0]
                pair = (own, other) if self.is_below else (other, own)
                verdicts.append(judge_below(results, self.metric, *pair, self.factor))
        ours = [final_evidence(results, self.metric, label), *map(evidence, self.allies)]
        note = "; one run has no interval" if results.n_runs == 1 else ""
        theirs = ", ".join(map(evidence, self.others))
        return Judgement(all_of(verdicts), f"{' and '.join(ours)} against {theirs}{note}")


WITH_FLOOR = tuple(name for name in style.BASELINES if name not in style.FLOORLESS)

COUPONS, ADS, COURSES = "coupon-purchase", "ad-clicks", "edx-course"
EVERYWHERE = (COUPONS, ADS, COURSES)

CLAIMS = (
    Claim(
        "regret below LExp's",
        "The regret of Con-UCB is below LExp's",
        Comparison("regret", WITH_FLOOR),
        stated_about=EVERYWHERE,
    ),
    Claim(
        "reward above LExp's",
        "The reward of Con-UCB is above LExp's",
        Comparison("reward", WITH_FLOOR, is_below=False),
        stated_about=EVERYWHERE,
    ),
    Claim(
        "lowest violation",
        "Con-UCB has the lowest violation of the four algorithms",
        Comparison("violation", style.BASELINES),
        stated_about=EVERYWHERE,
    ),
    Claim(
        "largest ratio",
        "Con-UCB has the largest ratio of reward to violation",
        Comparison("ratio", style.BASELINES, is_below=False),
        stated_about=EVERYWHERE,
    ),
    Claim(
        "more revenue without a floor",
        "CUCB and Exp3.M earn more than Con-UCB and LExp",
        Comparison("reward", style.FLOORLESS, allies=WITH_FLOOR),
        stated_about=(COUPONS,),
    ),
    Claim(
        "huge violations without a floor",
        f"The violations of CUCB and Exp3.M are huge (here: over {HUGE:g} times Con-UCB's)",
        Comparison("violation", style.FLOORLESS, factor=HUGE),
        stated_about=(COUPONS,),
    ),
    Claim(
        "sub-linear regret",
        f"Con-UCB's regret grows sub-linearly (here: slower than t^{SUB_LINEAR_BELOW:g})",
        partial(judge_sub_linear, metric="regret"),
    ),
    Claim(
        "sub-linear shortfall",
        "Con-UCB's shortfall, which the theorem bounds, grows sub-linearly",
        partial(judge_sub_linear, metric="shortfall"),
    ),
)
