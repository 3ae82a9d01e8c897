"""`slotwise import`: bring known counts of links into a pool or a new selector."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, cast

import typer
from typer import Argument, Option

from slotwise.errors import InvalidInput
from slotwise.selector import KnownCounts, Selector, read_known_counts, start_from_counts
from slotwise.selector.arguments import checked_share
from slotwise.service.api.context import system_clock_us
from slotwise.service.pool import read_known_table
from slotwise.service.service import Service
from slotwise.service.storage.maintenance import open_existing

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
