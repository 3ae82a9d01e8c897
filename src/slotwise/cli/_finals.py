"""Tables of final values, for commands that run experiments."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.markup import escape
from rich.table import Table

from slotwise.figures.claims import CLAIMS, Finding, Verdict, scale_phrase
from slotwise.figures.panels import Setting
from slotwise.simulation import Results

__all__ = ["claims_table", "finals_table"]

METRICS: tuple[str, ...] = ("regret", "violation", "shortfall", "reward", "ratio")
SIGNS = {Verdict.HOLDS: "[green]✓[/]", Verdict.FAILS: "[red]✗[/]", Verdict.UNKNOWN: "[yellow]?[/]"}


def finals_table(results: Results) -> Table:
    """Return the means of every policy after the last round."""
    setting = Setting.of(results)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
    own = str(results.config.get("experiment") or "")
    lines = [escape(own)] if own and own not in setting.heading else []
    lines += [escape(setting.heading), f"[not bold]{setting.size_sentence}[/]"]
    table.title = "\n".join(lines)
    table.add_column("policy", no_wrap=True)
    metrics = METRICS
    if setting.floor_names:
        metrics = ("regret", *(f"shortfall:{name}" for name in setting.floor_names), "reward")
    for metric in metrics:
        table.add_column(metric, justify="right", no_wrap=True)
    for label in results.labels:
        means = (float(results.final(label, metric).mean()) for metric in metrics)
        cells = [f"{mean:,.2f}" if abs(mean) < 100 else f"{mean:,.0f}" for mean in means]
        table.add_row(escape(setting.dagger_name(label)), *cells)
    table.caption = setting.dagger_note(results.labels) or None
    table.caption_justify = "left"
    return table


def claims_table(findings: Sequence[Finding]) -> Table:
    """Return the verdict on every claim: one column per data set, one sign per scale of γ."""
    settings = {each.setting.heading: each.setting for each in findings}
    scales = sorted({each.scale for each in findings}, reverse=True)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
    table.title = f"The paper's claims, with {' and with '.join(map(scale_phrase, scales))}"
    table.caption = "✓ holds   ✗ does not hold   ? undecided"
    table.caption_justify = "left"
    table.add_column("claim")
    for setting in settings.values():
        table.add_column(setting.name, justify="center")
    for claim in CLAIMS:
        verdicts = {
            (each.setting.heading, each.scale): SIGNS[each.verdict]
            for each in findings
            if each.claim is claim
        }
        table.add_row(
            claim.name,
            *(" ".join(verdicts.get((one, scale), "") for scale in scales) for one in settings),
        )
    return table
