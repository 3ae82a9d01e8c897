"""`slotwise keys`: make, list and revoke the keys of a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Annotated, cast

import typer
from rich.console import Console
from rich.table import Table
from typer import Argument, Option

from slotwise.errors import InvalidInput
from slotwise.service.access.keys import SCOPES, new_key
from slotwise.service.api.context import system_clock_us
from slotwise.service.opening import open_service
from slotwise.service.records import Scope, to_time
from slotwise.service.refusals import StoreInUse
from slotwise.service.service import Service
from slotwise.service.settings import Settings
from slotwise.service.storage.maintenance import open_existing_to_read

StoreUrl = Annotated[str, Option(help="Store URL", envvar="SLOTWISE_STORE")]
_DEFAULT_STORE = Settings().store


def make(
    scopes: Annotated[list[str], Argument(help=f"Some of: {', '.join(SCOPES)}")],
    label: Annotated[str, Option(help="Whose key it is")] = "",
    pool: Annotated[str, Option(help="For scope page: the pool that the key is for")] = "",
    store: StoreUrl = _DEFAULT_STORE,
) -> None:
    """Make a key."""
    now_us = system_clock_us()
    if ("page" in scopes) != bool(pool):
        rule = "given for a key with scope page, and only for such a key"
        raise InvalidInput.of("--pool", rule, pool)
    made = new_key(cast("list[Scope]", scopes), label=label, pool_id=pool, now_us=now_us)
    with _opened(store, "POST /v1/keys") as service:
        if pool:
            service.directory.pool(pool)
        service.directory.put_key(made.record, "slotwise keys", now_us).result()
    print(made.secret)


def list_keys(store: StoreUrl = _DEFAULT_STORE) -> None:
    """List the keys."""
    table = Table("key id", "scopes", "pool", "label", "made", "revoked")
    table.columns[0].no_wrap = True
    with closing(open_existing_to_read(store)) as opened, opened.reading() as reader:
        keys = list(reader.keys())
    for key in keys:
        if key.scopes:
            revoked = f"{to_time(key.revoked_us):%Y-%m-%d %H:%M}" if key.revoked_us else ""
            made = f"{to_time(key.created_us):%Y-%m-%d %H:%M}"
            table.add_row(key.key_id, ", ".join(key.scopes), key.pool_id, key.label, made, revoked)
    Console().print(table)


def revoke(
    key_id: Annotated[str, Argument(help="Id of the key, from the list")],
    store: StoreUrl = _DEFAULT_STORE,
) -> None:
    """Revoke a key."""
    with _opened(store, f"DELETE /v1/keys/{key_id}") as service:
        service.directory.revoke_key(key_id, "slotwise keys", system_clock_us()).result()
    print(f"{key_id} is revoked")


keys_command = typer.Typer(
    help="""Make, list and revoke the keys of a store.

While a service runs on a store in a file, this command can only list the keys: make and revoke
them with `POST /v1/keys` and `DELETE /v1/keys/{key_id}`. On PostgreSQL all commands work.

Examples:

  slotwise keys make admin --label "Ana's laptop"

  slotwise keys make decide track --label "shop front"

  slotwise keys list

  slotwise keys revoke 5f0c9a7d3b21e884
""",
    no_args_is_help=True,
)
keys_command.command("make", help="Make a key and print it; it is shown only once.")(make)
keys_command.command("list", help="List the keys, without their secrets.")(list_keys)
keys_command.command("revoke", help="Revoke a key permanently.")(revoke)


@contextmanager
def _opened(store: str, call: str) -> Iterator[Service]:
    """Open a store; where a service runs on it, name the call that does the same there."""
    try:
        service = open_service(Settings(store=store))
    except StoreInUse as error:
        raise StoreInUse(f"{error}: {call}, or Keys on its dashboard") from None
    with closing(service):
        yield service
