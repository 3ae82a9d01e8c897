"""`slotwise backup`, `export`, `verify` and the other commands that work on a store."""

from __future__ import annotations

import sys
from contextlib import closing
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import Annotated

import msgspec
import typer
from typer import Argument, Option

from slotwise.cli.progress import progress_bar
from slotwise.errors import InvalidInput, UnsupportedState
from slotwise.service.api.bodies import Time, from_time
from slotwise.service.api.context import system_clock_us
from slotwise.service.records import DAY_US, ChangeRecord, to_time
from slotwise.service.refusals import ExportFailed, StoreUnavailable
from slotwise.service.reporting.warehouse import SLICE_MINUTES, Exported, Target, export_store
from slotwise.service.settings import Settings
from slotwise.service.storage import public_address
from slotwise.service.storage.backup import back_up, restore
from slotwise.service.storage.contract import ForgetViews
from slotwise.service.storage.maintenance import (
    existing_store,
    only_sqlite,
    open_existing,
    open_existing_to_read,
    purge,
    set_times_back,
)
from slotwise.service.storage.move_store import move_store
from slotwise.service.storage.verify import verify

_NOT_NEEDED = (
    "replicas on PostgreSQL use the clock of the database: correct that clock, then wait until the "
    "latest time in the store has passed"
)
StoreUrl = Annotated[str, Option(help="Store URL", envvar="SLOTWISE_STORE")]
DEFAULT_STORE = Settings().store
_POSTGRESQL = (
    "copy a database with PostgreSQL's own tools: `pg_dump --format=custom --file=shop.dump URL` "
    "for a copy of one moment, or pg_basebackup with an archive of the WAL to go back to any moment"
)
_POSTGRESQL_RESTORE = (
    "stop all replicas and use PostgreSQL's own tools: `createdb shop`, then "
    "`pg_restore --dbname=URL shop.dump`, then `slotwise verify --store URL`"
)
_LOOK_AGAIN_S = 60.0


def move_store_command(
    source: Annotated[str, Argument(help="Store URL to read")],
    target: Annotated[str, Argument(help="Store URL to fill: empty, or from an interrupted move")],
) -> None:
    """Copy a store to an empty one, also between SQLite and PostgreSQL, and verify.

    Stop all services on both stores first. If the command is interrupted, run it again: it
    continues where it stopped. Every row is compared at the end; until then no service can open the
    new store. The old store is not changed.

    Examples:

      slotwise move-store sqlite:///slotwise.db postgresql://shop@db.example/shop

      slotwise move-store postgresql://shop@db.example/shop sqlite:///back.db
    """
    with progress_bar("move and compare") as tell:
        moved = move_store(source, target, tell)
    found = moved.verification
    print(
        f"{moved.n_rows} rows moved to {public_address(target)} and compared; {found.n_counters} "
        f"counters of {found.n_pools} pools and {found.n_decisions} decisions equal their rows"
    )


def forget_command(
    key: Annotated[str, Option(help="Id of the key, from `slotwise keys list`")],
    since: Annotated[str, Option(help="Forget page views from this time on, RFC 3339")],
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Exclude the page views that a key requested since a given time from all counts.

    For a key of a page that was misused. Revoke the key first. The rows stay in the store; the
    views are subtracted from all counters, and policies that learn view by view learn again from
    the other views. While a service runs on a store in a file, use
    `POST /v1/keys/{key_id}/forget` instead.

    Examples:

      slotwise forget --key 5f0c9a7d3b21e884 --since 2026-01-05T10:00:00Z
    """
    try:
        moment: datetime = msgspec.convert(since, Time)
    except msgspec.ValidationError:
        rule = "a time with its zone, such as 2026-01-05T10:00:00Z"
        raise InvalidInput.of("since", rule, since) from None
    with closing(open_existing(store)) as opened:
        with opened.reading() as reader:
            known = {one.key_id for one in reader.keys()}  # noqa: SIM118 - a reader is no dict
        if key not in known:
            raise InvalidInput.of("key", "the id of a key of this store", key)
        after = msgspec.json.encode({"since_us": from_time(moment)}).decode()
        made = (system_clock_us(), "slotwise forget", "key.forget", key)
        change = ChangeRecord(*made, after=after)
        operation = ForgetViews(key_id=key, since_us=from_time(moment), change=change)
        [n_views] = opened.commit([operation])
    print(f"Excluded {n_views} page views from all counts.")


def set_back_command(
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Correct the times of a store that was written while the clock was ahead.

    If the latest time in a store is in the future, all feedback until then counts as late (metric
    slotwise_store_ahead_seconds). This command sets all times back by the difference, so that
    everything that was counted stays counted. Make a backup first and stop the service.

    Examples:

      slotwise set-back --store sqlite:////var/lib/slotwise/slotwise.db
    """
    by_us = set_times_back(
        existing_store(only_sqlite(store, "set-back", _NOT_NEEDED)), system_clock_us()
    )
    if by_us:
        print(f"all times were set back by {by_us / 1e6:,.0f} s")
    else:
        print("no time of the store is in the future")


def verify_command(
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Recompute every counter of a store from its raw rows and compare.

    The database also checks its own files. The service may be running. The exit status is 1 if a
    counter differs or the database is damaged.

    Examples:

      slotwise verify

      slotwise verify --store sqlite:////var/lib/slotwise/slotwise.db

      slotwise verify --store postgresql://shop@db.example/shop
    """
    with closing(open_existing_to_read(store)) as opened:
        report = verify(opened)
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


def backup_command(
    target: Annotated[Path, Argument(help="The new file")],
    store: StoreUrl = DEFAULT_STORE,
    check: Annotated[bool, Option("--verify", help="Verify the copy")] = False,
) -> None:
    """Copy a store to a new file that only its owner can read; the service may be running.

    A store in PostgreSQL is copied with pg_dump or pg_basebackup.
    With --verify the copy's counters are compared with its rows, as `slotwise restore` does.

    Examples:

      slotwise backup monday.db

      slotwise backup monday.db --store sqlite:////var/lib/slotwise/slotwise.db --verify
    """
    back_up(only_sqlite(store, "backup", _POSTGRESQL), target)
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB copied")
    if check:
        verify_command(str(target))


def restore_command(
    backup: Annotated[Path, Argument(help="A file that `slotwise backup` made")],
    store: StoreUrl = DEFAULT_STORE,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace an existing store")] = False,
) -> None:
    """Verify a backup and copy it to the place of the store; stop the service first.

    A store in PostgreSQL is restored with pg_restore.
    With --overwrite an existing store is replaced, and renamed with the suffix `.replaced`.

    Examples:

      slotwise restore monday.db

      slotwise restore monday.db --overwrite
    """
    report = restore(backup, only_sqlite(store, "restore", _POSTGRESQL_RESTORE), overwrite)
    print(f"{store}: {report.n_pools} pools, {report.n_decisions} decisions, verified")


def purge_command(
    older_than: Annotated[
        int, Option(help="Delete rows whose windows closed this many days ago", min=1)
    ],
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Delete raw rows whose windows closed long ago; no counter changes.

    Decisions are deleted with their clicks, conversions and refunds once they are counted. A
    running service does this by itself with the setting `retention_days`. Stop the service first if
    the store is a file; on PostgreSQL it may run. The file keeps its size; the space is reused.

    Examples:

      slotwise purge --older-than 90

      slotwise purge --older-than 30 --store sqlite:////var/lib/slotwise/slotwise.db
    """
    with closing(open_existing(store)) as opened:
        with opened.reading() as reader:
            before_us = reader.progress().closed_until_us - older_than * DAY_US
        n_purged = purge(
            opened.reading, lambda one: opened.commit([one])[0], before_us, max_steps=sys.maxsize
        )
    print(f"{n_purged} views and waiting events deleted; no counter changed")


def export_command(
    to: Annotated[str, Option(help="Folder, or s3:// or gs:// address, of the export")],
    store: StoreUrl = DEFAULT_STORE,
    follow: Annotated[
        bool, Option("--follow", help="Continue until the command is stopped")
    ] = False,
    slice_minutes: Annotated[
        int | None, Option(help=f"Minutes that one file covers; {SLICE_MINUTES} for a new export")
    ] = None,
) -> None:
    """Export decisions, events and settled page views as Parquet files, a folder a day.

    The service may be running. Only what is new is written; a run that was killed is completed by
    the next one, and no row is exported twice. A file covers an hour and is written when that hour
    is over. `views.sql` in the folder has views for DuckDB.

    Examples:

      slotwise export --to warehouse

      slotwise export --to s3://shop-data/slotwise --store postgresql://shop@db.example/shop
    """
    target, is_first = Target(to), True
    while is_first or follow:
        try:
            with closing(open_existing_to_read(store)) as opened, progress_bar("export") as tell:
                exported = export_store(opened, target, slice_minutes, tell)
            if is_first or any(exported.n_rows.values()):
                _print_exported(target, exported)
        except (ExportFailed, StoreUnavailable, UnsupportedState) as error:
            if not follow:
                raise
            print(f"slotwise: {error}; trying again", file=sys.stderr, flush=True)
        if follow:
            Event().wait(_LOOK_AGAIN_S)
        is_first = False


def _print_exported(target: Target, exported: Exported) -> None:
    n_rows = ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in exported.n_rows.items())
    until, following = (f"{to_time(us):%Y-%m-%d %H:%M}" for us in exported[1:])
    print(f"{target.shown}: {n_rows} exported, up to {until} UTC; next at {following}", flush=True)
