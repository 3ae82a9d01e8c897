"""`slotwise simulate`: run one experiment file into a results file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from slotwise.cli._finals import finals_table
from slotwise.cli._progress import progress_bar
from slotwise.simulation import Planned, experiment_path, load_experiment, run_series
from slotwise.simulation.series import kept_runs

__all__ = ["register"]

HELP = """Run the experiment of a TOML file, or of a shipped one by its name, into a results file.

The numbers depend on the file and its seed alone, whatever the number of threads. Ctrl-C keeps the
runs that are finished; the same command goes on from there. `slotwise draw` draws the results.

Examples:

  slotwise simulate figure-1-coupon --runs 20

  slotwise simulate mine.toml --seed 7 --out mine.parquet

  slotwise simulate figure-3-edx --data downloads
"""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""

    @app.command("simulate", help=HELP)
    def simulate(
        file: Annotated[
            str, typer.Argument(metavar="FILE", help="A TOML file, or a shipped name.")
        ],
        runs: Annotated[int | None, typer.Option("--runs", help="Runs of each policy.")] = None,
        rounds: Annotated[int | None, typer.Option("--rounds", help="Rounds of a run.")] = None,
        seed: Annotated[int | None, typer.Option("--seed", help="Another seed.")] = None,
        threads: Annotated[
            int | None, typer.Option("--threads", help="Threads; one a core by default.")
        ] = None,
        data: Annotated[
            Path | None, typer.Option("--data", help="The directory with the original files.")
        ] = None,
        out: Annotated[
            Path | None, typer.Option("--out", help="The results file; FILE.parquet by default.")
        ] = None,
    ) -> None:
        path = experiment_path(file)
        wanted = {"n_runs": runs, "n_rounds": rounds, "seed": seed}
        changes = {key: value for key, value in wanted.items() if value is not None}
        experiment = load_experiment(path, changes).experiment(data)
        results_path = Path(f"{path.stem}.parquet") if out is None else out
        parts = results_path.with_name(f"{results_path.name}.parts")
        plan = [Planned(experiment, results_path)]
        console = Console()
        for note in experiment.dataset["notes"]:
            console.print(f"note: {note}", highlight=False, markup=False)
        try:
            with progress_bar(experiment.title) as progress:
                (results,) = run_series(plan, parts, n_threads=threads, progress=progress)
        except KeyboardInterrupt:
            typer.echo(f"stopped: {stop_sentence(plan, parts)}", err=True)
            raise typer.Exit(130) from None
        console.print(finals_table(results))
        typer.echo(results_path)


def stop_sentence(plan: list[Planned], parts: Path) -> str:
    """Say how much of a plan is kept after Ctrl-C."""
    n_kept, n_runs = kept_runs(plan, parts), sum(planned.n_runs for planned in plan)
    return f"{n_kept:,} of {n_runs:,} runs are kept; the same command goes on from there"
