"""Run `python -m benchmarks.leaderboard`: rank every policy on a suite of cases, recommend one.

Exit codes are those of `slotwise`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.combinations import main as play_combinations
from benchmarks.leaderboard.board import Leaderboard
from benchmarks.leaderboard.bounds import with_bounds
from benchmarks.leaderboard.cases import Effort
from benchmarks.leaderboard.page import (
    LeaderboardPage,
    gather_board,
    update_block,
    write_leaderboard,
)
from benchmarks.leaderboard.ranking import merge_boards
from benchmarks.leaderboard.run import (
    PlannedCase,
    all_entrants,
    pick_entrants,
    plan_leaderboard,
    run_leaderboard,
)
from benchmarks.leaderboard.suite import (
    QUICK_CASES,
    Suite,
    build_suite,
    fresh_suite,
    pick_cases,
)
from slotwise.cli.experiments import say_what_is_kept
from slotwise.cli.progress import (
    SchedulerOption,
    ThreadsOption,
    progress_bar,
)
from slotwise.compile import announce_compiling
from slotwise.errors import SlotwiseError
from slotwise.plugins import look_for_modules_in

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)

QUICK_ROUNDS, QUICK_RUNS = 1_000, 3

HELP = """Run all policies on a suite of small environments and recommend one.

The cases are look-alikes of the paper's data, slack, tight and infeasible floors, drifting rates,
late feedback, rounds of many page views, few and many links, tiny rates, and the original files if
--data has them. Writes HTML, Markdown, JSON and CSV. Ctrl-C keeps finished runs; the
same command continues from there.

Examples:

  python -m benchmarks.leaderboard --quick

  python -m benchmarks.leaderboard --data downloads --full

  python -m benchmarks.leaderboard --cases few-links,drifting --policies queue-ts,cucb --runs 10

  python -m benchmarks.leaderboard --fresh-pools 20 --seed 7 --policies queue-ts

  python -m benchmarks.leaderboard --bounds --cases coupon-mild

  python -m benchmarks.leaderboard --combinations

  python -m benchmarks.leaderboard --full --scheduler tcp://head:8786

  python -m benchmarks.leaderboard --from leaderboard/leaderboard.json --update page.md

  python -m benchmarks.leaderboard --from leaderboard/leaderboard.json --bounds --cases short-500
"""


def main(args: Sequence[str] | None = None) -> int:
    """Run the leaderboard with `args`, by default those of the process; return the exit code."""
    announce_compiling(False)  # it shows its own progress
    look_for_modules_in("")  # the current folder, for policies named "module:Class"
    try:
        app(args, prog_name="python -m benchmarks.leaderboard")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except SlotwiseError as error:
        print(f"leaderboard: {error}", file=sys.stderr)
        return 2
    return 0


@app.command(help=HELP)
def leaderboard(
    quick: Annotated[
        bool, typer.Option("--quick", help="Three cases with few runs of few rounds.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="More rounds, up to a million; takes hours.")
    ] = False,
    cases: Annotated[
        str | None, typer.Option("--cases", help="Only these cases, separated by commas.")
    ] = None,
    policies: Annotated[
        str | None,
        typer.Option(
            "--policies", help="Only these policies and the default, separated by commas."
        ),
    ] = None,
    runs: Annotated[int | None, typer.Option("--runs", help="Runs of each policy.")] = None,
    rounds: Annotated[int | None, typer.Option("--rounds", help="Rounds of a run.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Another seed.")] = 1,
    data: Annotated[
        Path | None, typer.Option("--data", help="The directory with the original files.")
    ] = None,
    fresh_pools: Annotated[
        int | None,
        typer.Option(
            "--fresh-pools",
            min=1,
            max=1_000,
            help="So many pools drawn from --seed, instead of the suite.",
        ),
    ] = None,
    bounds: Annotated[
        bool,
        typer.Option("--bounds", help="Also compute what every policy must lose at least."),
    ] = False,
    combinations: Annotated[
        bool,
        typer.Option(
            "--combinations",
            help="Also play the default in combinations of features, slots, floors, rules and late "
            "feedback (`benchmarks.combinations`) and write combinations.json.",
        ),
    ] = False,
    threads: ThreadsOption = None,
    scheduler: SchedulerOption = None,
    out: Annotated[Path, typer.Option("--out", help="The directory for results and pages.")] = Path(
        "leaderboard"
    ),
    finished: Annotated[
        Path | None,
        typer.Option("--from", help="Run nothing; write the pages of a finished JSON file."),
    ] = None,
    earlier: Annotated[
        Path | None,
        typer.Option("--keep", help="A JSON file to keep what is not played from."),
    ] = None,
    update: Annotated[
        Path | None, typer.Option("--update", help="A Markdown page whose block to replace.")
    ] = None,
) -> None:
    def asked_suite() -> Suite:
        suite = build_suite(data) if fresh_pools is None else fresh_suite(fresh_pools, seed)
        names = _listed(cases) or (QUICK_CASES if quick else ())
        return pick_cases(suite, names) if names else suite

    if finished is not None:
        board = Leaderboard.load(finished)
        if bounds:
            board = with_bounds(board, asked_suite().cases)
    else:
        suite = asked_suite()
        labels = _listed(policies)
        entrants = pick_entrants(labels) if labels else all_entrants()
        if quick:
            rounds = QUICK_ROUNDS if rounds is None else rounds
            runs = QUICK_RUNS if runs is None else runs
        effort = Effort(n_rounds=rounds, n_runs=runs, seed=seed, is_full=full)
        plan = plan_leaderboard(suite, entrants, effort, out)
        parts = out / "parts"
        board = _run(plan, suite.notes, parts, threads, scheduler)
        if bounds:
            board = with_bounds(board, suite.cases)
        if earlier is not None:
            board = merge_boards(board, Leaderboard.load(earlier))
    written = write_leaderboard(board, out)
    board = Leaderboard.load(written.json)  # with the digits that the file has
    if update is not None:
        update_block(update, board)
    _print(gather_board(board))
    if combinations:
        play_combinations(["--json", str(out / "combinations.json")])
    typer.echo(f"leaderboard: {written.html} and {written.markdown.name} beside it")


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _run(
    plan: list[PlannedCase],
    notes: tuple[str, ...],
    parts: Path,
    threads: int | None,
    scheduler: str | None,
) -> Leaderboard:
    with (
        say_what_is_kept([one.planned for one in plan], parts),
        progress_bar("The leaderboard") as progress,
    ):
        return run_leaderboard(
            plan, parts, notes=notes, n_threads=threads, scheduler=scheduler, progress=progress
        )


def _print(page: LeaderboardPage) -> None:
    console = Console()
    console.print(records_table(page), defaults_table(page), aims_table(page))
    if page.bounds:
        console.print(bounds_table(page))
    for chapter in page.chapters:
        for sentence in chapter.gains:
            console.print(f"{chapter.board.name}: {sentence}", highlight=False, markup=False)
    for paragraph in page.recommendation:
        console.print(paragraph, highlight=False, markup=False)
    for note in page.notes:
        console.print(f"note: {note}", highlight=False, markup=False)


def records_table(page: LeaderboardPage) -> Table:
    """Return the table of all policies over all cases, the best first."""
    table = _table(f"All policies\n[not bold]{page.origin}[/]")
    table.add_column("policy", no_wrap=True)
    for heading in ("floors missed", "worst ratio", "average", "wins", "µs per round"):
        table.add_column(heading, justify="right")
    for row in page.records:
        table.add_row(*row)
    return table


def defaults_table(page: LeaderboardPage) -> Table:
    """Return the table of the default beside the best policy of each case."""
    table = _table(f"The default, {page.default}, case by case\n[not bold]regret / shortfall[/]")
    for heading in ("case", "floor", "best policy"):
        table.add_column(heading)
    for heading in ("its numbers", "the default's", "ratio"):
        table.add_column(heading, justify="right")
    table.add_column("at most 1.3")
    for row in page.defaults:
        table.add_row(*row)
    return table


def bounds_table(page: LeaderboardPage) -> Table:
    """Return the table of what every policy must lose, beside what the default loses."""
    table = _table("The least that any policy must lose\n[not bold]regret plus priced shortfall[/]")
    table.add_column("case")
    for heading in ("at least", "the default's regret / shortfall"):
        table.add_column(heading, justify="right")
    for row in page.bounds:
        table.add_row(*row)
    return table


def aims_table(page: LeaderboardPage) -> Table:
    """Return the table of the aims and their verdicts."""
    table = _table("Aims\n[not bold]regret / shortfall[/]")
    for heading in ("on", "aim", page.reference, "the default", "verdict", ""):
        table.add_column(heading)
    for aim in page.aims:
        table.add_row(aim.case, aim.aim, aim.reference, aim.reached, aim.verdict.value, aim.why)
    return table


def _table(title: str) -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left", title=title)


if __name__ == "__main__":
    sys.exit(main())
