"""`slotwise reproduce`: run the paper's experiments on look-alikes or the original files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from slotwise.cli._finals import claims_table, finals_table
from slotwise.cli._progress import progress_bar
from slotwise.cli._running import (
    SchedulerOption,
    ShardOption,
    ThreadsOption,
    say_what_is_kept,
)
from slotwise.figures import Pictures, is_sweep, write_report
from slotwise.figures.claims import findings_of
from slotwise.simulation import run_series
from slotwise.simulation.series import notes_of, plan_paper, refuse_to_shrink, shard_plan

__all__ = ["register"]

HELP = """Reproduce the paper's experiments, draw its figures and judge its claims.

There are three data sets, and Ad-Clicks once more with a binding floor. On each run Con-UCB at the
printed γ and at γ/72, LExp, CUCB, Exp3.M, the best fixed mix and the default policy, which is not
in the paper and marked so; then Con-UCB over many γ. Without --data the data are look-alikes drawn
from recipes, and every figure says so. Ctrl-C keeps finished runs; the same command continues from
there, and finished experiments are not run again.

Examples:

  slotwise reproduce --quick

  slotwise reproduce --out paper

  slotwise reproduce --data downloads --runs 50

  slotwise reproduce --scheduler tcp://head:8786

  slotwise reproduce --shard 3/16
"""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""

    @app.command("reproduce", help=HELP)
    def reproduce(
        quick: Annotated[
            bool, typer.Option("--quick", help="Few runs of few rounds, for a first look.")
        ] = False,
        data: Annotated[
            Path | None, typer.Option("--data", help="The directory with the original files.")
        ] = None,
        runs: Annotated[
            int | None, typer.Option("--runs", help="Runs of each policy (at most 40 in sweeps).")
        ] = None,
        rounds: Annotated[int | None, typer.Option("--rounds", help="Rounds of a run.")] = None,
        threads: ThreadsOption = None,
        scheduler: SchedulerOption = None,
        shard: ShardOption = None,
        out: Annotated[
            Path | None,
            typer.Option(
                "--out",
                help="The directory for results, figures and report; `paper` by default, "
                "`paper-quick` with --quick.",
            ),
        ] = None,
    ) -> None:
        if out is None:
            out = Path("paper-quick" if quick else "paper")
        plan = plan_paper(out, data, n_runs=runs, n_rounds=rounds, is_quick=quick)
        parts = out / "parts"
        if shard is not None:
            plan, parts = shard_plan(plan, shard, out)
        refuse_to_shrink(plan)
        console = Console()
        for note in notes_of(plan):
            console.print(f"note: {note}", highlight=False, markup=False)
        pictures = Pictures()
        with say_what_is_kept(plan, parts), progress_bar("The paper") as progress:
            results = run_series(
                plan,
                parts,
                n_threads=threads,
                scheduler=scheduler,
                progress=progress,
                finished=None if shard else pictures.of,
            )
        if shard is not None:
            typer.echo(f"shard {shard}: {len(plan)} results files in {out / 'results'}")
            return
        experiments = [each for each in results if not is_sweep(each)]
        sweeps = [each for each in results if is_sweep(each)]
        report = write_report(experiments, sweeps, out, pictures)
        for each in experiments:
            console.print(finals_table(each))
        console.print(claims_table([one for each in experiments for one in findings_of(each)]))
        typer.echo(f"report: {report.html} and {report.markdown.name} beside it")
