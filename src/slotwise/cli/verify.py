"""`slotwise verify`: compare every counter with its rows."""

from __future__ import annotations

from typing import Annotated

import typer

from slotwise.service.storage.existing import open_existing_to_read
from slotwise.service.storage.verify import verify

__all__ = ["DEFAULT_STORE", "register"]

DEFAULT_STORE = "sqlite:///slotwise.db"
HELP = """Recompute every counter of a store from its raw rows and compare.

Also asks the database to check its own files. The service may be running. The exit status is 1
when a counter differs or the database is damaged.

Examples:

  slotwise verify

  slotwise verify --store sqlite:////var/lib/slotwise/slotwise.db

  slotwise verify --store postgresql://shop@db.example/shop
"""


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("verify", help=HELP)(verify_command)


def verify_command(
    store: Annotated[str, typer.Option(help="Store URL")] = DEFAULT_STORE,
) -> None:
    """Compare every counter with its rows."""
    opened = open_existing_to_read(store)
    try:
        report = verify(opened)
    finally:
        opened.close()
    if report.damage:
        print(f"the database is damaged: {report.damage}")
    for mismatch in report.mismatches:
        print(mismatch)
    print(
        f"{report.n_counters} counters of {report.n_pools} pools and {report.n_decisions} "
        f"decisions: {len(report.mismatches)} differ from the rows"
    )
    if report.mismatches or report.damage:
        raise typer.Exit(1)
