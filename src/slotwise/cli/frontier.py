"""`slotwise frontier`: the cost of every click floor, from a table or a saved selector."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from slotwise.cli.datasets import parse_option
from slotwise.environments.datasets import DATASETS, Dataset, find_dataset, load_dataset
from slotwise.errors import InvalidInput
from slotwise.figures.canvas import save_figure
from slotwise.figures.floor_price import FrontierPicture, draw_frontier
from slotwise.selection import Frontier, frontier
from slotwise.selector import Selector

__all__ = ["register"]

N_ROWS = 10
HELP = """Print, and draw, the best revenue for every click floor and the price of one more click.

TABLE is a CSV, TSV or Parquet file with clicks, views and revenue of each link, or the name of a
data set. With --selector the curve is computed from the present estimates of a saved selector, with
a band.

Examples:

  slotwise frontier links.csv --slots 15 --floor 4 --out figures

  slotwise frontier links.csv --slots 15 -o clicks=n_clicks -o max_revenue=80

  slotwise frontier coupon-like

  slotwise frontier --selector selector.npz --out figures
"""


class Priced(NamedTuple):
    """A figure to draw, and the name of its files."""

    picture: FrontierPicture
    name: str


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""

    @app.command("frontier", help=HELP)
    def show_frontier(
        table: Annotated[
            str | None, typer.Argument(metavar="[TABLE]", help="A file, or a data set's name.")
        ] = None,
        slots: Annotated[
            int | None, typer.Option("--slots", help="Slots on the page; needed for a file.")
        ] = None,
        floor: Annotated[
            float | None,
            typer.Option("--floor", help="The floor to mark, in clicks per page view."),
        ] = None,
        selector: Annotated[
            Path | None, typer.Option("--selector", help="A saved selector, instead of TABLE.")
        ] = None,
        data: Annotated[
            Path | None, typer.Option("--data", help="The directory with a data set's files.")
        ] = None,
        option: Annotated[
            list[str] | None,
            typer.Option("--option", "-o", help="An option of the table, as name=value."),
        ] = None,
        out: Annotated[
            Path | None, typer.Option("--out", help="The directory for the figure and the CSV.")
        ] = None,
        formats: Annotated[
            str, typer.Option("--format", help="svg, png, or both with a comma.")
        ] = "svg,png",
    ) -> None:
        if (table is None) == (selector is None):
            raise InvalidInput.of("TABLE", "given, or else --selector", table)
        if selector is not None:
            if slots is not None or data is not None or option:
                rule = "left out with --selector, which knows its page"
                raise InvalidInput.of("--slots, --data and --option", rule, slots or data or option)
            priced = _of_selector(selector, floor)
        else:
            options = dict(parse_option(text) for text in option or [])
            priced = _of_dataset(_load(str(table), slots, floor, data, options), floor)
        console = Console(highlight=False)
        console.print(priced.picture.title, style="bold", markup=False)
        console.print(priced.picture.subtitle, markup=False)
        console.print(_table(priced.picture))
        if out is not None:
            kinds = [kind.strip() for kind in formats.split(",")]
            paths = save_figure(draw_frontier(priced.picture), out, priced.name, kinds)
            for path in [*paths, _write_corners(priced.picture.curve, out, priced.name)]:
                typer.echo(path)


def _load(
    table: str,
    slots: int | None,
    floor: float | None,
    data: Path | None,
    options: dict[str, str | int | float],
) -> Dataset:
    """Return the data set of that name, or one from a file of the user."""
    if slots is not None:
        options["n_slots"] = slots
    if floor is not None:
        options["click_floor"] = floor
    if table in DATASETS or find_dataset(table) is not None:
        return load_dataset(table, data, **options)
    path = Path(table)
    if not path.is_file():
        rule = f"a file, or one of the data sets {', '.join(DATASETS)}"
        raise InvalidInput.of("TABLE", rule, table)
    if slots is None:
        raise InvalidInput.of("--slots", "given for a file", None)
    options.setdefault("click_floor", 0.0)
    return load_dataset("table", path, **options)


def _of_dataset(data: Dataset, floor: float | None) -> Priced:
    curve = frontier(data.revenue_rate, data.click_rate, data.n_slots)
    present = data.click_floor if data.click_floor > 0 else floor
    return Priced(
        FrontierPicture(
            title=f"{data.title}: the price of the floor",
            subtitle=f"{data.n_links} links, {data.n_slots} slots  ·  {_sentence(curve, present)}",
            curve=curve,
            floor=present,
            revenue_word="scaled revenue per page view",
        ),
        f"frontier-{Path(data.title).stem if data.name == 'table' else data.name}",
    )


def _of_selector(path: Path, floor: float | None) -> Priced:
    selector = Selector.load(path)
    price, problem = selector.frontier(), selector.problem
    present = floor if floor is not None else (price.click_floor or None)
    sizes = f"{problem.n_links} links, {problem.n_slots} slots, {selector.policy.name}"
    if price.n_unseen:
        sizes += f", {price.n_unseen} not yet seen"
    return Priced(
        FrontierPicture(
            title=f"{path.name}: the price of the floor, as estimated now",
            subtitle=f"{sizes}  ·  {_sentence(price.estimate, present)}",
            curve=price.estimate,
            floor=present,
            band=(price.low, price.high),
        ),
        f"frontier-{path.stem}",
    )


def _sentence(curve: Frontier, floor: float | None) -> str:
    free, most = curve.floors[0], curve.floors[-1]
    said = f"costs nothing up to {free:.3g} clicks, at most {most:.3g}"
    if floor is None:
        return said
    if floor > most:
        return f"floor {floor:g}, infeasible; {said}"
    price = curve.shadow_price_at(floor)
    return f"floor {floor:g} at a shadow price of {price:.3g}; {said}"


def _rows(picture: FrontierPicture) -> list[float]:
    """Return the floors to print: evenly spaced ones that cost revenue, and the present one."""
    curve = picture.curve
    floors = set(np.linspace(curve.floors[0], curve.floors[-1], N_ROWS + 1).tolist())
    if picture.floor is not None:
        floors.add(picture.floor)
    return sorted(floors)


def _table(picture: FrontierPicture) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    headings = ["floor", "best revenue", "share", "shadow price"]
    if picture.band is not None:
        headings[2:2] = ["low", "high"]
        table.caption = "low and high: 95 % band for all floors at once, for constant rates"
        table.caption_justify = "left"
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for floor in _rows(picture):
        table.add_row(*_cells(picture, floor))
    return table


def _cells(picture: FrontierPicture, floor: float) -> list[str]:
    curve = picture.curve
    best, value = float(curve.values[0]), curve.value_at(floor)
    note = "present" if floor == picture.floor else ""
    cells = [f"{floor:.4g}", "infeasible" if np.isnan(value) else f"{value:.4f}"]
    if picture.band is not None:
        ends = [one.value_at(floor) for one in picture.band]
        cells += ["none" if np.isnan(end) else f"{end:.4f}" for end in ends]
    share = "" if np.isnan(value) or best == 0 else f"{value / best:.1%}"
    price = "" if np.isnan(value) else f"{curve.shadow_price_at(floor):.4f}"
    return [*cells, share, price, note]


def _write_corners(curve: Frontier, directory: Path, name: str) -> Path:
    """Write the exact corners; up to each floor, one more click costs the price beside it."""
    path = directory / f"{name}.csv"
    prices = np.concatenate([[0.0], curve.shadow_prices])
    lines = [
        f"{floor!r},{value!r},{price!r}"
        for floor, value, price in zip(
            curve.floors.tolist(), curve.values.tolist(), prices.tolist(), strict=True
        )
    ]
    path.write_text("\n".join(["floor,best_revenue,shadow_price", *lines, ""]), encoding="utf-8")
    return path
