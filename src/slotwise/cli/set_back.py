"""`slotwise set-back`: set the times of a store back, after a clock that was ahead."""

from __future__ import annotations

from typing import Annotated

import typer

from slotwise.service.api.context import system_clock_us
from slotwise.service.settings import Settings
from slotwise.service.storage.existing import existing_store, only_sqlite
from slotwise.service.storage.set_back import set_times_back

__all__ = ["register"]

_NOT_NEEDED = (
    "replicas on PostgreSQL take their time from the database, so only its own clock can be ahead: "
    "set that right and wait until the time in the store has passed"
)
HELP = """Set the times of a store back, after a clock that was ahead once.

A store never counts back by itself: when its latest time lies in the future, all feedback until
then is late (the metric slotwise_store_ahead_seconds). This sets every time back by as much, so
that what counted still counts. Make a backup first. No service may run on the store.

Examples:

  slotwise set-back --store sqlite:////var/lib/slotwise/slotwise.db
"""


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("set-back", help=HELP)(set_back)


def set_back(
    store: Annotated[str, typer.Option(help="Store URL")] = Settings().store,
) -> None:
    """Set times back."""
    by_us = set_times_back(
        existing_store(only_sqlite(store, "set-back", _NOT_NEEDED)), system_clock_us()
    )
    if by_us:
        print(f"all times were set back by {by_us / 1e6:,.0f} s")
    else:
        print("no time of the store lies in the future")
