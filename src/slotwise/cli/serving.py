"""`slotwise serve`, `keys` and `import`: run the decision service, make keys, import counts."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, cast

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from typer import Argument, Option

from slotwise.errors import InvalidConfig, InvalidInput
from slotwise.selector import KnownCounts, Selector, read_known_counts, start_from_counts
from slotwise.selector.arguments import checked_share
from slotwise.service.access.keys import SCOPES, new_key
from slotwise.service.api.context import system_clock_us
from slotwise.service.logs import start_logs
from slotwise.service.opening import check_start, open_service
from slotwise.service.pool import read_known_table
from slotwise.service.records import Scope, to_time
from slotwise.service.refusals import StoreInUse
from slotwise.service.server import ServerStart, serve
from slotwise.service.service import Service
from slotwise.service.settings import Settings, load_settings, origin_of, setting_notes
from slotwise.service.storage import public_address
from slotwise.service.storage.maintenance import open_existing, open_existing_to_read


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


MAX_CHARS = 500_000
"""Most characters of a table sent in one call; a body may have a million bytes."""


def import_command(
    file: Annotated[Path, Argument(metavar="FILE", help="A CSV file.")],
    discount: Annotated[float, Option(help="Weight of an imported view, from 0 to 1.")] = 1.0,
    pool: Annotated[str | None, Option(help="The pool to import into.")] = None,
    url: Annotated[str | None, Option(help="Address of the running service.")] = None,
    store: Annotated[str | None, Option(help="Store URL of a stopped service.")] = None,
    key: Annotated[str, Option(envvar="SLOTWISE_KEY", help="An admin key, for --url.")] = "",
    slots: Annotated[int | None, Option(help="For a selector: links on a page.")] = None,
    floor: Annotated[float, Option(help="For a selector: the click floor.")] = 0.0,
    max_revenue: Annotated[float, Option(help="For a selector: the most a click can earn.")] = 1.0,
    policy: Annotated[str | None, Option(help="For a selector: the policy.")] = None,
    out: Annotated[Path | None, Option(help="The selector's file; FILE.sel by default.")] = None,
) -> None:
    """Import known views, clicks and revenue of each link into a pool or a new selector.

    FILE is a CSV file with the columns link, views, clicks and revenue. Any further column is a
    feature of visitors, with a row for each of its values.

    With --pool the counts are imported into a pool: of a running service at --url, with an admin
    key in SLOTWISE_KEY, or in a --store that no service is using. With --slots a new selector is
    written to a file, which `slotwise.Selector.load` reads.

    Examples:

      slotwise import clicks.csv --pool home --url http://127.0.0.1:8460 --discount 0.2

      slotwise import clicks.csv --pool home --store sqlite:///slotwise.db

      slotwise import clicks.csv --slots 3 --floor 0.3 --max-revenue 50 --discount 0.2
    """
    if (pool is None) == (slots is None):
        raise InvalidInput("give --pool to import into a pool, or --slots to make a selector")
    if pool is not None:
        if (url is None) == (store is None):
            raise InvalidInput("give --url for a running service, or --store for a stopped one")
        n_links, n_views = (
            _into_service(file, pool, discount, url, key)
            if url is not None
            else _into_store(file, pool, discount, str(store))
        )
        typer.echo(f"{n_links:,} links of {pool} start from {n_views:,} views")
        return
    counts = read_known_counts(file)
    values: dict[str, dict[str, None]] = {}
    for row in counts:
        for name, value in row.visitor.items():
            values.setdefault(name, {})[value] = None
    selector = Selector(
        list(dict.fromkeys(row.link for row in counts)),
        cast("int", slots),
        policy=policy,
        click_floor=floor,
        max_revenue=max_revenue,
        features={name: tuple(words) for name, words in values.items()},
    )
    start_from_counts(selector, counts, discount)
    path = file.with_suffix(".sel") if out is None else out
    selector.save(path)
    typer.echo(f"{len(selector.links)} links, {sum(row.views for row in counts):,} views known")
    typer.echo(path)


def _into_service(file: Path, pool: str, discount: float, url: str, key: str) -> tuple[int, int]:
    """Send the counts to a running service in several calls; return how many links and views."""
    from slotwise.client import Client  # an extra

    links: set[str] = set()
    n_views = 0
    with Client(url, key, timeout_s=120.0) as client:
        for part in _parts(read_known_counts(file)):
            known = client.import_counts(pool, part, discount=discount)["known"]
            links |= {row["link_id"] for row in known}
            n_views += sum(row["views"] for row in known)
    return len(links), n_views


def _parts(counts: Sequence[KnownCounts]) -> Iterator[str]:
    """Yield tables small enough for one call; all rows of a link are in one of them."""
    names = list(dict.fromkeys(name for row in counts for name in row.visitor))
    by_link: dict[str, list[KnownCounts]] = {}
    for row in counts:
        by_link.setdefault(row.link, []).append(row)
    head = ["link", "views", "clicks", "revenue", *names]
    table, n_chars = [head], 0
    for rows in by_link.values():
        if n_chars > MAX_CHARS:
            yield _written(table)
            table, n_chars = [head], 0
        for row in rows:
            values = [row.visitor.get(name, "") for name in names]
            table.append([row.link, str(row.views), str(row.clicks), repr(row.revenue), *values])
            n_chars += sum(len(cell.encode()) + 1 for cell in table[-1])
    yield _written(table)


def _written(table: Sequence[Sequence[str]]) -> str:
    written = io.StringIO()
    csv.writer(written).writerows(table)
    return written.getvalue()


def _into_store(file: Path, pool: str, discount: float, store: str) -> tuple[int, int]:
    """Write the counts into a store; return how many links and views."""
    checked_share("discount", discount)
    text = file.read_text(encoding="utf-8-sig") if file.is_file() else ""
    read_known_counts(file)
    with closing(Service(open_existing(store))) as service:
        known = read_known_table(text, service.directory.pool(pool), discount, file.name)
        service.directory.put_known(pool, known, "slotwise import", system_clock_us()).result()
    return len(known), sum(one.views for rows in known.values() for one in rows)
