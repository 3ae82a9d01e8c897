"""`slotwise import`: what a team knows already, as the start of a selector."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slotwise.selector import Selector, read_known_counts, start_from_counts

__all__ = ["register"]

HELP = """Make a saved selector that starts from known views, clicks and revenue of each link.

FILE is a CSV file with the columns link, views, clicks and revenue. Any further column is a
feature of visitors, with a row for each of its values. `slotwise.Selector.load` goes on from there.

Examples:

  slotwise import clicks.csv --slots 3 --floor 0.3 --max-revenue 50 --discount 0.2
"""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""

    @app.command("import", help=HELP)
    def import_counts(
        file: Annotated[Path, typer.Argument(metavar="FILE", help="A CSV file.")],
        slots: Annotated[int, typer.Option("--slots", help="Links on a page.")],
        floor: Annotated[float, typer.Option("--floor", help="Clicks promised a page view.")] = 0.0,
        max_revenue: Annotated[
            float, typer.Option("--max-revenue", help="The most that a click brings.")
        ] = 1.0,
        discount: Annotated[
            float, typer.Option("--discount", help="What a known view is worth, from 0 to 1.")
        ] = 1.0,
        policy: Annotated[str | None, typer.Option("--policy", help="Another policy.")] = None,
        out: Annotated[
            Path | None, typer.Option("--out", help="The selector's file; FILE.sel by default.")
        ] = None,
    ) -> None:
        counts = read_known_counts(file)
        values: dict[str, dict[str, None]] = {}
        for row in counts:
            for name, value in row.visitor.items():
                values.setdefault(name, {})[value] = None
        selector = Selector(
            list(dict.fromkeys(row.link for row in counts)),
            slots,
            policy=policy,
            click_floor=floor,
            max_revenue=max_revenue,
            features={name: tuple(words) for name, words in values.items()},
        )
        start_from_counts(selector, counts, discount)
        path = file.with_suffix(".sel") if out is None else out
        selector.save(path)
        typer.echo(f"{len(selector.links)} links, {sum(row.views for row in counts):,} views known")
        typer.echo(path)
