"""`slotwise keys`: make, list and revoke keys in a store that no service is running on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from slotwise.errors import InvalidInput
from slotwise.service.access.keys import SCOPES, new_key
from slotwise.service.api.answers import to_time
from slotwise.service.api.context import system_clock_us
from slotwise.service.errors import StoreInUse
from slotwise.service.opening import open_service
from slotwise.service.service import Service
from slotwise.service.settings import Settings
from slotwise.service.storage.existing import open_existing_to_read

__all__ = ["register"]

HELP = """Make, list and revoke the keys of a store.

While a service runs on a store in a file its keys can be listed here; it makes and revokes them
itself, with `POST /v1/keys` and `DELETE /v1/keys/{key_id}`. On PostgreSQL all commands work.

Examples:

  slotwise keys make admin --label "Ana's laptop"

  slotwise keys make decide track --label "shop front"

  slotwise keys list

  slotwise keys revoke 5f0c9a7d3b21e884
"""
StoreUrl = Annotated[str, typer.Option(help="Store URL")]
_DEFAULT_STORE = Settings().store


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    keys = typer.Typer(help=HELP, no_args_is_help=True)
    keys.command("make", help="Make a key and print it, this once.")(make)
    keys.command("list", help="List the keys; their secrets are not known.")(list_keys)
    keys.command("revoke", help="Make a key useless for good.")(revoke)
    app.add_typer(keys, name="keys")


def make(
    scopes: Annotated[list[str], typer.Argument(help=f"Some of: {', '.join(SCOPES)}")],
    label: Annotated[str, typer.Option(help="Whose key it is")] = "",
    pool: Annotated[str, typer.Option(help="For scope page: the pool that the key is for")] = "",
    store: StoreUrl = _DEFAULT_STORE,
) -> None:
    """Make a key."""
    now_us = system_clock_us()
    wanted = [scope for scope in SCOPES if scope in scopes]
    if len(wanted) != len(scopes):
        raise InvalidInput.of("scopes", f"some of {', '.join(SCOPES)}, once each", scopes)
    made = new_key(wanted, label=label, pool_id=pool, now_us=now_us)
    with _opened(store, "POST /v1/keys") as service:
        if pool:
            service.pool(pool)
        service.put_key(made.record, "slotwise keys", now_us).result()
    print(made.secret)


def list_keys(store: StoreUrl = _DEFAULT_STORE) -> None:
    """List the keys."""
    table = Table("key id", "scopes", "pool", "label", "made", "revoked")
    table.columns[0].no_wrap = True
    opened = open_existing_to_read(store)
    try:
        with opened.reading() as reader:
            keys = list(reader.keys())
    finally:
        opened.close()
    for key in keys:
        if key.scopes:
            revoked = f"{to_time(key.revoked_us):%Y-%m-%d %H:%M}" if key.revoked_us else ""
            made = f"{to_time(key.created_us):%Y-%m-%d %H:%M}"
            table.add_row(key.key_id, ", ".join(key.scopes), key.pool_id, key.label, made, revoked)
    Console().print(table)


def revoke(
    key_id: Annotated[str, typer.Argument(help="Id of the key, from the list")],
    store: StoreUrl = _DEFAULT_STORE,
) -> None:
    """Revoke a key."""
    with _opened(store, f"DELETE /v1/keys/{key_id}") as service:
        service.revoke_key(key_id, "slotwise keys", system_clock_us()).result()
    print(f"{key_id} is revoked")


@contextmanager
def _opened(store: str, call: str) -> Iterator[Service]:
    """Open a store; where a service runs on it, name the call that does the same there."""
    try:
        service = open_service(Settings(store=store))
    except StoreInUse as error:
        raise StoreInUse(f"{error}: {call}, or Keys on its dashboard") from None
    try:
        yield service
    finally:
        service.close()
