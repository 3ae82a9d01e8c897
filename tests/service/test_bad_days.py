"""Bad days of replicas on PostgreSQL, each with real processes and a real server."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from slotwise.cli.main import main
from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from slotwise.service.storage.postgresql import PostgresqlStore
from slotwise.service.storage.verify import verify
from tests.service import replica_crashes
from tests.service.conftest import http, problem_of, until
from tests.service.crash_harness import Server
from tests.service.private_postgresql import GUARDED, PrivatePostgresql, private_postgresql
from tests.service.test_replicas import fill, knows_pool


@pytest.fixture
def mortal() -> Iterator[PrivatePostgresql]:
    """Return a PostgreSQL server that the test may kill."""
    with private_postgresql() as server:
        yield server


def test_nothing_acknowledged_is_lost_by_kill_9_of_replicas_and_database(
    mortal: PrivatePostgresql,
) -> None:
    result = replica_crashes.run_on(mortal, cycles=3, seed=3, tell=lambda _: None)
    assert result["acknowledged"] >= 60


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_by_kill_9_for_long(mortal: PrivatePostgresql) -> None:
    replica_crashes.run_on(mortal, cycles=60, seed=4, tell=lambda _: None)


def test_while_the_database_is_away_pages_and_redirects_go_on(mortal: PrivatePostgresql) -> None:
    address = mortal.new_database()
    with (
        BackgroundServer(Settings(port=0, store=address, fold_every_s=0.05)) as server,
        http(server.url, server.admin_key) as client,
        http(server.url, None) as visitor,
    ):
        fill(client)
        page = client.post("/v1/pools/home/decide").json()
        link = page["links"][0]
        click = {"decision_id": page["decision_id"], "link_id": link["link_id"]}
        until(lambda: client.get(f"/v1/decisions/{page['decision_id']}").status_code == 200)
        mortal.stop(signal.SIGKILL)
        for body in ({}, {"decision_id": "mine"}):
            served = client.post("/v1/pools/home/decide", json=body)
            assert served.status_code == 200
            assert len(served.json()["links"]) == 2
        until(lambda: not client.get("/readyz").json()["store_available"])
        path = httpx.URL(link["click_url"]).raw_path.decode()
        assert visitor.get(path).headers["location"] == link["url"]
        refused = client.post("/v1/events", json={"type": "click", **click})
        assert refused.status_code == 503
        assert problem_of(refused)["type"] == "store-away"
        assert int(refused.headers["retry-after"]) >= 1
        mortal.start()
        until(lambda: client.post("/v1/events", json={"type": "click", **click}).is_success)
        until(lambda: client.get("/v1/decisions/mine").status_code == 200)
    store = PostgresqlStore(address)
    assert verify(store).mismatches == ()
    store.close()


def test_a_learner_that_stands_still_is_replaced_and_wakes_up_as_a_follower(
    postgresql: PrivatePostgresql,
) -> None:
    address = postgresql.new_database()
    first = Server(address)
    key = first.admin_key()
    second = Server(address)
    servers = [first, second]
    try:
        replica_crashes.wait_for_learner(servers, key)
        leader, heir = servers if replica_crashes.is_learner(first, key) else servers[::-1]
        leader.process.send_signal(signal.SIGSTOP)
        replica_crashes.wait_for_learner([heir], key)
        leader.process.send_signal(signal.SIGCONT)
        until(lambda: not replica_crashes.is_learner(leader, key))
        assert replica_crashes.is_learner(heir, key)
    finally:
        for server in servers:
            server.process.send_signal(signal.SIGCONT)
            server.kill()


def _can_mount() -> bool:
    return os.getuid() == 0 and shutil.which("mount") is not None


@pytest.mark.system
def test_a_full_disk_refuses_events_and_loses_none() -> None:
    """On a file system of its own where root may mount one, else by an error of PostgreSQL's."""
    folder = Path(tempfile.mkdtemp(prefix="slotwise-full-"))
    mounted = False
    if _can_mount():
        made = ["mount", "-t", "tmpfs", "-o", "size=120m", "tmpfs", str(folder)]
        mounted = subprocess.run(made, capture_output=True, check=False).returncode == 0
    try:
        database = PrivatePostgresql(folder, max_wal_size="32MB", min_wal_size="32MB")
        try:
            _fill_the_disk(database, mounted)
        finally:
            database.stop()
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)
        shutil.rmtree(folder, ignore_errors=True)


def _fill_the_disk(database: PrivatePostgresql, mounted: bool) -> None:
    address, ballast = database.new_database(), database.folder / "ballast"
    name = address.partition("@/")[2].partition("?")[0]
    with (
        BackgroundServer(Settings(port=0, store=address)) as server,
        http(server.url, server.admin_key) as client,
    ):
        fill(client)
        page = client.post("/v1/pools/home/decide").json()
        one = {"decision_id": page["decision_id"], "link_id": page["links"][0]["link_id"]}
        until(lambda: client.get(f"/v1/decisions/{page['decision_id']}").status_code == 200)
        before = [{"type": "click", **one}]
        client.post("/v1/events:batch", json={"events": before}).raise_for_status()
        if mounted:
            with ballast.open("wb", buffering=0) as file, suppress(OSError):
                while True:
                    file.write(b"\0" * 4096)
        else:
            database.execute(
                name,
                "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                "RAISE 'No space left on device' USING ERRCODE = 'disk_full'; END $$",
            )
            for table in ("clicks", "conversions", "decisions"):
                database.execute(
                    name,
                    f"CREATE TRIGGER full_disk BEFORE INSERT ON {table} "
                    "FOR EACH STATEMENT EXECUTE FUNCTION full_disk()",
                )
        acknowledged = before + _report_until_refused(client, one)
        assert client.post("/v1/pools/home/decide").status_code == 200
        if mounted:
            ballast.unlink()
        else:
            database.execute(name, "DROP FUNCTION full_disk CASCADE")
        until(lambda: client.post("/v1/events", json={"type": "click", **one}).status_code == 200)
        answer = client.post("/v1/events:batch", json={"events": acknowledged})
        assert {item["outcome"] for item in answer.json()["outcomes"]} == {"duplicate"}
    store = PostgresqlStore(address)
    assert verify(store).mismatches == ()
    store.close()


def _report_until_refused(client: httpx.Client, one: dict[str, Any]) -> list[dict[str, Any]]:
    """Send events until the disk is full; return those that were acknowledged."""
    acknowledged: list[dict[str, Any]] = []
    for number in range(100_000):
        events = [
            {
                "type": "conversion",
                "conversion_id": f"{number}-{k}",
                "revenue_micros": 1,
                "currency": "EUR",
                "client_time": "t" * 60,
                **one,
            }
            for k in range(500)
        ]
        answer = client.post("/v1/events:batch", json={"events": events})
        if answer.status_code != 200:
            assert answer.status_code == 503
            assert problem_of(answer)["type"] == "store-away"
            return acknowledged[-400:]
        acknowledged += events
    raise AssertionError("the disk is never full")


def test_a_store_that_cannot_be_used_is_named_in_one_sentence(
    postgresql: PrivatePostgresql, capsys: pytest.CaptureFixture[str]
) -> None:
    address = postgresql.new_database()
    name = address.partition("@/")[2].partition("?")[0]
    role, password = GUARDED
    PostgresqlStore(postgresql.url(name, role, password)).close()
    postgresql.execute(name, "UPDATE alembic_version SET version_num = 'v9999'")
    postgresql.execute(name, "UPDATE store_clock SET oldest_schema = 'v9998'")
    for store, sentence in (
        (
            postgresql.url(name, role, "wrong-one"),
            f'password authentication failed for user "{role}"',
        ),
        (postgresql.url("nowhere"), 'database "nowhere" does not exist'),
        (postgresql.url(name, "nobody-here"), 'role "nobody-here" does not exist'),
        (address, "the store has schema v9999, this version of slotwise knows up to"),
        ("postgresql://shop@127.0.0.1:1/shop", "cannot be reached"),
        ("postgresql://shop@db/shop?wrong=1", "`store` must be an address such as postgresql://"),
    ):
        assert main(["serve", "--check", "--store", store]) != 0
        said = capsys.readouterr().err
        assert sentence in " ".join(said.split())
        assert said.startswith("slotwise: ")
        assert "wrong-one" not in said
        assert "Traceback" not in said


def test_a_replica_of_the_release_before_goes_on_beside_a_new_one(
    postgresql: PrivatePostgresql,
) -> None:
    """The next release has migrated: columns and tables more, the rest as this one knows it."""
    address = postgresql.new_database()
    name = address.partition("@/")[2].partition("?")[0]
    settings = Settings(port=0, store=address, fold_every_s=0.05)
    with BackgroundServer(settings) as old, http(old.url, old.admin_key) as client:
        fill(client)
        postgresql.execute(name, "ALTER TABLE decisions ADD weather TEXT NOT NULL DEFAULT ''")
        postgresql.execute(name, "ALTER TABLE pools ADD mood BIGINT NOT NULL DEFAULT 0")
        postgresql.execute(name, "ALTER TABLE store_clock ADD tide BIGINT NOT NULL DEFAULT 0")
        postgresql.execute(name, "CREATE TABLE tides (tide BIGINT PRIMARY KEY)")
        postgresql.execute(name, "UPDATE alembic_version SET version_num = 'v9999'")
        with BackgroundServer(settings) as restarted:
            until(lambda: knows_pool(restarted))
            with http(restarted.url, old.admin_key) as other:
                for one in (client, other):
                    page = one.post("/v1/pools/home/decide").json()
                    click = {
                        "type": "click",
                        "decision_id": page["decision_id"],
                        "link_id": page["links"][0]["link_id"],
                    }
                    assert one.post("/v1/events", json=click).json()["outcome"] == "accepted"
                    one.patch("/v1/pools/home", json={"click_floor": 0.1}).raise_for_status()
    store = PostgresqlStore(address)
    assert verify(store).mismatches == ()
    store.close()
