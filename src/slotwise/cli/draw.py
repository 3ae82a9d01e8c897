"""`slotwise draw`: draw the figures of results files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slotwise.figures import draw_results
from slotwise.simulation.results import Results

__all__ = ["register"]

HELP = """Draw the figure of one or more results files.

An experiment is drawn with the paper's panels; Con-UCB at four or more scales of γ is drawn as a
sweep. Each figure has the name of its results file and lies beside it, or in the directory given.

Examples:

  slotwise draw coupon.parquet

  slotwise draw results/*.parquet --out figures --format svg
"""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""

    @app.command("draw", help=HELP)
    def draw(
        files: Annotated[
            list[Path],
            typer.Argument(metavar="RESULTS", help="Files that `slotwise simulate` wrote."),
        ],
        out: Annotated[
            Path | None, typer.Option("--out", help="The directory for the figures.")
        ] = None,
        formats: Annotated[
            str, typer.Option("--format", help="svg, png, or both with a comma.")
        ] = "svg,png",
    ) -> None:
        kinds = [kind.strip() for kind in formats.split(",")]
        for file in files:
            directory = file.parent if out is None else out
            for path in draw_results(Results.load(file), directory, file.stem, kinds):
                typer.echo(path)
