"""`slotwise serve`: run the decision service."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from slotwise.errors import InvalidConfig
from slotwise.service.learning.compiling import COMPILING
from slotwise.service.logs import start_logs
from slotwise.service.opening import check_start
from slotwise.service.server import ServerStart, serve
from slotwise.service.settings import Settings, load_settings, setting_notes
from slotwise.service.stopping import end_beside_compiler
from slotwise.service.storage import public_address

__all__ = ["first_steps", "register"]

HELP = """Run the decision service on this machine, with an embedded store or on PostgreSQL.

The first start makes an admin key and prints it, once, with commands to try.
Settings come from a TOML file, SLOTWISE_* variables and flags; later ones win.

Examples:

  slotwise serve

  slotwise serve --store sqlite:////var/lib/slotwise/slotwise.db --port 9000

  slotwise serve --store postgresql://shop@db.example/shop --host 10.0.0.5

  slotwise serve --config slotwise.toml --set max_batch=500 --check
"""


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("serve", help=HELP)(serve_command)


def serve_command(
    config: Annotated[
        Path | None, typer.Option(help="TOML file with settings", envvar="SLOTWISE_CONFIG")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on [127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 takes a free one [8460]")] = None,
    store: Annotated[
        str | None, typer.Option(help="Store URL [sqlite:///slotwise.db, in this folder]")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any other setting")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check settings and store, print them, and stop")
    ] = False,
) -> None:
    """Run the decision service."""
    settings = gather_settings(config, {"host": host, "port": port, "store": store}, set_ or [])
    if check:
        check_start(settings)
        for name, note in setting_notes().items():
            value = msgspec.to_builtins(settings)[name]
            shown = public_address(value) if name in ("store", "store_direct") else value
            print(f"{name:<16} {shown!s:<24} {note}")
        return
    start_logs(settings.log_level)
    serve(settings, announce)
    end_beside_compiler(COMPILING)


def gather_settings(config: Path | None, flags: dict[str, Any], assignments: list[str]) -> Settings:
    """Merge file, environment and flags; the values of `--set` are read like TOML's."""
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise InvalidConfig(f"flags: --set: must be NAME=VALUE, got {assignment!r}")
        flags[name] = value
    return load_settings(config, os.environ, flags)


def announce(start: ServerStart) -> None:
    """Say where the service is and, at the very first start, how to use it."""
    print(f"slotwise serves {public_address(start.settings.store)} at {start.url}", flush=True)
    if start.admin_key:
        print(first_steps(start.url, start.admin_key), flush=True)
        if start.compiling:
            names = ", ".join(start.compiling)
            print(f"Compiling {names}: up to a minute, once on a machine. Until then pages come in")
            print("the fallback order and say so; /readyz answers 503.", flush=True)


def first_steps(url: str, admin_key: str) -> str:
    """Return commands that make a pool, choose a page and report a click."""
    return f"""
This is the first start. The admin key is shown only now; keep it:

  KEY={admin_key}
  URL={url}

Try it: make a pool, give it links, choose a page, report a click.

  curl -sS -X PUT "$URL/v1/pools/home" -H "Authorization: Bearer $KEY" \\
    -H "Content-Type: application/json" \\
    -d '{{"slots": 2, "click_floor": 0.1, "click_window_s": 5, "revenue_window_s": 10,
         "max_revenue": {{"amount_micros": 50000000, "currency": "EUR"}},
         "allowed_hosts": ["shop.example"]}}'
  curl -sS -X POST "$URL/v1/pools/home/links:batch" -H "Authorization: Bearer $KEY" \\
    -H "Content-Type: application/json" \\
    -d '{{"links": [{{"link_id": "l1", "url": "https://shop.example/1"}},
                   {{"link_id": "l2", "url": "https://shop.example/2"}},
                   {{"link_id": "l3", "url": "https://shop.example/3"}}]}}'
  curl -sS -X POST "$URL/v1/pools/home/decide" -H "Authorization: Bearer $KEY" \\
    -H "Content-Type: application/json" \\
    -d '{{"decision_id": "first", "pin": [{{"link_id": "l1", "position": 1}}]}}'
  curl -sS -X POST "$URL/v1/events" -H "Authorization: Bearer $KEY" \\
    -H "Content-Type: application/json" \\
    -d '{{"type": "click", "decision_id": "first", "link_id": "l1"}}'
  curl -sS "$URL/v1/decisions/first" -H "Authorization: Bearer $KEY"
"""
