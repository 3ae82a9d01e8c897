"""What stands between: a pooler before PostgreSQL, nginx before the replicas, both real."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from slotwise.service.storage.postgresql import PostgresqlStore
from slotwise.service.storage.verify import verify
from tests.service import replica_crashes
from tests.service.conftest import http, until
from tests.service.crash_harness import Server, client_of
from tests.service.nginx import client_through, nginx_before
from tests.service.private_postgresql import PrivatePostgresql, account, private_postgresql
from tests.service.test_replicas import fill, knows_pool, views_at
from tests.system_programs import system_program


@pytest.fixture
def pooler(postgresql: PrivatePostgresql) -> Iterator[str]:
    """Return the folder of the socket of a pgbouncer in transaction mode."""
    program = system_program("pgbouncer", package="pgbouncer")
    folder = Path(tempfile.mkdtemp(prefix="slotwise-pool-"))
    users = folder / "users.txt"
    users.write_text('"slotwise" ""\n')
    settings = folder / "pgbouncer.ini"
    owner = account()
    settings.write_text(
        f"[databases]\n* = host={postgresql.folder}\n"
        f"[pgbouncer]\nlisten_addr =\nunix_socket_dir = {folder}\nlisten_port = 6432\n"
        f"auth_type = trust\nauth_file = {users}\npool_mode = transaction\n"
        f"default_pool_size = 3\nmax_client_conn = 100\nlogfile = {folder}/log\n"
    )
    if owner:
        settings.write_text(f"{settings.read_text()}user = {owner}\n")
        shutil.chown(folder, owner)
    folder.chmod(0o755)
    process = subprocess.Popen([program, "-q", str(settings)], stderr=subprocess.DEVNULL)
    try:
        socket = folder / ".s.PGSQL.6432"
        while not socket.exists():
            assert process.poll() is None, (folder / "log").read_text()
        yield str(folder)
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def test_a_pooler_in_transaction_mode_stands_between(
    postgresql: PrivatePostgresql, pooler: str
) -> None:
    direct = postgresql.new_database()
    name = direct.partition("@/")[2].partition("?")[0]
    pooled = f"postgresql://slotwise@/{name}?host={pooler}&port=6432"
    settings = Settings(port=0, store=pooled, store_direct=direct, fold_every_s=0.05)
    with (
        BackgroundServer(settings) as first,
        BackgroundServer(settings) as second,
        http(first.url, first.admin_key) as one,
        http(second.url, first.admin_key) as other,
    ):
        fill(one, click_window_s=1, revenue_window_s=1)
        until(lambda: knows_pool(second))

        def both_learned() -> bool:
            """Show and click pages at both, until their windows have closed."""
            for client in (one, other):
                page = client.post("/v1/pools/home/decide").json()
                click = {"decision_id": page["decision_id"], "link_id": page["links"][0]["link_id"]}
                other.post("/v1/events", json={"type": "click", **click}).raise_for_status()
            return min(views_at(first), views_at(second)) >= 10

        until(both_learned)
    store = PostgresqlStore(direct)
    assert verify(store).mismatches == ()
    store.close()


def test_two_replicas_behind_nginx_survive_the_loss_of_one(postgresql: PrivatePostgresql) -> None:
    address = postgresql.new_database()
    servers = [Server(address)]
    key = servers[0].admin_key()
    try:
        with client_of(servers[0].url, key) as client:
            fill(client)
        servers.append(Server(address))
        with (
            nginx_before([server.url for server in servers]) as socket,
            client_through(socket, key) as shop,
        ):
            for number in range(40):
                if number == 20:
                    servers[0].kill()
                page = shop.post("/v1/pools/home/decide")
                assert page.status_code == 200
                one = {"decision_id": page.json()["decision_id"]}
                events = [
                    {"type": "click", "link_id": link["link_id"], **one}
                    for link in page.json()["links"]
                ]
                answer = shop.post("/v1/events:batch", json={"events": events})
                assert answer.status_code == 200
                outcomes = {item["outcome"] for item in answer.json()["outcomes"]}
                assert outcomes <= {"accepted", "quarantined"}
                link = page.json()["links"][0]
                followed = shop.get(httpx.URL(link["click_url"]).raw_path.decode())
                assert followed.headers["location"] == link["url"]
            replica_crashes.wait_for_learner(servers[1:], key)
    finally:
        for server in servers:
            server.kill()
    store = PostgresqlStore(address)
    assert verify(store).mismatches == ()
    store.close()


@pytest.mark.system
def test_pages_are_answered_behind_nginx_while_the_database_is_away() -> None:
    with private_postgresql() as database:
        address = database.new_database()
        settings = Settings(port=0, store=address, fold_every_s=0.05)
        with (
            BackgroundServer(settings) as first,
            BackgroundServer(settings) as second,
            http(first.url, first.admin_key) as one,
            nginx_before([first.url, second.url]) as socket,
            client_through(socket, first.admin_key) as shop,
        ):
            fill(one)
            until(lambda: knows_pool(second))
            page = shop.post("/v1/pools/home/decide").json()
            click = {"decision_id": page["decision_id"], "link_id": page["links"][0]["link_id"]}
            database.stop(signal.SIGQUIT)
            for _ in range(4):  # both replicas refuse, and nginx must not call them dead
                answer = shop.post("/v1/events", json={"type": "click", **click})
                assert answer.status_code == 503
                assert shop.post("/v1/pools/home/decide").status_code == 200
            database.start()

            def is_stored() -> bool:
                return shop.post("/v1/events", json={"type": "click", **click}).status_code == 200

            until(is_stored)
