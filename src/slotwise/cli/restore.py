"""`slotwise restore`: put a backup where the store is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slotwise.cli.verify import DEFAULT_STORE
from slotwise.service.storage import sqlite_path
from slotwise.service.storage.backup import restore

__all__ = ["register"]

HELP = """Put a verified copy of a backup where the store is; stop the service first.

With --overwrite a store that is there is replaced, and kept beside it as `.replaced`.

Examples:

  slotwise restore monday.db

  slotwise restore monday.db --overwrite
"""


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("restore", help=HELP)(restore_command)


def restore_command(
    backup: Annotated[Path, typer.Argument(help="A file that `slotwise backup` made")],
    store: Annotated[str, typer.Option(help="Store URL")] = DEFAULT_STORE,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a store that is there")
    ] = False,
) -> None:
    """Restore a store."""
    report = restore(backup, sqlite_path(store), overwrite)
    print(f"{store}: {report.n_pools} pools, {report.n_decisions} decisions, verified")
