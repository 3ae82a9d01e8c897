"""`slotwise frontier`: the most revenue at every floor, or what each share of a guarantee costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from typer import Argument, Option

from slotwise.cli.catalogue import parse_option
from slotwise.environments.datasets import DATASETS, Dataset, find_dataset, load_dataset
from slotwise.errors import InvalidInput
from slotwise.problem import Rule
from slotwise.selection import Frontier, SlotRule, frontier, solve_rules
from slotwise.selector import Selector

if TYPE_CHECKING:  # the service runs `plan` where matplotlib is not installed
    from slotwise.figures import FrontierPicture


N_ROWS = 10

N_GUARANTEES = 100
"""Guarantees at which the best mix within a floor is computed."""

Priced = tuple["FrontierPicture", str]
"""A figure to draw, and the name of its files."""


def frontier_command(
    table: Annotated[
        str | None, Argument(metavar="[TABLE]", help="A file, or a data set's name.")
    ] = None,
    slots: Annotated[int | None, Option(help="Slots on the page; needed for a file.")] = None,
    floor: Annotated[
        float | None, Option(help="The floor to mark, in clicks per page view.")
    ] = None,
    selector: Annotated[Path | None, Option(help="A saved selector, instead of TABLE.")] = None,
    rule: Annotated[
        str | None, Option(help='The price of a guarantee instead: "partner: 3,4 >= 0.5".')
    ] = None,
    data: Annotated[
        Path | None, Option(help="The folder of a data set's files, or one of them.")
    ] = None,
    option: Annotated[
        list[str] | None, Option("--option", "-o", help="An option of the table, as name=value.")
    ] = None,
    out: Annotated[Path | None, Option(help="The directory for the figure and the CSV.")] = None,
    formats: Annotated[str, Option("--format", help="svg, png, or both with a comma.")] = "svg,png",
) -> None:
    """Print or draw the best revenue for every click floor and the price of one more click.

    TABLE is a CSV, TSV or Parquet file with clicks, views and revenue of each link, or the name of
    a data set. With --selector the curve is computed from the present estimates of a saved
    selector, with a band. With --rule it shows what a guarantee costs as it grows, while the floor
    is kept; links are named as in the table, or numbered from 0 on.

    Examples:

      slotwise frontier links.csv --slots 15 --floor 4 --out figures

      slotwise frontier coupon-mild --rule "partner: 3,4 >= 0.5" --out figures

      slotwise frontier links.csv --slots 15 -o clicks=n_clicks -o max_revenue=80

      slotwise frontier coupon-mild

      slotwise frontier --selector front-page.sel --out figures
    """
    if (table is None) == (selector is None):
        message = "give TABLE, a file or the name of a data set, or --selector, a saved selector"
        raise InvalidInput(f"{message}; got {'neither' if table is None else 'both'}")
    if selector is not None:
        if slots is not None or data is not None or option or rule:
            wanted = "left out with --selector, which has its own"
            names, found = "--slots, --data, --option and --rule", slots or data or option or rule
            raise InvalidInput.of(names, wanted, found)
        picture, name = _of_selector(selector, floor)
    else:
        options = dict(parse_option(text) for text in option or [])
        loaded = _load(str(table), slots, floor, data, options)
        picture, name = _of_dataset(loaded, floor) if rule is None else _of_guarantee(loaded, rule)
    console = Console(highlight=False)
    console.print(picture.title, style="bold", markup=False)
    console.print(picture.subtitle, markup=False)
    console.print(_table(picture))
    if out is not None:
        from slotwise.figures import draw_frontier, save_figure

        kinds = [kind.strip() for kind in formats.split(",")]
        paths = save_figure(draw_frontier(picture), out, name, kinds)
        for path in [*paths, _write_corners(picture.curve, out, name)]:
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
        raise InvalidInput(f"give --slots, the number of links on a page, for the file {table}")
    options.setdefault("click_floor", 0.0)
    return load_dataset("table", path, **options)


def _of_dataset(data: Dataset, floor: float | None) -> Priced:
    from slotwise.figures import FrontierPicture

    curve = frontier(data.revenue_rate, data.click_rate, data.n_slots)
    present = data.click_floor if data.click_floor > 0 else floor
    return (
        FrontierPicture(
            title=f"{data.title}: the price of the floor",
            subtitle=f"{data.n_links} links, {data.n_slots} slots  ·  {_sentence(curve, present)}",
            curve=curve,
            floor=present,
            revenue_word="scaled revenue per page view",
        ),
        f"frontier-{Path(data.title).stem if data.name == 'table' else data.name}",
    )


def _of_guarantee(data: Dataset, text: str) -> Priced:
    """Return the best revenue against the slots that a rule guarantees, within the click floor."""
    from slotwise.figures import FrontierPicture

    rule = _rule_of(data, text)
    if not rule.at_least:
        raise rule.error("at_least", "given, as in NAME: LINK,LINK >= SLOTS", text)
    rule.check_page(data.n_slots)
    places = np.array(rule.links, np.int64)
    value, clicks, n_slots = data.revenue_rate, data.click_rate, data.n_slots
    most = float(min(n_slots, len(places)))
    if data.click_floor > 0:
        slots = np.linspace(0.0, most, N_GUARANTEES + 1)
        bounds = [[SlotRule(places, least, most)] for least in slots.tolist()]
        found = [solve_rules(value, clicks, n_slots, data.click_floor, one) for one in bounds]
        values = np.array([one.value for one in found])
        curve = Frontier(slots, values, np.maximum(-np.diff(values) / np.diff(slots), 0.0))
    else:  # slots of the rule in the place of clicks: exact
        is_of_rule = np.zeros(data.n_links)
        is_of_rule[places] = 1.0
        curve = frontier(value, is_of_rule, n_slots)
    cost = curve.value_at(0.0) - curve.value_at(rule.at_least)
    floor = f"floor {data.click_floor:g}"
    sentence = f"{rule.at_least:g} slots cost {cost:.3g} of {curve.value_at(0.0):.3g} a page view"
    return (
        FrontierPicture(
            title=f"{data.title}: the price of the guarantee {rule.name}",
            subtitle=f"{data.n_links} links, {n_slots} slots, {floor}  ·  {sentence}",
            curve=curve,
            floor=rule.at_least,
            revenue_word="scaled revenue per page view",
            bound="guarantee",
            axis="guaranteed slots per page",
            unit="slot per page",
        ),
        f"guarantee-{Path(data.title).stem if data.name == 'table' else data.name}",
    )


def _rule_of(data: Dataset, text: str) -> Rule:
    """Return a rule whose links are places of a data set."""
    rule, names = Rule.of_text(text), list(data.link_names or map(str, range(data.n_links)))
    for link in rule.links:
        if link not in names:
            raise rule.error("links", "links of the table", link)
    return replace(rule, links=[names.index(link) for link in rule.links])


def _of_selector(path: Path, floor: float | None) -> Priced:
    from slotwise.figures import FrontierPicture

    selector = Selector.load(path)
    price, problem = selector.frontier(), selector.problem
    present = floor if floor is not None else (price.click_floor or None)
    sizes = f"{problem.n_links} links, {problem.n_slots} slots, {selector.policy.name}"
    if price.n_unseen:
        sizes += f", {price.n_unseen} not yet seen"
    return (
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
    sentence = f"costs nothing up to {free:.3g} clicks, at most {most:.3g}"
    if floor is None:
        return sentence
    if floor > most:
        return f"floor {floor:g}, infeasible; {sentence}"
    price = curve.shadow_price_at(floor)
    return f"floor {floor:g} at a shadow price of {price:.3g}; {sentence}"


def _rows(picture: FrontierPicture) -> list[float]:
    """Return the floors to print: evenly spaced ones that cost revenue, and the present one."""
    curve = picture.curve
    floors = set(np.linspace(curve.floors[0], curve.floors[-1], N_ROWS + 1).tolist())
    if picture.floor is not None:
        floors.add(picture.floor)
    return sorted(floors)


def _table(picture: FrontierPicture) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    headings = [picture.bound, "best revenue", "share", "shadow price"]
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
    """Write the exact corners; up to each floor, one more click costs the price in its row."""
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
