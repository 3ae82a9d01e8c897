"""`slotwise backup`: a copy of a store, also while the service runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slotwise.cli.verify import DEFAULT_STORE, verify_command
from slotwise.service.storage.backup import back_up
from slotwise.service.storage.existing import only_sqlite

__all__ = ["register"]

_POSTGRESQL = (
    "copy a database with PostgreSQL's own tools: `pg_dump --format=custom --file=shop.dump URL` "
    "for a copy of one moment, or pg_basebackup with an archive of the WAL to go back to any moment"
)
HELP = """Copy a store to a new file that only its owner can read; the service may be running.

A store in PostgreSQL is copied with pg_dump or pg_basebackup.
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
    back_up(only_sqlite(store, "backup", _POSTGRESQL), target)
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB copied")
    if check:
        verify_command(str(target))
