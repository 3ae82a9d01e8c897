"""`slotwise backup`: a checked copy of a store, also while the service runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slotwise.service.storage import sqlite_path
from slotwise.service.storage.backup import back_up

__all__ = ["register"]

HELP = """Copy a store to a file and check the copy; the service may be running.

Examples:

  slotwise backup monday.db

  slotwise backup monday.db --store sqlite:////var/lib/slotwise/slotwise.db
"""


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("backup", help=HELP)(backup_command)


def backup_command(
    target: Annotated[Path, typer.Argument(help="The new file")],
    store: Annotated[str, typer.Option(help="Store URL")] = "sqlite:///slotwise.db",
) -> None:
    """Copy a store."""
    report = back_up(sqlite_path(store), target)
    print(f"{target}: {report.n_pools} pools, {report.n_decisions} decisions, checked")
