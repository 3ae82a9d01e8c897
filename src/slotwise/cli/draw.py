"""`slotwise draw`: draw the figures of results files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slotwise.figures import Layout, draw_results
from slotwise.simulation.results import Results

__all__ = ["register"]

HELP = """Draw the figure of one or more results files.

An experiment is drawn with the paper's panels; Con-UCB at four or more scales of γ is drawn as a
sweep. With --panels, --title, --width or --log the figure has the chosen panels only. Each figure
has the name of its results file and lies beside it, or in the directory given.

Examples:

  slotwise draw coupon.parquet

  slotwise draw results/*.parquet --out figures --format svg

  slotwise draw coupon.parquet --format pdf --width column --panels regret,shortfall --log x
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
            str, typer.Option("--format", help="svg, png or pdf, several with commas.")
        ] = "svg,png",
        panels: Annotated[
            str | None, typer.Option("--panels", help="Only these metrics, with commas.")
        ] = None,
        title: Annotated[
            str | None, typer.Option("--title", help="A title for chosen panels.")
        ] = None,
        width: Annotated[
            str | None, typer.Option("--width", help="column (3.5 in), text (7.2 in) or wide.")
        ] = None,
        log: Annotated[
            str | None, typer.Option("--log", help="Logarithmic axes: x, y or both.")
        ] = None,
    ) -> None:
        kinds, metrics = listed(formats), listed(panels or "")
        layout = None
        if metrics or title or width or log:
            layout = Layout(title, width or "wide", log or "none")
        for file in files:
            directory = file.parent if out is None else out
            results = Results.load(file)
            for path in draw_results(
                results, directory, file.stem, kinds, panels=metrics, layout=layout
            ):
                typer.echo(path)


def listed(text: str) -> list[str]:
    """Return the words between commas."""
    return [word.strip() for word in text.split(",") if word.strip()]
