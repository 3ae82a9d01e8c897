"""`slotwise purge`: drop raw rows that are older than they need be."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from slotwise.cli.verify import DEFAULT_STORE
from slotwise.service.records import DAY_US
from slotwise.service.storage.existing import open_existing
from slotwise.service.storage.purge import purge

__all__ = ["register"]

HELP = """Drop raw rows whose windows closed long ago; every counter stays as it is.

Decisions go with their clicks, conversions and refunds once they are counted. A running service
does this by itself with the setting `retention_days`; here it must be stopped where the
store is a file; on PostgreSQL it may run. The store keeps its size: the room is used again.

Examples:

  slotwise purge --older-than 90

  slotwise purge --older-than 30 --store sqlite:////var/lib/slotwise/slotwise.db
"""


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("purge", help=HELP)(purge_command)


def purge_command(
    older_than: Annotated[int, typer.Option(help="Days since the windows closed", min=1)],
    store: Annotated[str, typer.Option(help="Store URL")] = DEFAULT_STORE,
) -> None:
    """Drop old raw rows."""
    opened = open_existing(store)
    try:
        with opened.reading() as reader:
            before_us = reader.progress().closed_until_us - older_than * DAY_US
        n_purged = purge(
            opened.reading, lambda one: opened.commit([one])[0], before_us, max_steps=sys.maxsize
        )
    finally:
        opened.close()
    print(f"{n_purged} views and waiting events dropped; the counters are as before")
