"""Progress of commands that run experiments: a bar on a terminal, lines in a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Protocol

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from slotwise.errors import SlotwiseError
from slotwise.figures.claims import CLAIMS, Finding, Verdict, scale_phrase
from slotwise.figures.panels import Setting
from slotwise.simulation import Results
from slotwise.simulation.series import Planned, kept_runs


class Tell(Protocol):
    """Takes the share of the work that is done, and the name of the experiment that is run."""

    def __call__(self, share: float, name: str = "") -> None:
        """Report progress."""


SPEED_PERIOD = 120.0
"""Seconds over which the speed is averaged, because experiments differ in speed."""


class Stages:
    """Tells when an experiment starts, and when its first run is finished.

    >>> stages = Stages()
    >>> [stages.describe(*told) for told in ((0.0, "a"), (0.1, "a"), (0.5, "b"), (0.6, "b"))]
    ['a: compiling', 'a', 'b: compiling', 'b']
    """

    def __init__(self) -> None:
        self._name, self._start = "", 0.0

    def is_new(self, name: str) -> bool:
        """Return whether this experiment was not told of before."""
        return bool(name) and name != self._name

    def describe(self, share: float, name: str) -> str:
        """Return what is going on: nothing is finished while loops are compiled."""
        if self.is_new(name):
            self._name, self._start = name, share
        is_compiling = bool(self._name) and share <= self._start
        return f"{self._name}: compiling" if is_compiling else self._name


@contextmanager
def progress_bar(what: str) -> Iterator[Tell]:
    """Show progress on the error stream; yield a function to tell it.

    On a terminal this is a bar with the time left. In a pipe it is one line for each experiment,
    when it starts.
    """
    console = Console(stderr=True)
    stages = Stages()
    if not console.is_terminal:

        def tell_lines(share: float, name: str = "") -> None:
            if stages.is_new(name):
                described = stages.describe(share, name)
                console.print(f"{share:4.0%} {described}", highlight=False, markup=False)

        yield tell_lines
        return
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        speed_estimate_period=SPEED_PERIOD,
    )
    with bar:
        task = bar.add_task(f"{what}: compiling", total=1.0)

        def tell_bar(share: float, name: str = "") -> None:
            bar.update(task, completed=share, description=stages.describe(share, name) or what)

        yield tell_bar


ThreadsOption = Annotated[
    int | None, typer.Option("--threads", help="Threads; by default one per core.")
]
SchedulerOption = Annotated[
    str | None,
    typer.Option("--scheduler", help="Run on the workers of this Dask scheduler, tcp://host:8786."),
]
ShardOption = Annotated[
    str | None,
    typer.Option("--shard", help="Only a part of the runs, such as 3/16; see `slotwise merge`."),
]


@contextmanager
def say_what_is_kept(plan: Sequence[Planned], parts: Path) -> Iterator[None]:
    """Turn Ctrl-C or a full disk into one sentence about the finished runs of `plan`.

    The exit code is 130 after Ctrl-C and 1 where a file cannot be written.
    """

    def stop(reason: str, code: int) -> typer.Exit:
        n_kept, n_runs = kept_runs(plan, parts), sum(planned.n_runs for planned in plan)
        kept = f"{n_kept:,} of {n_runs:,} runs are kept; the same command continues from there"
        typer.echo(f"stopped: {reason}{kept}", err=True)
        return typer.Exit(code)

    try:
        yield
    except KeyboardInterrupt:
        raise stop("", 130) from None
    except SlotwiseError:
        raise
    except OSError as error:
        raise stop(f"a file cannot be written ({error}). ", 1) from None


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
