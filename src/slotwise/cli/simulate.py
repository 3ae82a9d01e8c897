"""`slotwise simulate`: run the experiment of a file into a results file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from slotwise.cli._finals import finals_table
from slotwise.cli._progress import progress_bar
from slotwise.cli._running import (
    SchedulerOption,
    ShardOption,
    ThreadsOption,
    say_what_is_kept,
)
from slotwise.errors import InvalidInput
from slotwise.plugins import look_for_modules_in
from slotwise.simulation import Planned, experiment_path, load_experiment, log_run, run_series
from slotwise.simulation.series import notes_of, shard_plan

__all__ = ["register"]

HELP = """Run the experiment of a TOML file, or a shipped experiment by name, into a results file.

The numbers depend on the file and its seed alone, not on the number of threads. Ctrl-C keeps
finished runs; the same command continues from there. `slotwise draw` draws the results.

Examples:

  slotwise simulate figure-1-coupon --runs 20

  slotwise simulate mine.toml --seed 7 --out mine.parquet

  slotwise simulate figure-3-edx --data downloads

  slotwise simulate mine.toml --scheduler tcp://head:8786

  slotwise simulate mine.toml --shard 3/16

  slotwise simulate mine.toml --log logs --explore 0.05
"""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""

    @app.command("simulate", help=HELP)
    def simulate(
        file: Annotated[
            str,
            typer.Argument(
                metavar="FILE", help="A TOML file, or the name of a shipped experiment."
            ),
        ],
        runs: Annotated[int | None, typer.Option("--runs", help="Runs of each policy.")] = None,
        rounds: Annotated[int | None, typer.Option("--rounds", help="Rounds of a run.")] = None,
        seed: Annotated[int | None, typer.Option("--seed", help="Another seed.")] = None,
        threads: ThreadsOption = None,
        scheduler: SchedulerOption = None,
        shard: ShardOption = None,
        data: Annotated[
            Path | None, typer.Option("--data", help="The directory with the original files.")
        ] = None,
        out: Annotated[
            Path | None, typer.Option("--out", help="The results file; FILE.parquet by default.")
        ] = None,
        log: Annotated[
            Path | None,
            typer.Option("--log", help="Log the pages of run 0 of each policy to DIR/LABEL."),
        ] = None,
        explore: Annotated[
            float,
            typer.Option("--explore", help="The share of the page that --log gives random links."),
        ] = 0.0,
    ) -> None:
        path = experiment_path(file)
        look_for_modules_in(str(path.parent.absolute()))
        wanted = {"n_runs": runs, "n_rounds": rounds, "seed": seed}
        changes = {key: value for key, value in wanted.items() if value is not None}
        experiment = load_experiment(path, changes).experiment(data)
        planned = Planned(experiment, Path(f"{path.stem}.parquet") if out is None else out)
        if shard is not None:
            (planned,), _ = shard_plan([planned], shard, planned.path.parent)
        parts = planned.path.with_name(f"{planned.path.name}.parts")
        plan = [planned]
        console = Console()
        for note in notes_of(plan):
            console.print(f"note: {note}", highlight=False, markup=False)
        with say_what_is_kept(plan, parts), progress_bar(experiment.title) as progress:
            (results,) = run_series(
                plan, parts, n_threads=threads, scheduler=scheduler, progress=progress
            )
        console.print(finals_table(results))
        typer.echo(planned.path)
        if log is not None:
            for label, name in folder_names(experiment.policies).items():
                log_run(experiment, label, _new_log_folder(log / name), explore)
                typer.echo(log / name)


def folder_names(labels: Iterable[str]) -> dict[str, str]:
    """Return a name for each label that is one folder on every system, and no other's.

    >>> folder_names(["con-ucb/72", "con-ucb-72", "../mine", "γ"])
    {'con-ucb/72': 'con-ucb-72', 'con-ucb-72': 'con-ucb-72-2', '../mine': 'mine', 'γ': 'γ'}
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for label in labels:
        plain = re.sub(r"[^\w.-]+", "-", label).strip(".-") or "policy"
        name, number = plain, 1
        while name.lower() in taken:
            number += 1
            name = f"{plain}-{number}"
        taken.add(name.lower())
        names[label] = name
    return names


def _new_log_folder(folder: Path) -> Path:
    """Return `folder` if no log is in it: two simulated logs in one would have the same pages."""
    if folder.is_dir() and any(folder.glob("*.parquet")):
        raise InvalidInput.of("--log", "a folder without logs of these policies", str(folder))
    return folder
