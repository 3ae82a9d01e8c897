"""`slotwise policies`: list the policies, or show the formula of one."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from slotwise.errors import InvalidInput
from slotwise.policies import POLICIES, Policy, policy_class
from slotwise.problem import Problem

__all__ = ["register"]

HELP = """List the policies with their settings, or show the formula of one.

Examples:

  slotwise policies

  slotwise policies con-ucb
"""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""

    @app.command("policies", help=HELP)
    def policies(
        name: Annotated[str | None, typer.Argument(help="The policy to show.")] = None,
    ) -> None:
        console = Console()
        if name is None:
            console.print(overview())
            return
        policy = find(name)
        console.print(f"[bold]{policy.name}[/]", highlight=False)
        # The example at the end belongs to the source, not to the terminal.
        formula = (inspect.getdoc(policy) or "").partition(">>>")[0].rstrip()
        console.print(formula, highlight=False, markup=False, soft_wrap=True)
        console.print()
        console.print(f"settings: {settings_of(policy)}", highlight=False, markup=False)


def find(name: str) -> type[Policy]:
    """Return the policy of that name; the error for an unknown one suggests the closest name."""
    return policy_class(name)


def overview() -> Table:
    """Return the table of all policies."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.caption = "slotwise policies NAME shows its formula"
    table.caption_justify = "left"
    table.add_column("name", no_wrap=True)
    table.add_column("settings and defaults")
    for heading in ("needs a horizon", "keeps the floor", "learns from"):
        table.add_column(heading, justify="center", max_width=11)
    table.add_column("what")
    for policy in POLICIES.values():
        answers = (needs_horizon(policy), policy.keeps_floor)
        first_line = (inspect.getdoc(policy) or "").partition("\n")[0]
        table.add_row(
            policy.name,
            escape(settings_of(policy) or "none"),
            *("yes" if answer else "no" for answer in answers),
            policy.needs.value,
            escape(first_line),
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
