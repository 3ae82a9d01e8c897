"""`slotwise restore`: put a backup where the store is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slotwise.cli.verify import DEFAULT_STORE
from slotwise.service.storage.backup import restore
from slotwise.service.storage.existing import only_sqlite

__all__ = ["register"]

_POSTGRESQL = (
    "stop all replicas and use PostgreSQL's own tools: `createdb shop`, then "
    "`pg_restore --dbname=URL shop.dump`, then `slotwise verify --store URL`"
)
HELP = """Put a verified copy of a backup where the store is; stop the service first.

A store in PostgreSQL is restored with pg_restore.
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
    report = restore(backup, only_sqlite(store, "restore", _POSTGRESQL), overwrite)
    print(f"{store}: {report.n_pools} pools, {report.n_decisions} decisions, verified")
