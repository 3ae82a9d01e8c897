"""`slotwise datasets` and `slotwise policies`: list what there is, or show one of them."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import Annotated

import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from typer import Argument, Option

from slotwise.environments.datasets import (
    DATASETS,
    Dataset,
    Loader,
    LookAlike,
    load_dataset,
    look_ahead,
)
from slotwise.errors import InvalidInput, MissingData
from slotwise.policies import POLICIES, Policy, policy_class
from slotwise.problem import Problem

EXAMPLES = {"table": "slotwise datasets table --data links.csv -o n_slots=10 -o click_floor=0.4"}
"""Commands of data sets that need more than a directory."""
QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


def datasets_command(
    name: Annotated[str | None, Argument(help="The data set to show.")] = None,
    data: Annotated[
        Path | None, Option(help="The folder of the original files, or one of them.")
    ] = None,
    floor: Annotated[float | None, Option(help="Another floor, in clicks per page view.")] = None,
    option: Annotated[
        list[str] | None, Option("--option", "-o", help="An option of the data set, as name=value.")
    ] = None,
) -> None:
    """List the data sets, or show one: its sizes, its optimum and its rates.

    Look-alikes need no files; original data sets are read from --data.

    Examples:

      slotwise datasets

      slotwise datasets coupon-like --floor 5

      slotwise datasets edx-course --data downloads

      slotwise datasets table --data links.csv -o n_slots=10 -o click_floor=0.4
    """
    console = Console()
    if name is None:
        if data is not None or floor is not None or option:
            rule = "given together with --data, --floor or --option"
            raise InvalidInput.of("NAME", rule, None)
        console.print(datasets_overview())
        return
    options = dict(parse_option(text) for text in option or [])
    if floor is not None:
        options["click_floor"] = floor
    try:
        dataset = load_dataset(name, data, **options)
    except (InvalidInput, MissingData) as error:
        message = str(error).replace("`directory`", "`--data`")
        if data is None and isinstance(error, MissingData):
            message += f"; name them: {EXAMPLES.get(name, f'slotwise datasets {name} --data DIR')}"
        raise type(error)(message) from error
    show(console, dataset)


def parse_option(text: str) -> tuple[str, str | int | float]:
    """Split "name=value"; a value that is a number is returned as one.

    >>> parse_option("n_slots=10"), parse_option("click_rate=views-per-day")
    (('n_slots', 10), ('click_rate', 'views-per-day'))
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise InvalidInput.of("--option", "name=value", text)
    for number in (int, float):
        try:
            return name, number(value)
        except ValueError:
            continue
    return name, value


def datasets_overview() -> Table:
    """Return the table of all data sets."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.caption = "Loaders read the original files: slotwise datasets NAME --data DIR"
    table.caption_justify = "left"
    table.add_column("name", no_wrap=True)
    for heading in ("links", "slots"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("floor", no_wrap=True)
    table.add_column("what")
    for entry in DATASETS.values():
        table.add_row(*overview_row(entry))
    return table


def overview_row(entry: LookAlike | Loader) -> list[str]:
    """Return the cells of one data set."""
    if isinstance(entry, LookAlike):
        dataset = entry.build()
        floor = f"{dataset.click_floor:g}, {look_ahead(dataset).floor}"
        return [entry.name, f"{dataset.n_links}", f"{dataset.n_slots}", floor, dataset.title]
    if entry.n_links is None or entry.page is None:
        sizes = ["any", "any", "any"]
    else:
        sizes = [f"{entry.n_links}", f"{entry.page.n_slots}", f"{entry.page.click_floor:g}"]
    return [entry.name, *sizes, f"Loader; files: {entry.origin}"]


def show(console: Console, dataset: Dataset) -> None:
    """Print the contents of a data set and the optimum at its floor."""
    console.print(f"[bold]{dataset.name}[/]: {dataset.title}", highlight=False)
    for line in (dataset.source, *dataset.notes):
        console.print(f"  {line}", highlight=False, markup=False)
    console.print(facts(dataset))
    console.print(rates(dataset))


def facts(dataset: Dataset) -> Table:
    """Return the sizes, and revenue and clicks of the best pages."""
    outlook = look_ahead(dataset)
    is_feasible = outlook.floor != "infeasible"
    best = "best revenue at the floor" if is_feasible else "revenue of the most clicked page"
    rows = {
        "links": f"{dataset.n_links}",
        "slots": f"{dataset.n_slots}",
        "failure probability": f"{dataset.failure_probability:g}",
        "floor, in clicks per page view": f"{dataset.click_floor:g} ({outlook.floor})",
        best: f"{outlook.revenue:.4f} with {outlook.clicks:.3f} clicks",
        "best revenue without a floor": f"{outlook.revenue_without_floor:.4f} "
        f"with {outlook.clicks_without_floor:.3f} clicks",
        "largest possible clicks": f"{outlook.most_clicks:.3f}",
        "shadow price of a click": f"{outlook.shadow_price:.4f}" if is_feasible else "none",
    }
    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    for row in rows.items():
        table.add_row(*row)
    return table


def rates(dataset: Dataset) -> Table:
    """Return the quantiles of the three rates."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("rate at quantile", no_wrap=True)
    for quantile in QUANTILES:
        table.add_column(f"{quantile:.0%}", justify="right", no_wrap=True)
    named = {
        "click rate": dataset.click_rate,
        "revenue per click": dataset.revenue_per_click,
        "revenue rate": dataset.revenue_rate,
    }
    for name, values in named.items():
        table.add_row(name, *(f"{value:.4f}" for value in np.quantile(values, QUANTILES)))
    return table


def policies_command(
    name: Annotated[str | None, Argument(help="The policy to show.")] = None,
) -> None:
    """List the policies with their settings, or show the formula of one.

    Experiment files, `Selector` and the service use the same names and settings.

    Examples:

      slotwise policies

      slotwise policies con-ucb
    """
    console = Console()
    if name is None:
        console.print(policies_overview())
        return
    policy = policy_class(name)
    console.print(f"[bold]{policy.name}[/]", highlight=False)
    # The example at the end belongs to the source, not to the terminal.
    formula = (inspect.getdoc(policy) or "").partition(">>>")[0].rstrip()
    console.print(formula, highlight=False, markup=False, soft_wrap=True)
    console.print()
    console.print(f"settings: {settings_of(policy)}", highlight=False, markup=False)


def policies_overview() -> Table:
    """Return the table of all policies."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.caption = "slotwise policies NAME shows its formula"
    table.caption_justify = "left"
    table.add_column("name", no_wrap=True)
    for heading in ("needs a horizon", "keeps the floor", "learns from"):
        table.add_column(heading, max_width=9)
    table.add_column("what, and settings with defaults", overflow="fold")
    for policy in POLICIES.values():
        answers = (needs_horizon(policy), policy.keeps_floor)
        first_line = (inspect.getdoc(policy) or "").partition("\n")[0]
        table.add_row(
            policy.name,
            *("yes" if answer else "no" for answer in answers),
            policy.needs.value,
            escape(f"{first_line}\nSettings: {settings_of(policy) or 'none'}"),
        )
    return table


def settings_of(policy: type[Policy]) -> str:
    """Return the settings of a policy with their defaults, as in Python."""
    parts = []
    for field in dataclasses.fields(policy):  # type: ignore[arg-type]
        if field.default is dataclasses.MISSING:
            parts.append(f"{field.name} (required)")
        else:
            parts.append(f"{field.name}={field.default}")
    return ", ".join(parts)


def needs_horizon(policy: type[Policy]) -> bool:
    """Return whether the policy needs to know the number of rounds."""
    if "horizon" not in {field.name for field in dataclasses.fields(policy)}:  # type: ignore[arg-type]
        return False
    try:
        policy().start(Problem(n_links=2, n_slots=1))
    except InvalidInput as error:
        return error.argument == "horizon"
    return False
