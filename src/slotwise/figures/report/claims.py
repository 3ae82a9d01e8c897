"""The paper's claims, each judged on the results of one data set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slotwise.figures.look.known_policies import BASELINES, FLOORLESS, SUBJECT, display_name
from slotwise.figures.look.style import scale_name
from slotwise.figures.report.verdicts import (
    SUB_LINEAR_BELOW,
    Judgement,
    Verdict,
    all_of,
    final_evidence,
    judge_below,
    judge_sub_linear,
)
from slotwise.figures.results.setting import Setting
from slotwise.simulation.results import Results

__all__ = ["CLAIMS", "HUGE", "Claim", "Finding", "findings_of", "scale_phrase"]

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
    name = scale_name(scale)
    if scale == 1:
        return "the printed γ"
    return f"γ{name.removeprefix('1')}" if name.startswith("1/") else f"{name} γ"


def findings_of(results: Results) -> list[Finding]:
    """Judge every claim on one data set, for every Con-UCB in it, the largest γ first."""
    setting = Setting.of(results)
    found = []
    for label in setting.labels_of_policy(results.labels, SUBJECT):
        scale = setting.gamma_scale(label)
        if scale is None:
            continue
        found += [
            Finding(claim, setting, label, scale, claim.judge(results, label)) for claim in CLAIMS
        ]
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
                parts.append(f"{display_name(name)} was not run")
                continue
            pair = (label, labels[0]) if self.is_below else (labels[0], label)
            verdicts.append(judge_below(results, self.metric, *pair, self.factor))
            parts.append(final_evidence(results, self.metric, labels[0]))
        own = final_evidence(results, self.metric, label)
        note = "; one run has no interval" if results.n_runs == 1 else ""
        return Judgement(all_of(verdicts), f"{own} against {', '.join(parts)}{note}")


@dataclass(frozen=True)
class SubLinearGrowth:
    """The claim that a metric of Con-UCB grows more slowly than the rounds."""

    metric: str

    def __call__(self, results: Results, label: str) -> Judgement:
        """Judge the Con-UCB of `label`."""
        return judge_sub_linear(results, self.metric, label)


WITH_FLOOR = tuple(name for name in BASELINES if name not in FLOORLESS)

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
        Comparison("violation", BASELINES),
        is_ordering=True,
    ),
    Claim(
        "largest ratio",
        "Con-UCB has the largest ratio of reward to violation",
        Comparison("ratio", BASELINES, is_below=False),
        is_ordering=True,
    ),
    Claim(
        "less revenue than CUCB and Exp3.M",
        "CUCB and Exp3.M earn more than Con-UCB",
        Comparison("reward", FLOORLESS),
    ),
    Claim(
        "huge violations of CUCB and Exp3.M",
        f"The violations of CUCB and Exp3.M are huge (here: over {HUGE:g} times Con-UCB's)",
        Comparison("violation", FLOORLESS, factor=HUGE),
    ),
    Claim(
        "sub-linear regret",
        f"Con-UCB's regret grows sub-linearly (here: slower than t^{SUB_LINEAR_BELOW:g})",
        SubLinearGrowth("regret"),
    ),
    Claim(
        "sub-linear violation",
        "Con-UCB's violation, summed round by round, grows sub-linearly",
        SubLinearGrowth("violation"),
    ),
    Claim(
        "sub-linear shortfall",
        "Con-UCB's shortfall, which the theorem bounds, grows sub-linearly",
        SubLinearGrowth("shortfall"),
    ),
)
