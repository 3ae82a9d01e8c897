"""`slotwise move-store`: everything of a store to another place or engine."""

from __future__ import annotations

from typing import Annotated

import typer

from slotwise.cli._progress import progress_bar
from slotwise.service.storage import public_address
from slotwise.service.storage.move import move_store

__all__ = ["register"]

HELP = """Copy a store to an empty one, also between SQLite and PostgreSQL, and verify.

Stop all services on both first. Interrupted, the same command goes on where it stopped. Every row
is compared at the end; until then no service opens the new store. The old one stays as it is.

Examples:

  slotwise move-store sqlite:///slotwise.db postgresql://shop@db.example/shop

  slotwise move-store postgresql://shop@db.example/shop sqlite:///back.db
"""


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("move-store", help=HELP)(move_store_command)


def move_store_command(
    source: Annotated[str, typer.Argument(help="Store URL to read")],
    target: Annotated[str, typer.Argument(help="Store URL to fill; empty, or interrupted before")],
) -> None:
    """Move a store."""
    with progress_bar("move and compare") as tell:
        moved = move_store(source, target, tell)
    found = moved.verification
    print(
        f"{moved.n_rows} rows moved to {public_address(target)} and compared; {found.n_counters} "
        f"counters of {found.n_pools} pools and {found.n_decisions} decisions equal their rows"
    )
