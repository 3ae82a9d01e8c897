"""What the report says: for each data set its facts, tables and judged claims, then a conclusion.

`paper_report` writes it as HTML and Markdown. Used by `paper_report` and `cli`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from slotwise import metrics
from slotwise.figures import style
from slotwise.figures.claims import (
    CLAIMS,
    Finding,
    findings_of,
    quick_look_note,
    scale_phrase,
    with_interval,
)
from slotwise.figures.conclusion import GammaRange, Judged, conclude, judge
from slotwise.figures.panels import PANELS
from slotwise.figures.setting import Setting
from slotwise.figures.sweep_figure import is_sweep
from slotwise.policies import default_policy
from slotwise.simulation.results import Results

COMPARED = tuple(name for name, one in metrics.METRICS.items() if one.is_bounded)
"""The metrics by which other policies are compared with Con-UCB."""

TABLED = tuple(panel.metric for panel in PANELS)
"""The metrics of the tables of final values."""

Rows = list[tuple[str, list[str]]]
"""A table: the name of each row, and its cells."""


def compare_other_policies(results: Sequence[Results]) -> dict[str, Rows]:
    """Return a table for each policy that is not in the paper and ran with all of the paper's.

    A row is a data set. Its cells are means after the last round: the regret of the policy and of
    Con-UCB, then the shortfall of both; Con-UCB is that of the γ with the lowest regret.
    """
    rows: dict[str, Rows] = {}
    for each in results:
        setting = Setting.of(each)
        for label in each.labels:
            if not setting.is_in_paper(label):
                name = style.display_name(label, 60)
                if label == default_policy().name:
                    name += ", the default policy of slotwise"
                row = (setting.heading, _compared(each, setting, label))
                rows.setdefault(name, []).append(row)
    return rows


def _compared(results: Results, setting: Setting, label: str) -> list[str]:
    ours = setting.labels_of_policy(results.labels, style.SUBJECT)
    best = min(ours, key=lambda one: results.final(one, "regret").mean())
    cells = []
    for metric in COMPARED:
        means = [float(results.final(one, metric).mean()) for one in (label, best)]
        own, theirs = map(style.measured, means)
        cells += [own, f"{theirs} ({style.display_name(best)})"]
    return cells


@dataclass(frozen=True)
class Chapter:
    """One data set: its settings, its tables, the claims judged on it, its figure."""

    setting: Setting
    results: Results
    figure_name: str
    facts: list[tuple[str, str]]
    rows: Rows
    bound_rows: Rows
    findings: list[Finding]

    @property
    def caption(self) -> str:
        """The description of the figure, also for screen readers."""
        return (
            f"{self.setting.heading}: cumulative regret, violation, compound reward, ratio and "
            f"shortfall of {', '.join(map(self.setting.marked_name, self.results.labels))}; "
            "mean over runs with 95 % bands."
        )


class ClaimRow(NamedTuple):
    """With which γ a claim holds on each data set; None where it is not in this table."""

    name: str
    sentence: str
    cells: list[GammaRange | None]


class ClaimsTable(NamedTuple):
    """Claims on data sets."""

    settings: list[Setting]
    rows: list[ClaimRow]


def stated_claims(judged: Sequence[Judged]) -> ClaimsTable:
    """Return the table of what the paper states, and a last row for all of it together."""
    papers = [each for each in judged if each.stated]
    rows = [
        ClaimRow(
            claim.name,
            claim.sentence,
            [each.range_of(claim) if claim in each.stated else None for each in papers],
        )
        for claim in CLAIMS
        if any(claim in each.stated for each in papers)
    ]
    if papers:
        whole: list[GammaRange | None] = [each.range_of(*each.stated) for each in papers]
        rows.append(ClaimRow("all together", "All of these together", whole))
    return ClaimsTable([each.setting for each in papers], rows)


def unstated_claims(judged: Sequence[Judged]) -> ClaimsTable:
    """Return the table of the claims on data sets about which the paper does not state them."""
    rows = [
        ClaimRow(
            claim.name,
            claim.sentence,
            [None if claim in each.stated else each.range_of(claim) for each in judged],
        )
        for claim in CLAIMS
    ]
    return ClaimsTable([each.setting for each in judged], [row for row in rows if any(row.cells)])


@dataclass(frozen=True)
class ReportPage:
    """A whole report: the contents of both templates."""

    chapters: list[Chapter]
    sweeps: list[Chapter]
    other_policies: dict[str, Rows]
    """For each policy that is not in the paper, its table against Con-UCB."""
    judged: list[Judged]
    headline: str
    """The sentence of the conclusion that is not folded."""
    conclusion: list[str]
    """The paragraphs that are folded."""

    @property
    def quick_look(self) -> str:
        """A warning about a report on few rounds; empty for a complete one."""
        return quick_look_note(chapter.results for chapter in self.chapters)

    @property
    def stated(self) -> ClaimsTable:
        """What the paper states."""
        return stated_claims(self.judged)

    @property
    def unstated(self) -> ClaimsTable:
        """The same claims where the paper does not state them."""
        return unstated_claims(self.judged)

    @property
    def is_drawn_from_look_alikes(self) -> bool:
        """Whether any data set is a look-alike."""
        return any(chapter.setting.is_look_alike for chapter in (*self.chapters, *self.sweeps))


def gather(results: Sequence[Results], sweeps: Sequence[Results]) -> ReportPage:
    """Judge and tabulate `results`, one experiment per data set, and the `sweeps`."""
    names = _distinct_names([*results, *sweeps])
    found = [_chapter(each, name) for each, name in zip([*results, *sweeps], names, strict=True)]
    chapters, swept = found[: len(results)], found[len(results) :]
    judged = judge([*results, *sweeps])
    headline, *folded = conclude(judged, [chapter.setting for chapter in chapters])
    return ReportPage(
        chapters, swept, compare_other_policies(results), judged, headline, conclusion=folded
    )


def _chapter(results: Results, figure_name: str) -> Chapter:
    setting = Setting.of(results)
    return Chapter(
        setting=setting,
        results=results,
        figure_name=figure_name,
        facts=_facts(setting),
        rows=[
            (setting.marked_name(label), [_final(results, label, name) for name in TABLED])
            for label in results.labels
        ],
        bound_rows=_bound_rows(results, setting),
        findings=findings_of(results),
    )


def _final(results: Results, label: str, metric: str) -> str:
    interval = metrics.mean_interval(results.final(label, metric))
    return with_interval(*map(float, interval))


def _facts(setting: Setting) -> list[tuple[str, str]]:
    config, optimum = setting.config, setting.config["optimum"]
    dataset, notes = config["dataset"], config["dataset"].get("notes", "")
    facts = [
        ("Experiment", str(config.get("experiment", ""))),
        ("Data", f"{setting.full_title}; {dataset.get('source', '')}".strip("; ")),
        ("Notes", notes if isinstance(notes, str) else "; ".join(notes)),
        ("Links, slots", f"{config['n_links']}, {config['n_slots']}"),
        ("Floor", setting.floor_sentence.removeprefix("floor ")),
        ("Feedback", setting.delay_sentence.removeprefix("late feedback: ")),
        ("Largest possible clicks", style.readable(optimum.get("attainable_clicks", float("nan")))),
        ("Best revenue per round", style.readable(setting.optimum, digits=5)),
        ("Failure probability", style.readable(config["failure_probability"])),
        ("Rounds, runs", f"{config['n_rounds']:,}, {setting.n_runs:,}"),
        ("Origin", setting.origin_sentence),
    ]
    if "seconds" in config:
        seconds = config["seconds"]
        took = f"{seconds['wall']:.1f} s, {seconds['cpu']:.1f} s of processor time"
        facts.append(("Time", took))
    return [(name, value) for name, value in facts if value and value != "–"]


def _bound_rows(results: Results, setting: Setting) -> Rows:
    """Return measured regret and shortfall of each Con-UCB next to their bounds."""
    config = setting.config
    useful = metrics.first_useful_round(
        config["n_links"], config["n_slots"], config["failure_probability"]
    )
    rows = []
    for label in setting.labels_of_policy(results.labels, style.SUBJECT):
        scale = setting.gamma_scale(label)
        is_printed = scale == 1
        rows.append(
            (
                f"{style.display_name(style.SUBJECT)}, {scale_phrase(scale)}"
                if scale
                else style.display_name(label, 60),
                [
                    _final(results, label, "regret"),
                    _final(results, label, "shortfall"),
                    style.readable(setting.theorem_bound) if is_printed else "no guarantee",
                    style.readable(setting.trivial_bound),
                    style.readable(useful) if is_printed else "–",
                ],
            )
        )
    return rows


def _distinct_names(results: Sequence[Results]) -> list[str]:
    """Return a distinct file name for the figure of each, valid on every system."""
    names: list[str] = []
    for each in results:
        setting = Setting.of(each)
        floor = style.scale_name(setting.config["click_floor"])
        wanted = f"{setting.name}-sweep" if is_sweep(each) else setting.name
        for candidate in (wanted, f"{wanted}-h{floor}", *(f"{wanted}-{n}" for n in range(2, 999))):
            name = re.sub(r"[^a-z0-9.]+", "-", candidate.lower()).strip("-.") or "figure"
            if name not in names:
                names.append(name)
                break
    return names
