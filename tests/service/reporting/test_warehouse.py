"""`slotwise export`: every row once, whatever happens, and views that agree with the dashboard."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from moto.server import ThreadedMotoServer

from slotwise.cli.main import main
from slotwise.errors import InvalidInput, MissingData, UnsupportedState
from slotwise.service.records import DAY_US, SECOND_US, Event, KeyRecord
from slotwise.service.refusals import ExportFailed
from slotwise.service.reporting.warehouse import CURSOR, NewFile, Target, export_store
from slotwise.service.reporting.warehouse_tables import SLICED
from slotwise.service.service import Service
from slotwise.service.storage.backup import back_up, restore
from slotwise.service.storage.contract import (
    AppendDecision,
    CloseWindows,
    Operation,
    RecordEvent,
    SavePool,
    Store,
)
from slotwise.service.storage.maintenance import open_existing_to_read
from slotwise.service.storage.move_store import move_store
from slotwise.service.storage.postgresql import PostgresqlStore
from slotwise.service.storage.sqlite import SqliteStore
from tests.service.conftest import OpenService, until
from tests.service.private_postgresql import PrivatePostgresql
from tests.service.reporting.warehouse_queries import query
from tests.service.rows import T0, adjustment, click, conversion, decision, link, pool, seconds
from tests.stores.store_rows import change_row, reads

MINUTE, HOUR, DAY = 60, 3600, 86_400
Rows = dict[str, list[dict[str, Any]]]


def exported(folder: Path) -> Rows:
    """Return all rows of an export, as any reader of its folders finds them."""
    return {
        name: [
            row
            for file in sorted((folder / name).rglob("*.parquet"))
            for row in pq.read_table(file, partitioning=None).to_pylist()
        ]
        for name in SLICED
    }


def keys_of(rows: Rows) -> dict[str, Counter[tuple[Any, ...]]]:
    """Return how often each row is there, by what identifies it."""
    names = ("decision_id", "link_id", "conversion_id", "adjustment_id", "invalid")
    return {
        table: Counter(tuple(row.get(name) for name in names) for row in some)
        for table, some in rows.items()
    }


def traffic(seed: int, n_pages: int, every_s: float = 300.0) -> Iterator[list[Operation]]:
    """Return commits of pages and their feedback, now and then out of order or late."""
    rng = random.Random(seed)
    for page in range(n_pages):
        now_us = seconds(page * every_s)
        page_id = f"{seed}-{page}"
        commit: list[Operation] = [
            AppendDecision(decision(page_id, issued_us=now_us, holdout=rng.random() < 0.3))
        ]
        if rng.random() < 0.5:
            received_us = now_us + rng.randrange(2 * HOUR) * SECOND_US
            commit.append(
                RecordEvent(event=click("l1", page_id), received_us=min(received_us, now_us + 1))
            )
            sale = conversion(f"o-{page_id}", decision_id=page_id)
            commit.append(RecordEvent(event=sale, received_us=now_us + 2))
            refund = adjustment(f"r-{page_id}", conversion_id=f"o-{page_id}")
            commit.append(RecordEvent(event=refund, received_us=now_us + 3))
        if rng.random() < 0.1:
            lost = click("l2", f"unknown-{page_id}")
            commit.append(RecordEvent(event=lost, received_us=now_us + 4))
        yield commit


def fill(store: Store, n_pages: int = 100, seed: int = 1, every_s: float = 300.0) -> None:
    store.commit([SavePool(pool=pool(created_us=T0), change=change_row("home"))])
    for commit in traffic(seed, n_pages, every_s):
        store.commit(commit)


def close_windows(store: Store, at_s: float) -> None:
    store.commit([CloseWindows(until_us=seconds(at_s))])


def stored(store: Store) -> dict[str, Counter[tuple[Any, ...]]]:
    """Return what an export of everything has, from the store's own reads."""
    with store.reading() as reader:
        views = reader.views_after("home", 0, None, 0, 10**6).views
        closed_us = reader.progress().closed_until_us
        batches = list(reader.received_between(0, 2**62))
    return {
        "decisions": Counter((v.decision.decision_id, *[None] * 4) for v in views),
        "events": Counter(
            tuple(
                getattr(item.event, name, "" if name == "invalid" else None)
                for name in ("decision_id", "link_id", "conversion_id", "adjustment_id", "invalid")
            )
            for batch in batches
            for item in batch
        ),
        "settled_views": Counter(
            (v.decision.decision_id, *[None] * 4)
            for v in views
            if v.decision.learned and v.decision.revenue_closes_us < closed_us
        ),
    }


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "shop.db")) as store:
        yield store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "warehouse"


def make_home(service: Service) -> None:
    home = pool(policy="uniform", policy_settings={}, revenue_window_s=7200, holdout=0.4)
    service.directory.put_pool(home, "test", T0).result()
    links = [link(f"l{k}", title=f"Link {k}") for k in range(1, 6)]
    service.directory.put_links("home", links, "test", T0).result()
    key = KeyRecord(key_id="aa", key_hash="00", scopes=("page",), pool_id="home")
    service.directory.put_key(key, "test", T0).result()


def serve_day(service: Service, day: int) -> None:
    """Serve forty pages, with clicks, sales and refunds, some of them late."""
    rng = random.Random(day)
    times = [seconds(day * DAY + 60 * number) for number in range(40)]
    key_ids = ["aa" if number % 2 else "" for number in range(40)]
    pages = [
        service.decider.decide("home", now_us, key_id=key_id)
        for now_us, key_id in zip(times, key_ids, strict=True)
    ]
    events: list[tuple[int, Event]] = []
    for number, page in enumerate(pages):
        at_us, shown = page.issued_us + rng.randrange(2500) * SECOND_US, page.shown[0].link_id
        order = f"o{day}-{number}"
        sale = conversion(
            order, rng.randrange(3, 9) * 7_000_000, decision_id=page.decision_id, link_id=shown
        )
        refund = adjustment(f"r{day}-{number}", conversion_id=order)
        if rng.random() < 0.9:
            events.append((at_us, click(shown, page.decision_id)))
        if rng.random() < 0.9:
            events.append((at_us + 1, sale))
        if rng.random() < 0.2:
            events.append((at_us + 2, refund))
    for at_us, event in sorted(events, key=lambda item: item[0]):
        service.committer.submit_events([event], at_us).result()
    service.learner.learn(seconds(day * DAY + DAY - 1))


def check_figures(service: Service, folder: Path) -> None:
    """Compare the views over an export with what the dashboard shows."""
    report = service.reporter.stats("home")
    by_day, lifts, of_links, funnel = query(
        folder,
        "SELECT SUM(policy_views), SUM(holdout_views), SUM(policy_revenue_micros), "
        "SUM(holdout_revenue_micros) FROM lift_by_day",
        "SELECT lift, policy_revenue_per_view_micros, holdout_revenue_per_view_micros "
        "FROM lift_by_day",
        "SELECT link_id, title, views, clicks, revenue_micros FROM link_statistics",
        "SELECT epoch_us(CAST(day AS TIMESTAMP)), page_group, views, clicks, sales, "
        "revenue_micros FROM funnel",
    )
    [(n_policy, n_holdout, policy, holdout)] = by_day
    of_policy, of_holdout = report.groups
    assert (n_policy, n_holdout) == (of_policy.revenue_views, of_holdout.revenue_views)
    assert policy / n_policy == of_policy.revenue_per_view_micros.mean
    assert holdout / n_holdout == of_holdout.revenue_per_view_micros.mean
    assert report.lift is not None
    assert (policy / n_policy) / (holdout / n_holdout) - 1 == pytest.approx(report.lift.mean)
    for lift, mean, other in lifts:
        assert lift == pytest.approx(mean / other - 1)
    assert sorted(of_links) == [
        (one.link_id, one.title, one.revenue_views, one.clicks, one.revenue_micros)
        for one in report.links
    ]
    activity = service.reporter.activity("home", T0 // DAY_US * DAY_US, DAY_US)
    named = {"policy": "chosen", "own": "own", "holdout": "random"}
    assert sorted(funnel) == sorted(
        (span.start_us, named[span.group], span.views, span.clicks, span.sales, span.revenue_micros)
        for span in activity.spans
    )


def test_the_views_give_the_figures_of_the_dashboard(
    open_service: OpenService, tmp_path: Path, folder: Path
) -> None:
    service = open_service()
    export = ["export", "--to", str(folder), "--store", str(tmp_path / "store.db")]
    make_home(service)
    for day in range(8):
        serve_day(service, day)
    assert main(export) == 0
    service.learner.learn(seconds(9 * DAY))
    assert main(export) == 0
    check_figures(service, folder)
    # What was exported counts no more: a link is reset, and views of a key are forgotten.
    reset = service.directory.put_links(
        "home", [link("l1", title="New")], "test", seconds(9 * DAY), reset_statistics=True
    )
    reset.result()
    serve_day(service, 10)
    forgotten = service.directory.forget_views("aa", seconds(6 * DAY), "test", seconds(11 * DAY))
    assert forgotten.result() == 3 * 20
    serve_day(service, 12)
    service.learner.learn(seconds(14 * DAY))
    assert main(export) == 0
    check_figures(service, folder)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.system)])
def open_stores(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[[], SqliteStore | PostgresqlStore]]:
    """Open a store of each engine; several times it is shared where the engine can share."""
    opened: list[SqliteStore | PostgresqlStore] = []
    is_file = request.param == "sqlite"
    address = "" if is_file else request.getfixturevalue("postgresql").new_database()

    def open_it() -> SqliteStore | PostgresqlStore:
        if is_file and opened:
            return opened[0]
        one = SqliteStore(tmp_path / "shop.db") if is_file else PostgresqlStore(address)
        opened.append(one)
        return one

    yield open_it
    for one in opened:
        one.close()


def test_every_row_is_exported_once_however_often_it_runs(
    open_stores: Callable[[], SqliteStore | PostgresqlStore], folder: Path
) -> None:
    """Replicas store decisions out of the order of their times; exports run in between."""
    first, second = open_stores(), open_stores()
    first.commit([SavePool(pool=pool(created_us=T0), change=change_row("home"))])
    rng = random.Random(3)
    # The second replica sends what the first sends a while later.
    ahead, behind = traffic(1, 120, 1000), list(traffic(2, 120, 1000))
    target = Target(str(folder))
    for number, commit in enumerate(ahead):
        first.commit(commit)
        if number >= 5:
            second.commit(behind[number - 5])
        if rng.random() < 0.2:
            close_windows(first, number * 1000 - 250)
        if rng.random() < 0.1:
            export_store(second, target, 60)
    close_windows(first, 10 * DAY)
    export_store(first, target)
    assert keys_of(exported(folder)) == stored(first)
    assert export_store(first, target).n_rows == dict.fromkeys(SLICED, 0)


def test_columns_have_what_was_stored(store: SqliteStore, folder: Path) -> None:
    store.commit([SavePool(pool=pool(created_us=T0), change=change_row("home"))])
    page = decision("d1", visitor={"country": "DE", "device": "Ä"}, key_id="k", holdout=True)
    store.commit([AppendDecision(page), AppendDecision(decision("d2", links=()))])
    store.commit([RecordEvent(event=click(), received_us=seconds(1))])
    store.commit([RecordEvent(event=conversion(), received_us=seconds(2))])
    store.commit([RecordEvent(event=adjustment(), received_us=seconds(3))])
    bot = click("l2", invalid="crawler", client_time="2023-11-14T22:13:20Z")
    store.commit([RecordEvent(event=bot, received_us=seconds(4))])
    close_windows(store, 3 * DAY)
    export_store(store, Target(str(folder)))
    rows = exported(folder)
    [one, empty] = rows["decisions"]
    assert one["links"] == [
        {"link_id": "l1", "position": 1, "probability": 0.5},
        {"link_id": "l2", "position": 2, "probability": 0.5},
    ]
    assert dict(one["visitor"]) == {"country": "DE", "device": "Ä"}
    assert (one["page_group"], one["key_id"], empty["links"]) == ("random", "k", [])
    assert one["issued"].timestamp() == T0 / SECOND_US
    assert str(one["issued_day"]) == "2023-11-14"
    kinds = [(row["type"], row["amount_micros"], row["invalid"]) for row in rows["events"]]
    assert kinds == [
        ("click", None, ""),
        ("click", None, "crawler"),
        ("conversion", 10_000_000, ""),
        ("adjustment", 4_000_000, ""),
    ]
    assert rows["events"][1]["client_time"] == "2023-11-14T22:13:20Z"
    [settled, no_links] = rows["settled_views"]
    assert (settled["clicks"], settled["revenue_micros"]) == (1, 6_000_000)
    assert [(row["clicked"], row["revenue_micros"]) for row in settled["links"]] == [
        (True, 6_000_000),
        (False, 0),
    ]
    assert no_links["links"] == []
    days = {path.parent.name for path in (folder / "settled_views").rglob("*.parquet")}
    assert days == {"day=2023-11-14", "day=2023-11-15"}


class Killed(BaseException):
    """The process ends here."""


def test_a_run_may_be_killed_at_any_step(
    store: SqliteStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, 8, every_s=6 * HOUR)
    close_windows(store, 4 * DAY)
    steps, dies_at = 0, 1

    def step() -> None:
        nonlocal steps
        steps += 1
        if steps == dies_at:
            raise Killed

    def dying(method: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any) -> Any:
            step()
            answer = method(*arguments)
            step()
            return answer

        return wrapped

    # A killed process removes nothing.
    monkeypatch.setattr(NewFile, "drop", lambda self: None)
    for name in ("__init__", "finish"):
        monkeypatch.setattr(NewFile, name, dying(getattr(NewFile, name)))
    expected, was_killed = stored(store), True
    while was_killed:
        steps, was_killed, target = 0, False, Target(f"{folder}-{dies_at}")
        try:
            export_store(store, target, 1440)
        except Killed:
            was_killed = True
        found = keys_of(exported(Path(target.base)))  # every file is whole
        for table, rows in found.items():
            assert rows <= expected[table]
        steps = dies_at
        export_store(store, target)
        assert keys_of(exported(Path(target.base))) == expected
        dies_at += 3  # a file has four steps: each of them is the last one of some run
    assert dies_at > 30


@pytest.mark.parametrize("n_kills", [1, pytest.param(30, marks=pytest.mark.slow)])
def test_a_process_that_was_killed_is_completed_by_the_next(
    tmp_path: Path, folder: Path, n_kills: int
) -> None:
    path, rng = tmp_path / "shop.db", random.Random(n_kills)
    with closing(SqliteStore(path)) as store:
        fill(store, 300 * n_kills, every_s=600)
        close_windows(store, 300 * n_kills * 600 + 2 * DAY)
        expected = stored(store)
    arguments = ["export", "--to", str(folder), "--store", str(path)]
    command = [sys.executable, "-m", "slotwise.cli.main", *arguments]
    for _ in range(n_kills):
        before = len(list(folder.glob("*/*/*.parquet")))
        n_more = 4 + rng.randrange(60) * (n_kills > 1)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        until(
            lambda enough=before + n_more, process=process: (  # type: ignore[misc]
                process.poll() == 0 or len(list(folder.glob("*/*/*.parquet"))) >= enough
            )
        )
        process.kill()
        process.wait()
    assert main(arguments) == 0
    assert keys_of(exported(folder)) == expected


def test_two_exports_at_once_write_every_row_once(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "shop.db"
    with closing(SqliteStore(path)) as store:
        fill(store, 100, every_s=1800)
        close_windows(store, 5 * DAY)
        expected = stored(store)
    failures: list[BaseException] = []

    def run() -> None:
        try:
            with closing(open_existing_to_read(str(path))) as opened:
                export_store(opened, Target(str(folder)), 60)
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert keys_of(exported(folder)) == expected


def test_a_full_disk_is_named_and_leaves_no_part(
    store: SqliteStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store)
    export_store(store, Target(str(folder)))
    close_windows(store, 3 * DAY)
    with monkeypatch.context() as full:

        def write(*arguments: Any, **options: Any) -> None:
            raise OSError(28, "No space left on device")

        full.setattr(pq.ParquetWriter, "write_table", write)
        with pytest.raises(ExportFailed, match=r"cannot be used: .*No space left on device"):
            export_store(store, Target(str(folder)))
    assert list((folder / "_unfinished").iterdir()) == []
    assert exported(folder)["decisions"] == []
    export_store(store, Target(str(folder)))
    assert keys_of(exported(folder)) == stored(store)


def test_purged_rows_stay_in_the_export(
    open_service: OpenService, tmp_path: Path, folder: Path
) -> None:
    service = open_service(retention_days=3)
    make_home(service)
    serve_day(service, 0)
    serve_day(service, 1)
    address = str(tmp_path / "store.db")
    assert main(["export", "--to", str(folder), "--store", address]) == 0
    n_first = len(exported(folder)["decisions"])
    again = [service.decider.decide("home", seconds(9 * DAY + k)) for k in range(5)]
    service.learner.learn(seconds(9.5 * DAY))
    n_left = len(reads(service.store).views_after("home", 0, None, 0, 1_000).views)
    assert n_left < len(again) + 5
    assert main(["export", "--to", str(folder), "--store", address]) == 0
    assert len(exported(folder)["decisions"]) == n_first + len(again)
    assert n_first == 80


def test_a_moved_store_goes_on_in_the_same_folder(
    store: SqliteStore, folder: Path, tmp_path: Path, postgresql: PrivatePostgresql
) -> None:
    fill(store, 100)
    close_windows(store, HOUR)
    export_store(store, Target(str(folder)))
    store.close()
    database = postgresql.new_database()
    move_store(str(tmp_path / "shop.db"), database)
    with closing(PostgresqlStore(database)) as moved:
        close_windows(moved, 3 * DAY)
        export_store(moved, Target(str(folder)))
        assert keys_of(exported(folder)) == stored(moved)


def test_a_restored_store_waits_until_it_has_caught_up(
    store: SqliteStore, folder: Path, tmp_path: Path
) -> None:
    fill(store, 20)
    close_windows(store, 2 * HOUR)
    back_up(tmp_path / "shop.db", tmp_path / "copy.db")
    store.commit([AppendDecision(decision("lost", issued_us=seconds(3 * HOUR)))])
    close_windows(store, DAY)
    export_store(store, Target(str(folder)))
    store.close()
    restore(tmp_path / "copy.db", tmp_path / "shop.db", overwrite=True)
    with closing(SqliteStore(tmp_path / "shop.db")) as restored:
        with pytest.raises(UnsupportedState, match=r"up to 2023-11-15T00:13:20Z.*was set back or"):
            export_store(restored, Target(str(folder)))
        close_windows(restored, DAY)
        restored.commit([AppendDecision(decision("new", issued_us=seconds(DAY + 60)))])
        close_windows(restored, 3 * DAY)
        export_store(restored, Target(str(folder)))
    ids = Counter(row["decision_id"] for row in exported(folder)["decisions"])
    assert ids == Counter([*(f"1-{k}" for k in range(20)), "lost", "new"])


def test_what_is_not_this_export_is_refused(
    store: SqliteStore, folder: Path, tmp_path: Path
) -> None:
    target = Target(str(folder))
    with pytest.raises(MissingData, match="has no pool yet"):
        export_store(store, target)
    fill(store)
    close_windows(store, DAY)
    with pytest.raises(InvalidInput, match="`slice_minutes` must be a number of minutes that"):
        export_store(store, target, 7)
    export_store(store, target, 30)
    with pytest.raises(InvalidInput, match="`slice_minutes` must be 30, as in earlier runs"):
        export_store(store, target, 60)
    cursor = folder / CURSOR
    written = cursor.read_bytes()
    for content, error, message in [
        (b"{", UnsupportedState, "is damaged"),
        (written.replace(b'"format":2', b'"format":3'), UnsupportedState, "has export format 3"),
        (written.replace(b'"home ', b'"shop '), InvalidInput, "it has rows of another"),
        (None, MissingData, "put that file back"),
    ]:
        cursor.unlink() if content is None else cursor.write_bytes(content)
        with pytest.raises(error, match=message):
            export_store(store, target)
    cursor.write_bytes(written)
    export_store(store, target)
    assert msgspec.json.decode(written)["slice_minutes"] == 30


def test_a_pause_of_years_is_skipped(store: SqliteStore, folder: Path) -> None:
    fill(store, 3)
    years = 5 * 365 * DAY
    close_windows(store, years)
    store.commit([AppendDecision(decision("later", issued_us=seconds(years)))])
    close_windows(store, years + 2 * DAY)
    export_store(store, Target(str(folder)), 1)
    assert keys_of(exported(folder)) == stored(store)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("", "`to` must be a folder"),
        ("ftp://shop/x", "got 'ftp://'"),
        ("s3://", "an address with a bucket"),
        ("s3://key:secret@bucket/x?endpoint_override=127.0.0.1:1&nonsense=1", "s3://bucket/x"),
    ],
)
def test_a_wrong_address_is_named_without_its_secret(
    address: str, message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["export", "--to", address, "--store", str(tmp_path / "none.db")]) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert "secret" not in printed


def test_a_folder_that_cannot_be_written_is_named(
    store: SqliteStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(store)
    close_windows(store, DAY)
    (tmp_path / "file").touch()
    address = ["--store", str(tmp_path / "shop.db")]
    assert main(["export", "--to", str(tmp_path / "file"), *address]) == 2
    assert f"{tmp_path / 'file'} cannot be used" in capsys.readouterr().err


def test_the_command_follows_a_store_and_leaves_it_unlocked(
    store: SqliteStore,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fill(store)
    close_windows(store, DAY)
    store.close()
    waits = iter([1, 2])

    class Waiting:
        def wait(self, seconds: float) -> None:
            with closing(SqliteStore(tmp_path / "shop.db")) as service:  # it is free
                close_windows(service, (1 + next(waits)) * DAY)
            if len(shown := capsys.readouterr().out.splitlines()) and "2023-11-16" in shown[-1]:
                raise KeyboardInterrupt

    monkeypatch.setattr("slotwise.cli.store_upkeep.Event", Waiting)
    arguments = ["export", "--to", str(folder), "--store", str(tmp_path / "shop.db")]
    assert main([*arguments, "--follow"]) == 130
    with closing(SqliteStore(tmp_path / "shop.db")) as after:
        rows = keys_of(exported(folder))
        assert rows["decisions"] == stored(after)["decisions"]


def test_following_goes_on_after_a_failure(
    store: SqliteStore,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fill(store)
    close_windows(store, 3 * DAY)
    folder.touch()

    class Waiting:
        def wait(self, seconds: float) -> None:
            if folder.is_dir():
                raise KeyboardInterrupt
            folder.unlink()

    monkeypatch.setattr("slotwise.cli.store_upkeep.Event", Waiting)
    arguments = ["export", "--to", str(folder), "--store", str(tmp_path / "shop.db")]
    assert main([*arguments, "--follow"]) == 130
    assert "cannot be used" in capsys.readouterr().err
    assert keys_of(exported(folder)) == stored(store)


def test_what_a_killed_run_left_goes_after_a_day(
    store: SqliteStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store)
    close_windows(store, DAY)
    left = folder / "_unfinished" / "part"
    left.parent.mkdir(parents=True)
    left.touch()
    export_store(store, Target(str(folder)))
    assert left.exists()
    os.utime(left, (0, 0))
    export_store(store, Target(str(folder)))
    assert not left.exists()


def test_a_bucket_gets_the_same_rows(
    store: SqliteStore, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real S3 server; a file of it appears when its last part is there."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    stops_within_s = "werkzeug.serving.BaseWSGIServer.serve_forever.__defaults__"
    monkeypatch.setattr(stops_within_s, (0.01,))
    fill(store)
    close_windows(store, HOUR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        options = f"scheme=http&endpoint_override={host}:{port}&region=us-east-1"
        with pytest.raises(ExportFailed, match="s3://shop/data cannot be used"):
            export_store(store, Target(f"s3://shop/data?{options}"))
        files, _ = pyarrow.fs.FileSystem.from_uri(f"s3://shop?{options}&allow_bucket_creation=true")
        files.create_dir("shop")
        target = Target(f"s3://shop/data?{options}")
        export_store(store, target)
        close_windows(store, 3 * DAY)
        export_store(store, target)
        assert export_store(store, target).n_rows == dict.fromkeys(SLICED, 0)
        pyarrow.fs.copy_files("shop/data", str(folder), source_filesystem=files)
    finally:
        server.stop()
    assert keys_of(exported(folder)) == stored(store)
    assert "'s3://shop/data/events/*/*.parquet'" in (folder / "views.sql").read_text()
