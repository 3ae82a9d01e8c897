"""`slotwise serve`: run the decision service with settings from a file, variables and flags."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import msgspec
from typer import Option

from slotwise.errors import InvalidConfig
from slotwise.service.logs import start_logs
from slotwise.service.opening import check_start
from slotwise.service.server import ServerStart, serve
from slotwise.service.settings import Settings, load_settings, origin_of, setting_notes
from slotwise.service.storage import public_address


def serve_command(
    config: Annotated[
        Path | None, Option(help="TOML file with settings", envvar="SLOTWISE_CONFIG")
    ] = None,
    host: Annotated[str | None, Option(help="Address to listen on [127.0.0.1]")] = None,
    port: Annotated[int | None, Option(help="Port; 0 takes a free one [8460]")] = None,
    store: Annotated[
        str | None, Option(help="Store URL [sqlite:///slotwise.db, in this folder]")
    ] = None,
    set_: Annotated[
        list[str] | None, Option("--set", metavar="NAME=VALUE", help="Any other setting")
    ] = None,
    check: Annotated[
        bool, Option("--check", help="Check settings and store, print them, and stop")
    ] = False,
) -> None:
    """Run the decision service on this machine, with an embedded store or on PostgreSQL.

    The first start makes an admin key and prints it once. Settings come from
    a TOML file, SLOTWISE_* variables and flags; later ones take precedence.

    Examples:

      slotwise serve

      slotwise serve --store sqlite:////var/lib/slotwise/slotwise.db --port 9000

      slotwise serve --store postgresql://shop@db.example/shop --host 10.0.0.5

      slotwise serve --config slotwise.toml --set max_batch=500 --check
    """
    settings = gather_settings(config, {"host": host, "port": port, "store": store}, set_ or [])
    if check:
        check_start(settings)
        for name, note in setting_notes().items():
            value = msgspec.to_builtins(settings)[name]
            show = {"store": public_address, "store_direct": public_address, "alert_url": origin_of}
            print(f"{name:<18} {show.get(name, str)(value)!s:<24} {note}")
        return
    start_logs(settings.log_level)
    serve(settings, announce)


def gather_settings(
    config: Path | None, flags: dict[str, object], assignments: list[str]
) -> Settings:
    """Merge file, environment and flags; the values of `--set` are read like TOML's."""
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise InvalidConfig(f"flags: --set: must be NAME=VALUE, got {assignment!r}")
        flags[name] = value
    return load_settings(config, os.environ, flags)


def announce(start: ServerStart) -> None:
    """Print the addresses of the service and, at its first start, the admin key."""
    lines = [f"dashboard  {start.url}/", f"store      {public_address(start.settings.store)}"]
    if start.admin_key:
        lines.append(f"admin key  {start.admin_key}  (shown only now: store it)")
    print("\n".join(lines), flush=True)
