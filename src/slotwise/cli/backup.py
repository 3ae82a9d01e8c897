"""`slotwise backup`: a copy of a store, also while the service runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slotwise.cli.verify import DEFAULT_STORE, verify_command
from slotwise.service.storage import sqlite_path
from slotwise.service.storage.backup import back_up

__all__ = ["register"]

HELP = """Copy a store to a new file that only its owner can read; the service may be running.

With --verify the copy's counters are compared with its rows, as `slotwise restore` does.

Examples:

  slotwise backup monday.db

  slotwise backup monday.db --store sqlite:////var/lib/slotwise/slotwise.db --verify
"""


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("backup", help=HELP)(backup_command)


def backup_command(
    target: Annotated[Path, typer.Argument(help="The new file")],
    store: Annotated[str, typer.Option(help="Store URL")] = DEFAULT_STORE,
    check: Annotated[bool, typer.Option("--verify", help="Verify the copy")] = False,
) -> None:
    """Copy a store."""
    back_up(sqlite_path(store), target)
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB copied")
    if check:
        verify_command(str(target))
