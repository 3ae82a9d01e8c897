"""The content of a report, computed from results; the layout is in the templates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from slotwise import metrics
from slotwise.figures.look.known_policies import SUBJECT, display_name
from slotwise.figures.look.style import readable, scale_name
from slotwise.figures.report.beside_paper import BesidePaper, compare_beside
from slotwise.figures.report.claims import CLAIMS, Claim, Finding, findings_of, scale_phrase
from slotwise.figures.report.conclusion import conclude
from slotwise.figures.report.verdicts import with_interval
from slotwise.figures.results.setting import Setting
from slotwise.figures.results.sweep import is_sweep
from slotwise.simulation.results import Results

__all__ = ["Chapter", "Page", "gather"]

TABLE_METRICS = ("regret", "violation", "shortfall", "reward", "ratio")


@dataclass(frozen=True)
class Chapter:
    """One data set: its settings, its tables, the claims judged on it, its figure."""

    setting: Setting
    results: Results
    figure_name: str
    facts: list[tuple[str, str]]
    rows: list[tuple[str, list[str]]]
    bound_rows: list[tuple[str, list[str]]]
    findings: list[Finding]

    @property
    def caption(self) -> str:
        """The description of the figure, also for screen readers."""
        return (
            f"{self.setting.heading}: cumulative regret, violation, compound reward, ratio and "
            f"shortfall of {', '.join(map(self.setting.marked_name, self.results.labels))}; "
            "mean over runs with 95 % bands."
        )


@dataclass(frozen=True)
class Page:
    """A whole report."""

    chapters: list[Chapter]
    sweeps: list[Chapter]
    beside: list[BesidePaper]
    headline: str
    """The sentence of the conclusion that is not folded."""
    conclusion: list[str]
    """The rest of it."""

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The claims, in the paper's order."""
        return CLAIMS

    @property
    def columns(self) -> list[tuple[str, list[tuple[str, dict[str, Finding]]]]]:
        """The table of verdicts: for each data set and scale of γ, the findings by claim."""
        found = []
        for chapter in self.chapters:
            labels = dict.fromkeys(finding.label for finding in chapter.findings)
            scales = []
            for label in labels:
                ours = [finding for finding in chapter.findings if finding.label == label]
                by_claim = {finding.claim.name: finding for finding in ours}
                phrase = scale_phrase(ours[0].scale).removeprefix("the ")
                scales.append((phrase, by_claim))
            if scales:
                found.append((chapter.setting.heading, scales))
        return found

    @property
    def is_drawn_from_look_alikes(self) -> bool:
        """Whether any data set is a look-alike."""
        return any(chapter.setting.is_look_alike for chapter in (*self.chapters, *self.sweeps))


def gather(results: Sequence[Results], sweeps: Sequence[Results]) -> Page:
    """Judge and tabulate `results`, one experiment per data set, and the `sweeps`."""
    names = _distinct_names([*results, *sweeps])
    chapters = [
        _chapter(each, name) for each, name in zip(results, names[: len(results)], strict=True)
    ]
    swept = [_chapter(each, name) for each, name in zip(sweeps, names[len(results) :], strict=True)]
    findings = [finding for chapter in chapters for finding in chapter.findings]
    headline, *rest = conclude(findings, [chapter.setting for chapter in chapters])
    return Page(chapters, swept, compare_beside(results), headline, rest)


def _chapter(results: Results, figure_name: str) -> Chapter:
    setting = Setting.of(results)
    return Chapter(
        setting=setting,
        results=results,
        figure_name=figure_name,
        facts=_facts(setting),
        rows=[
            (setting.marked_name(label), [_final(results, label, name) for name in TABLE_METRICS])
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
    dataset = config["dataset"]
    facts = [
        ("Experiment", str(config.get("experiment", ""))),
        ("Data", f"{setting.full_title}; {dataset.get('source', '')}".strip("; ")),
        ("Notes", _sentences(dataset.get("notes", ""))),
        ("Links, slots", f"{config['n_links']}, {config['n_slots']}"),
        ("Floor", setting.floor_sentence.removeprefix("floor ")),
        ("Feedback", setting.delay_sentence.removeprefix("late feedback: ")),
        ("Largest possible clicks", readable(optimum.get("attainable_clicks", float("nan")))),
        ("Best revenue per round", readable(setting.optimum, digits=5)),
        ("Failure probability", readable(config["failure_probability"])),
        ("Rounds, runs", f"{config['n_rounds']:,}, {setting.n_runs:,}"),
        ("Origin", setting.origin_sentence),
    ]
    if "seconds" in config:
        seconds = config["seconds"]
        took = f"{seconds['wall']:.1f} s, {seconds['cpu']:.1f} s of processor time"
        facts.append(("Time", took))
    return [(name, value) for name, value in facts if value and value != "–"]


def _sentences(notes: str | Sequence[str]) -> str:
    return notes if isinstance(notes, str) else "; ".join(notes)


def _bound_rows(results: Results, setting: Setting) -> list[tuple[str, list[str]]]:
    """Return measured regret and shortfall of each Con-UCB beside their bounds."""
    config = setting.config
    useful = metrics.first_useful_round(
        config["n_links"], config["n_slots"], config["failure_probability"]
    )
    rows = []
    for label in setting.labels_of_policy(results.labels, SUBJECT):
        scale = setting.gamma_scale(label)
        is_printed = scale == 1
        rows.append(
            (
                f"{display_name(SUBJECT)}, {scale_phrase(scale)}"
                if scale
                else display_name(label, 60),
                [
                    _final(results, label, "regret"),
                    _final(results, label, "shortfall"),
                    readable(setting.theorem_bound) if is_printed else "no guarantee",
                    readable(setting.trivial_bound),
                    readable(useful) if is_printed else "–",
                ],
            )
        )
    return rows


def _distinct_names(results: Sequence[Results]) -> list[str]:
    """Return a distinct file name for the figure of each, valid on every system."""
    names: list[str] = []
    for each in results:
        setting = Setting.of(each)
        floor = scale_name(setting.config["click_floor"])
        wanted = f"{setting.name}-sweep" if is_sweep(each) else setting.name
        for candidate in (wanted, f"{wanted}-h{floor}", *(f"{wanted}-{n}" for n in range(2, 999))):
            name = re.sub(r"[^a-z0-9.]+", "-", candidate.lower()).strip("-.") or "figure"
            if name not in names:
                names.append(name)
                break
    return names
