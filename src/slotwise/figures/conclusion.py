"""At which γ the paper's statements hold, and what follows from that in sentences.

Used by `report_contents`, `sweep_figure` and `cli`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from slotwise.figures import style
from slotwise.figures.claims import (
    CLAIMS,
    Claim,
    Finding,
    Verdict,
    all_of,
    findings_of,
    scale_phrase,
)
from slotwise.figures.setting import Setting
from slotwise.simulation.results import Results


class GammaRange(NamedTuple):
    """The scales of γ, of those that were run, at which one or more claims hold together."""

    verdict: Verdict
    """It holds if it does at one scale or more, and is undecided if it might at one."""
    scales: tuple[float, ...]
    phrase: str


@dataclass(frozen=True)
class Judged:
    """The findings on one data set at every scale of γ that was run."""

    setting: Setting
    findings: tuple[Finding, ...]

    @property
    def scales(self) -> tuple[float, ...]:
        """Every scale of γ that was run, the printed one first."""
        return tuple(sorted({finding.scale for finding in self.findings}, reverse=True))

    @property
    def stated(self) -> tuple[Claim, ...]:
        """What the paper says about this data set."""
        return tuple(claim for claim in CLAIMS if claim.is_stated(self.setting))

    def at(self, scale: float, claims: Sequence[Claim]) -> Verdict:
        """Return the verdict on several claims together at one scale."""
        found = {each.claim: each.verdict for each in self.findings if each.scale == scale}
        return all_of([found.get(claim, Verdict.UNKNOWN) for claim in claims])

    def range_of(self, *claims: Claim) -> GammaRange:
        """Return where these claims hold together."""
        verdicts = {scale: self.at(scale, claims) for scale in self.scales}
        holding = tuple(scale for scale, one in verdicts.items() if one is Verdict.HOLDS)
        if holding:
            return GammaRange(Verdict.HOLDS, holding, range_phrase(holding, self.scales))
        if Verdict.UNKNOWN in verdicts.values():
            return GammaRange(Verdict.UNKNOWN, (), "undecided")
        return GammaRange(Verdict.FAILS, (), range_phrase((), self.scales))


def judge(all_results: Iterable[Results]) -> list[Judged]:
    """Judge every claim on every data set; without Con-UCB there is nothing to judge.

    Several results of one data set, such as an experiment and a sweep, are judged together. A scale
    of γ that both have is judged on the one with more runs.
    """
    found: dict[str, dict[tuple[float, str], Finding]] = {}
    for results in all_results:
        for finding in findings_of(results):
            of_setting = found.setdefault(finding.setting.heading, {})
            key = (finding.scale, finding.claim.name)
            if key not in of_setting or of_setting[key].setting.n_runs < finding.setting.n_runs:
                of_setting[key] = finding
    return [
        Judged(next(iter(findings.values())).setting, tuple(findings.values()))
        for findings in found.values()
    ]


def range_phrase(holding: Sequence[float], tried: Sequence[float]) -> str:
    """Return scales in words; neighbours among those that were tried are one range.

    >>> tried = (1.0, 1 / 12, 1 / 72, 1 / 144)
    >>> range_phrase(tried[1:3], tried), range_phrase(tried, tried), range_phrase((), tried)
    ('γ/12 to γ/72', 'every γ that was tried', 'no γ that was tried')
    >>> range_phrase((1.0, 1 / 72, 1 / 144), tried)
    'the printed γ and γ/72 to γ/144'
    """
    if not holding or (len(holding) == len(tried) > 1):
        return f"{'every' if holding else 'no'} γ that was tried"
    ordered = sorted(tried, reverse=True)
    runs: list[list[float]] = []
    for place, scale in enumerate(ordered):
        if scale not in holding:
            continue
        if runs and place and ordered[place - 1] == runs[-1][-1]:
            runs[-1].append(scale)
        else:
            runs.append([scale])
    parts = [
        scale_phrase(run[0])
        if len(run) == 1
        else f"{scale_phrase(run[0])} to {scale_phrase(run[-1])}"
        for run in runs
    ]
    return listed(parts)


def common_range(judged: Sequence[Judged]) -> tuple[float, ...]:
    """Return the scales at which all statements of the paper hold on all of its data sets."""
    papers = [each for each in judged if each.stated]
    ranges = [set(each.range_of(*each.stated).scales) for each in papers]
    return tuple(sorted(set.intersection(*ranges), reverse=True)) if ranges else ()


def conclude(judged: Sequence[Judged], settings: Sequence[Setting]) -> list[str]:
    """Return the paragraphs of the conclusion; the first is its sentence about the paper."""
    if not judged:
        return ["Con-UCB was not run, so none of the paper's claims can be judged."]
    return [
        headline(judged),
        *_about_ranges(judged),
        _about_bound(settings),
        *_about_data(settings),
    ]


def headline(judged: Sequence[Judged]) -> str:
    """Say with which γ the paper's statements hold, and what the printed γ does."""
    papers = [each for each in judged if each.stated]
    if not papers:
        return "None of these data sets, with its floor, is one of the paper's."
    verdicts = [each.range_of(*each.stated).verdict for each in papers]
    common = common_range(judged)
    where = _where(papers)
    if not common and Verdict.UNKNOWN in verdicts:
        return f"Whether the paper's statements hold {where} is undecided."
    tried = sorted({scale for each in papers for scale in each.scales}, reverse=True)
    if common:
        start = f"All of the paper's statements hold {where} with {range_phrase(common, tried)}"
    else:
        start = f"With no γ that was tried do all of the paper's statements hold {where}"
    return f"{start}{_about_printed(papers)}."


def _where(papers: Sequence[Judged]) -> str:
    if len(papers) == 1:
        return f"on {papers[0].setting.short_heading}"
    n_data_sets = len({each.setting.original for each in papers})
    return f"on all {n_data_sets} data sets" if n_data_sets > 1 else "with all floors"


def _about_printed(papers: Sequence[Judged]) -> str:
    """Say where the statements hold with the printed γ, and how long its bounds say nothing."""
    printed = [each for each in papers if 1.0 in each.scales]
    whole = [each for each in printed if 1.0 in each.range_of(*each.stated).scales]
    if not printed or len(whole) == len(papers):
        return ""
    held = f"only on {listed(_titles(each.setting for each in whole))}" if whole else "on none"
    at_one = _spread([each.setting.views_at_one for each in printed])
    views = _spread([each.setting.mean_views for each in printed])
    return (
        f"; with the printed γ they hold together {held}: the bound of a link then stays at 1 for "
        f"its first {at_one} page views, and a link has {views} on average"
    )


def _spread(numbers: Sequence[float]) -> str:
    low, high = style.readable(min(numbers)), style.readable(max(numbers))
    return low if low == high else f"{low} to {high}"


def _about_ranges(judged: Sequence[Judged]) -> list[str]:
    """Say for each data set of the paper where its statements hold together, and what fails."""
    sentences = []
    for each in judged:
        if not each.stated:
            continue
        together = each.range_of(*each.stated)
        sentence = (
            f"{each.setting.short_heading}: the {len(each.stated)} statements of the paper hold "
            f"together with {together.phrase}."
            if together.verdict is not Verdict.UNKNOWN
            else f"{each.setting.short_heading}: the statements of the paper are undecided."
        )
        never = [
            claim.name for claim in each.stated if each.range_of(claim).verdict is Verdict.FAILS
        ]
        if never:
            verb = "fails" if len(never) == 1 else "fail"
            sentence += f" With every γ that was tried {verb}: {'; '.join(never)}."
        sentences.append(sentence)
    return sentences


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
    """Say which data are look-alikes, and where the floor is slack or out of reach."""
    look_alikes = _titles(setting for setting in settings if setting.is_look_alike)
    unkept = _titles(setting for setting in settings if setting.is_floor_infeasible)
    slack = _titles(
        setting for setting in settings if setting.config["optimum"].get("status") == "slack"
    )
    sentences = []
    if look_alikes:
        sentences.append(
            f"Look-alike data ({listed(look_alikes)}) resemble the paper's in size and shape; "
            "what holds on them need not hold on the originals."
        )
    if slack:
        sentences.append(
            f"On {listed(slack)} the floor is slack: it costs nothing, so these results do not "
            "test the floor program."
        )
    if unkept:
        sentences.append(
            f"On {listed(unkept)} no page reaches the floor: regret is relative to the most "
            "clicked page, and violation and shortfall grow for every policy."
        )
    return sentences


def _titles(settings: Iterable[Setting]) -> list[str]:
    return [setting.short_heading for setting in settings]


def listed(names: Sequence[str]) -> str:
    """Return names with commas and "and"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
