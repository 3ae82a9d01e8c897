"""The paper's claims, each judged on the results of one data set.

Used by `paper_report` and `cli`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import NamedTuple

import numpy as np

from slotwise import metrics
from slotwise.figures import style
from slotwise.figures.panels import Setting
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
    is_ordering: bool = False
    """Whether it claims that Con-UCB is better than the other algorithms."""


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
    """A comparison of Con-UCB with others: below, or above, each of them by a factor."""

    metric: str
    others: tuple[str, ...]
    is_below: bool = True
    factor: float = 1.0

    def __call__(self, results: Results, label: str) -> Judgement:
        """Judge the Con-UCB of `label`; undecided if one of the others was not run."""
        setting = Setting.of(results)
        verdicts, parts = [], []
        for name in self.others:
            labels = setting.labels_of_policy(results.labels, name)
            if not labels:
                verdicts.append(Verdict.UNKNOWN)
                parts.append(f"{style.display_name(name)} was not run")
                continue
            pair = (label, labels[0]) if self.is_below else (labels[0], label)
            verdicts.append(judge_below(results, self.metric, *pair, self.factor))
            parts.append(final_evidence(results, self.metric, labels[0]))
        own = final_evidence(results, self.metric, label)
        note = "; one run has no interval" if results.n_runs == 1 else ""
        return Judgement(all_of(verdicts), f"{own} against {', '.join(parts)}{note}")


WITH_FLOOR = tuple(name for name in style.BASELINES if name not in style.FLOORLESS)

CLAIMS = (
    Claim(
        "regret below LExp's",
        "The regret of Con-UCB is below LExp's",
        Comparison("regret", WITH_FLOOR),
        is_ordering=True,
    ),
    Claim(
        "lowest violation",
        "Con-UCB has the lowest violation of the four algorithms",
        Comparison("violation", style.BASELINES),
        is_ordering=True,
    ),
    Claim(
        "largest ratio",
        "Con-UCB has the largest ratio of reward to violation",
        Comparison("ratio", style.BASELINES, is_below=False),
        is_ordering=True,
    ),
    Claim(
        "less revenue than CUCB and Exp3.M",
        "CUCB and Exp3.M earn more than Con-UCB",
        Comparison("reward", style.FLOORLESS),
    ),
    Claim(
        "huge violations of CUCB and Exp3.M",
        f"The violations of CUCB and Exp3.M are huge (here: over {HUGE:g} times Con-UCB's)",
        Comparison("violation", style.FLOORLESS, factor=HUGE),
    ),
    Claim(
        "sub-linear regret",
        f"Con-UCB's regret grows sub-linearly (here: slower than t^{SUB_LINEAR_BELOW:g})",
        partial(judge_sub_linear, metric="regret"),
    ),
    Claim(
        "sub-linear violation",
        "Con-UCB's violation, summed round by round, grows sub-linearly",
        partial(judge_sub_linear, metric="violation"),
    ),
    Claim(
        "sub-linear shortfall",
        "Con-UCB's shortfall, which the theorem bounds, grows sub-linearly",
        partial(judge_sub_linear, metric="shortfall"),
    ),
)


VERBS: Mapping[Verdict, tuple[str, str]] = {
    Verdict.HOLDS: ("holds", "hold"),
    Verdict.FAILS: ("fails", "fail"),
    Verdict.UNKNOWN: ("is undecided", "are undecided"),
}


def conclude(findings: Sequence[Finding], settings: Sequence[Setting]) -> list[str]:
    """Return the paragraphs of the conclusion."""
    if not findings:
        return ["Con-UCB was not run, so none of the paper's claims can be judged."]
    scales = sorted({finding.scale for finding in findings}, reverse=True)
    return [
        _about_ordering(scales, findings),
        *(_about_scale(scale, findings) for scale in scales),
        _about_bound(settings),
        *_about_data(settings),
    ]


def _about_scale(scale: float, findings: Sequence[Finding]) -> str:
    """State which claims hold everywhere, which nowhere, and where the others hold."""
    ours = [finding for finding in findings if finding.scale == scale]
    verdicts = {
        claim: {
            finding.setting.short_heading: finding.verdict
            for finding in ours
            if finding.claim is claim
        }
        for claim in CLAIMS
    }
    n_settings = len({finding.setting.short_heading for finding in ours})
    where = (
        f"on all {n_settings} data sets"
        if n_settings > 1
        else f"on {ours[0].setting.short_heading}"
    )
    parts = []
    for verdict, (of_one, of_many) in VERBS.items():
        agreed = [claim.name for claim, said in verdicts.items() if set(said.values()) == {verdict}]
        if agreed:
            verb = of_one if len(agreed) == 1 else of_many
            parts.append(f"{len(agreed)} {verb} {where} ({'; '.join(agreed)})")
    mixed = [
        _about_mixed(claim, said) for claim, said in verdicts.items() if len(set(said.values())) > 1
    ]
    if not parts:
        parts = ["none has the same verdict on all data sets"]
    opening = f"Of the {len(CLAIMS)} claims, with {scale_phrase(scale)}, {_listed(parts)}."
    return " ".join([opening, *mixed])


def _about_mixed(claim: Claim, said: Mapping[str, Verdict]) -> str:
    parts = []
    for verdict in Verdict:
        titles = [title for title, one in said.items() if one is verdict]
        if titles:
            parts.append(f"{verdict.value} on {_listed(titles)}")
    return f"The claim of {claim.name} {', '.join(parts[:-1])} and {parts[-1]}."


def _about_ordering(scales: Sequence[float], findings: Sequence[Finding]) -> str:
    """State where Con-UCB is better than the others, as the paper reports."""
    if all(one.verdict is Verdict.UNKNOWN for one in findings if one.claim.is_ordering):
        return "Whether the paper's ordering of the algorithms is reproduced is undecided."
    parts = []
    for scale in scales:
        ordering = [
            finding for finding in findings if finding.scale == scale and finding.claim.is_ordering
        ]
        settings = list(dict.fromkeys(finding.setting for finding in ordering))
        whole = _titles(
            setting
            for setting in settings
            if all(
                finding.verdict is Verdict.HOLDS
                for finding in ordering
                if finding.setting is setting
            )
        )
        if len(whole) == len(settings):
            where = f"on all {len(whole)} data sets" if len(whole) > 1 else f"on {whole[0]}"
        else:
            where = f"on {_listed(whole)} only" if whole else "on no data set"
        parts.append(f"with {scale_phrase(scale)} {where}")
    return f"The paper's ordering of the algorithms is fully reproduced {'; '.join(parts)}."


def _about_bound(settings: Sequence[Setting]) -> str:
    empty = [setting for setting in settings if setting.theorem_bound >= setting.trivial_bound]
    if not empty:
        return "The theorem's bound is below L·T on every data set, so it is informative here."
    numbers = [
        f"{setting.short_heading}: {style.readable(setting.theorem_bound)} "
        f"against {style.readable(setting.trivial_bound)}"
        for setting in empty
    ]
    return (
        "The theorem's bound, made explicit, is above L·T, which no policy can exceed, so it is "
        f"not informative at this horizon ({'; '.join(numbers)})."
    )


def _about_data(settings: Sequence[Setting]) -> list[str]:
    look_alikes = _titles(setting for setting in settings if setting.is_look_alike)
    unkept = _titles(setting for setting in settings if setting.is_floor_infeasible)
    slack = _titles(
        setting for setting in settings if setting.config["optimum"].get("status") == "slack"
    )
    said = []
    if look_alikes:
        said.append(
            f"Look-alike data ({_listed(look_alikes)}) resemble the paper's in size and shape; "
            "what holds on them need not hold on the originals."
        )
    if slack:
        said.append(
            f"On {_listed(slack)} the floor is slack: it costs nothing, so these results do not "
            "test the floor program."
        )
    if unkept:
        said.append(
            f"On {_listed(unkept)} no page reaches the floor: regret is relative to the most "
            "clicked page, and violation and shortfall grow for every policy."
        )
    return said


def _titles(settings: Iterable[Setting]) -> list[str]:
    return [setting.short_heading for setting in settings]


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
