"""`slotwise forget`: let the views that a key proposed count no more."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
import typer

from slotwise.errors import InvalidInput
from slotwise.service.api.answers import Time, from_time
from slotwise.service.api.context import system_clock_us
from slotwise.service.records import ChangeRecord
from slotwise.service.settings import Settings
from slotwise.service.storage.commands import ForgetViews
from slotwise.service.storage.existing import open_existing

__all__ = ["register"]

HELP = """Let the views that a key asked for since a time count no more.

For a key on a page that somebody misused. Revoke the key first. The rows stay; counters lose
what these views added, and policies that learn view by view learn again from the rest.
While a service runs on a store in a file, ask it: `POST /v1/keys/{key_id}/forget`.

Examples:

  slotwise forget --key 5f0c9a7d3b21e884 --since 2026-01-05T10:00:00Z
"""


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("forget", help=HELP)(forget)


def forget(
    key: Annotated[str, typer.Option(help="Id of the key, from `slotwise keys list`")],
    since: Annotated[str, typer.Option(help="The first moment to forget, RFC 3339")],
    store: Annotated[str, typer.Option(help="Store URL")] = Settings().store,
) -> None:
    """Forget views."""
    try:
        moment: datetime = msgspec.convert(since, Time)
    except msgspec.ValidationError:
        rule = "a time with its zone, such as 2026-01-05T10:00:00Z"
        raise InvalidInput.of("since", rule, since) from None
    opened = open_existing(store)
    try:
        with opened.reading() as reader:
            known = {one.key_id for one in reader.keys()}  # noqa: SIM118 - a reader is no dict
        if key not in known:
            raise InvalidInput.of("key", "the id of a key of this store", key)
        change = ChangeRecord(
            changed_us=system_clock_us(),
            changed_by="slotwise forget",
            action="key.forget",
            subject=key,
            after=msgspec.json.encode({"since": since}).decode(),
        )
        operation = ForgetViews(key_id=key, since_us=from_time(moment), change=change)
        [n_views] = opened.commit([operation])
    finally:
        opened.close()
    print(f"{n_views} views count no more")
