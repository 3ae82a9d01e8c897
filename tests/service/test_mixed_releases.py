"""A rolling upgrade: replicas of an earlier release and of this one on one store."""

from __future__ import annotations

import subprocess
import tarfile
import threading
from io import BytesIO
from pathlib import Path

import pytest

from slotwise.service.storage.postgresql import PostgresqlStore
from slotwise.service.storage.verify import verify
from tests.service.crash_harness import POOL, Acknowledged, Server, check, client_of
from tests.service.private_postgresql import PrivatePostgresql
from tests.service.replica_crashes import send_to_any, wait_for_learner

EARLIER = ["cc3cc17", "6c29f1ca", "88974165"]
"""Commits whose stores have the schemas v0013, v0014 and v0015."""
N_EVENTS = 300


@pytest.fixture(scope="module", params=EARLIER)
def earlier(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the sources of an earlier release."""
    root = Path(__file__).parents[2]
    packed = subprocess.run(
        ["git", "-C", str(root), "archive", request.param, "src"], capture_output=True, check=False
    )
    if packed.returncode:
        pytest.skip(f"the history of the repository has no commit {request.param}")
    folder = tmp_path_factory.mktemp("earlier")
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def exchange(servers: list[Server], key: str, seed: str) -> Acknowledged:
    """Send pages and feedback to two replicas; return what was acknowledged."""
    acknowledged, over = Acknowledged(), threading.Event()
    urls = [server.url for server in servers]
    sender = threading.Thread(target=send_to_any, args=(urls, key, seed, acknowledged, over))
    sender.start()
    acknowledged.wait_for(N_EVENTS)
    over.set()
    sender.join()
    return acknowledged


@pytest.mark.slow
def test_a_rolling_upgrade_loses_nothing(postgresql: PrivatePostgresql, earlier: Path) -> None:
    address = postgresql.new_database()
    servers = [Server(address, source=earlier)]
    key = servers[0].admin_key()
    everything = []
    try:
        with client_of(servers[0].url, key) as client:
            client.put("/v1/pools/home", json=POOL).raise_for_status()
            links = [{"link_id": f"l{n}", "url": f"https://shop.example/{n}"} for n in range(5)]
            client.post("/v1/pools/home/links:batch", json={"links": links}).raise_for_status()
        servers.append(Server(address, source=earlier))
        everything.append(exchange(servers, key, "before"))
        servers[1].stop()
        servers[1] = Server(address)  # it migrates the store; the other one goes on
        everything.append(exchange(servers, key, "mixed"))
        wait_for_learner(servers, key)
        servers[0].stop()
        servers[0] = Server(address)
        wait_for_learner(servers, key)
        everything.append(exchange(servers, key, "after"))
        for acknowledged in everything:
            check(servers[0].url, key, acknowledged)
    finally:
        stopped = [server.stop() for server in servers]
    assert stopped == [0, 0]
    store = PostgresqlStore(address)
    found = verify(store)
    store.close()
    assert found.mismatches == (), found.mismatches[:3]
