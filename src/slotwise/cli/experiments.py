"""`slotwise simulate`, `reproduce`, `draw` and `merge`: run experiments and draw their results."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from typer import Argument, Option

from slotwise.cli.progress import (
    SchedulerOption,
    ShardOption,
    ThreadsOption,
    answer_interrupts,
    progress_bar,
)
from slotwise.errors import InvalidInput, SlotwiseError, whole_number
from slotwise.figures import Layout, Pictures, draw_results, is_sweep, write_report
from slotwise.figures.canvas import FORMATS
from slotwise.figures.claims import Verdict, quick_look_note
from slotwise.figures.conclusion import Judged, headline, judge
from slotwise.figures.report_contents import TABLED, stated_claims
from slotwise.figures.setting import Setting
from slotwise.plugins import look_for_modules_in
from slotwise.simulation import Planned, experiment_path, load_experiment, log_run, run_series
from slotwise.simulation.gathering import Shard
from slotwise.simulation.results import Results
from slotwise.simulation.series import (
    finished_results,
    kept_runs,
    notes_of,
    plan_paper,
    refuse_to_shrink,
    results_in,
    run_shard,
)


def simulate_command(
    file: Annotated[
        str, Argument(metavar="FILE", help="A TOML file, or the name of a shipped experiment.")
    ],
    runs: Annotated[int | None, Option(help="Runs of each policy.")] = None,
    rounds: Annotated[int | None, Option(help="Rounds of a run.")] = None,
    seed: Annotated[int | None, Option(help="A seed instead of the one in the file.")] = None,
    threads: ThreadsOption = None,
    scheduler: SchedulerOption = None,
    shard: ShardOption = None,
    data: Annotated[
        Path | None, Option(help="The folder of the original files, or one of them.")
    ] = None,
    out: Annotated[Path | None, Option(help="The results file; FILE.parquet by default.")] = None,
    log: Annotated[
        Path | None, Option(help="Log the pages of run 0 of each policy to LOG/LABEL.")
    ] = None,
    explore: Annotated[
        float, Option(help="The share of random links on the pages of --log.")
    ] = 0.0,
) -> None:
    """Run the experiment of a TOML file, or a shipped experiment by name, into a results file.

    The numbers depend on the file and its seed alone, not on the number of threads. Ctrl-C keeps
    finished runs; the same command continues from there. `slotwise draw` draws the results.

    Examples:

      slotwise simulate figure-1-coupon --runs 20

      slotwise simulate mine.toml --seed 7 --out mine.parquet

      slotwise simulate figure-3-edx --data downloads

      slotwise simulate mine.toml --data links.csv

      slotwise simulate mine.toml --scheduler tcp://head:8786

      slotwise simulate mine.toml --shard 3/16

      slotwise simulate mine.toml --log logs --explore 0.05
    """
    check_sizes(runs, rounds, seed)
    path = experiment_path(file)
    look_for_modules_in(str(path.parent.absolute()))
    wanted = {"n_runs": runs, "n_rounds": rounds, "seed": seed}
    changes = {key: value for key, value in wanted.items() if value is not None}
    experiment = load_experiment(path, changes).experiment(data)
    planned = Planned(experiment, Path(f"{path.stem}.parquet") if out is None else out)
    parts = planned.path.with_name(f"{planned.path.name}.parts")
    plan = [planned]
    logs = {} if log is None else log_folders(log, experiment.policies)
    if explore and log is None:
        raise InvalidInput.of("--log", "given with --explore, which is for logs", None)
    console = Console()
    for note in notes_of(plan):
        console.print(f"note: {note}", highlight=False, markup=False)
    if shard is not None:
        play_shard(plan, parts, shard, threads, scheduler)
        return
    if not is_finished(plan):
        say_what_is_replaced(planned)
    with say_what_is_kept(plan, parts), progress_bar(experiment.title) as progress:
        (results,) = run_series(
            plan, parts, n_threads=threads, scheduler=scheduler, progress=progress
        )
    console.print(finals_table(results))
    if sentence := results.floor_out_of_reach():
        console.print(sentence, highlight=False, markup=False, soft_wrap=True)
    typer.echo(planned.path)
    for label, folder in logs.items():
        log_run(experiment, label, folder, explore)
        typer.echo(folder)


def check_sizes(runs: int | None, rounds: int | None, seed: int | None = None) -> None:
    """Refuse numbers that are too small, by the names of their options."""
    for option, number, least in (
        ("--runs", runs, 1),
        ("--rounds", rounds, 1),
        ("--seed", seed, 0),
    ):
        if number is not None:
            whole_number(option, number, least)


def play_shard(
    plan: Sequence[Planned], parts: Path, shard: str, threads: int | None, scheduler: str | None
) -> None:
    """Play the runs of a shard into the folder of finished runs, and say where they are."""
    if scheduler is not None:
        raise InvalidInput.of("--shard", "left out with --scheduler", shard)
    Shard.parse(shard)
    if is_finished(plan):
        return
    with say_what_is_kept(plan, parts), progress_bar(f"shard {shard}") as progress:
        n_runs = run_shard(plan, parts, shard, n_threads=threads, progress=progress)
    typer.echo(f"shard {shard}: {n_runs:,} runs in {parts}")


def log_folders(log: Path, labels: Iterable[str]) -> dict[str, Path]:
    """Return the folder in `log` of each label, whose name is valid on every system.

    A folder with a log is refused: two simulated logs in one would have the same pages.

    >>> folders = log_folders(Path("logs"), ["con-ucb/72", "con-ucb-72", "../mine", "γ"])
    >>> [folder.name for folder in folders.values()]
    ['con-ucb-72', 'con-ucb-72-2', 'mine', 'γ']
    """
    folders: dict[str, Path] = {}
    taken: set[str] = set()
    for label in labels:
        plain = re.sub(r"[^\w.-]+", "-", label).strip(".-") or "policy"
        name, number = plain, 1
        while name.lower() in taken:
            number += 1
            name = f"{plain}-{number}"
        taken.add(name.lower())
        folders[label] = log / name
        if any(folders[label].glob("*.parquet")):
            rule = "a folder without logs of these policies"
            raise InvalidInput.of("--log", rule, str(folders[label]))
    return folders


def reproduce_command(
    quick: Annotated[
        bool, Option("--quick", help="Few runs of few rounds, for a quick look.")
    ] = False,
    data: Annotated[
        Path | None, Option(help="The folder of the original files, or one of them.")
    ] = None,
    runs: Annotated[int | None, Option(help="Runs of each policy (at most 40 in sweeps).")] = None,
    rounds: Annotated[int | None, Option(help="Rounds of a run.")] = None,
    threads: ThreadsOption = None,
    scheduler: SchedulerOption = None,
    shard: ShardOption = None,
    out: Annotated[
        Path | None,
        Option(
            help="The directory for results, figures and report; `paper` by default, "
            "`paper-quick` with --quick.",
        ),
    ] = None,
) -> None:
    """Reproduce the paper's experiments, draw its figures and judge its claims.

    There are three data sets; Ad-Clicks is also run with a binding floor. On each of them run
    Con-UCB with the printed γ and with γ/1440, LExp, CUCB, Exp3.M, the best fixed mix and the
    default policy, which is not in the paper and is marked. Sweeps run Con-UCB with nine γ, and the
    report says with which of them the paper's statements hold. Without --data the data are
    look-alikes, and every figure says so. Where no page of the original files reaches the paper's
    floor, the highest round floor that can be kept is run as well. Ctrl-C keeps finished runs; the
    same command continues from there, and finished experiments are not run again.

    Examples:

      slotwise reproduce --quick

      slotwise reproduce --out paper

      slotwise reproduce --data downloads --runs 50

      slotwise reproduce --scheduler tcp://head:8786

      slotwise reproduce --shard 3/16
    """
    check_sizes(runs, rounds)
    if out is None:
        out = Path("paper-quick" if quick else "paper")
    if data is not None and not data.exists():
        raise InvalidInput.of("data", "a file or directory that exists", str(data))
    found = " (finished experiments are not run again)" if out.is_dir() else ""
    typer.echo(f"reproducing the paper in {out}{found}", err=True)
    plan = plan_paper(out, data, n_runs=runs, n_rounds=rounds, is_quick=quick)
    parts = out / "parts"
    refuse_to_shrink(plan)
    console = Console()
    for note in notes_of(plan):
        console.print(f"note: {note}", highlight=False, markup=False)
    if shard is not None:
        play_shard(plan, parts, shard, threads, scheduler)
        return
    pictures = Pictures()
    is_finished(plan)
    with say_what_is_kept(plan, parts), progress_bar("The paper") as progress:
        results = run_series(
            plan,
            parts,
            n_threads=threads,
            scheduler=scheduler,
            progress=progress,
            finished=pictures.of,
        )
    typer.echo("drawing the figures and writing the report", err=True)
    experiments = [each for each in results if not is_sweep(each)]
    sweeps = [each for each in results if is_sweep(each)]
    report = write_report(experiments, sweeps, out, pictures)
    for each in experiments:
        console.print(finals_table(each))
    note = quick_look_note(experiments)
    if note:
        console.print(f"The paper's claims: {note}", highlight=False, markup=False)
    else:
        judged = judge(results)
        console.print(claims_table(judged))
        console.print(headline(judged), highlight=False, markup=False)
    typer.echo(f"report: {report.html} and {report.markdown.name} in the same folder")


def draw_command(
    files: Annotated[
        list[Path], Argument(metavar="RESULTS", help="Files that `slotwise simulate` wrote.")
    ],
    out: Annotated[
        Path | None, Option(help="The directory for the figures, or one file such as late.pdf.")
    ] = None,
    formats: Annotated[
        str, Option("--format", help="svg, png or pdf, several with commas.")
    ] = "svg,png",
    panels: Annotated[str | None, Option(help="Only these metrics, with commas.")] = None,
    title: Annotated[str | None, Option(help="A title for chosen panels.")] = None,
    width: Annotated[str | None, Option(help="column (3.5 in), text (7.2 in) or wide.")] = None,
    log: Annotated[str | None, Option(help="Logarithmic axes: x, y or both.")] = None,
) -> None:
    """Draw the figure of one or more results files.

    An experiment is drawn with the paper's panels; Con-UCB at four or more scales of γ is drawn as
    a sweep. With --panels, --title, --width or --log the figure has the chosen panels only. Each
    figure has the name of its results file and is in the same folder, or in the directory given.

    Examples:

      slotwise draw coupon.parquet

      slotwise draw results/*.parquet --out figures --format svg

      slotwise draw coupon.parquet --out late.pdf

      slotwise draw coupon.parquet --format pdf --width column --panels regret,shortfall --log x
    """
    kinds, metrics = listed(formats), listed(panels or "")
    name = None
    if out is not None and out.suffix.lstrip(".") in FORMATS:
        if len(files) > 1:
            raise InvalidInput.of("--out", "a directory for several results files", str(out))
        out, name, kinds = out.parent, out.stem, [out.suffix.lstrip(".")]
    layout = None
    if metrics or title or width or log:
        layout = Layout(title, width or "wide", log or "none")
    for file in files:
        directory = file.parent if out is None else out
        results = Results.load(file)
        for path in draw_results(
            results, directory, name or file.stem, kinds, panels=metrics, layout=layout
        ):
            typer.echo(path)


def listed(text: str) -> list[str]:
    """Return the words between commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def merge_command(
    folders: Annotated[
        list[Path], Argument(metavar="FOLDERS", help="Finished runs of several machines.")
    ],
    into: Annotated[Path, Option(help="The folder of finished runs to fill.")],
) -> None:
    """Merge the finished runs of shards that several machines played into one folder.

    The command that played them, without `--shard`, finds them there.

    Examples:

      slotwise merge node-*/mine.parquet.parts --into mine.parquet.parts
    """
    for folder in folders:
        if not any(folder.glob("*/*.npy")):
            raise InvalidInput.of("FOLDERS", "folders with finished runs", str(folder))
    for folder in folders:
        shutil.copytree(folder, into, dirs_exist_ok=True)
    typer.echo(f"{sum(1 for _ in into.glob('*/*.npy')):,} runs in {into}")


def is_finished(plan: Sequence[Planned]) -> bool:
    """Return whether all results files are finished, and say so."""
    if any(finished_results(planned) is None for planned in plan):
        return False
    where = plan[0].path if len(plan) == 1 else plan[0].path.parent
    typer.echo(f"already finished, nothing was run: {where}", err=True)
    return True


def say_what_is_replaced(planned: Planned) -> None:
    """Say what the results file has, if it will be written anew."""
    if planned.path.exists():
        found = results_in(planned.path)
        size = f"{found.n_runs:,} runs of {found.n_rounds:,} rounds" if found else "no results"
        typer.echo(f"replacing {planned.path}, which has {size}", err=True)


@contextmanager
def say_what_is_kept(plan: Sequence[Planned], parts: Path) -> Iterator[None]:
    """On Ctrl-C or a full disk print how many runs are kept.

    The exit code is 130 after Ctrl-C and 1 where a file cannot be written.
    """

    def stop(reason: str, code: int) -> typer.Exit:
        n_kept, n_runs = kept_runs(plan, parts), sum(planned.n_runs for planned in plan)
        kept = f"{n_kept:,} of {n_runs:,} runs are kept; the same command continues from there"
        typer.echo(f"stopped: {reason}{kept}", err=True)
        return typer.Exit(code)

    try:
        with answer_interrupts():
            yield
    except KeyboardInterrupt:
        raise stop("", 130) from None
    except SlotwiseError:
        raise
    except OSError as error:
        raise stop(f"a file cannot be written ({error}). ", 1) from None


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
    metrics: tuple[str, ...] = TABLED
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


def claims_table(judged: Sequence[Judged]) -> Table:
    """Return with which γ each statement of the paper holds: one column per data set."""
    stated = stated_claims(judged)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
    table.title = "With which γ the paper's statements hold"
    table.caption = "✓ holds   ✗ does not hold   ? undecided   – not stated by the paper"
    table.caption_justify = "left"
    table.add_column("statement")
    for setting in stated.settings:
        table.add_column(escape(setting.short_heading))
    for row in stated.rows:
        shown = [f"{SIGNS[one.verdict]} {one.phrase}" if one else "–" for one in row.cells]
        table.add_row(escape(row.name), *shown)
    return table
