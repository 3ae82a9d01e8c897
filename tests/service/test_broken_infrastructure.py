"""What an operator meets: a disk of PostgreSQL that is full, a network that is cut in two.

Both need root on Linux: a small file system in memory, and network namespaces. All traffic stays
inside the namespaces.
"""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from slotwise.service.storage.postgresql import PostgresqlStore
from slotwise.service.storage.verify import verify
from tests.service.conftest import until
from tests.service.crash_harness import (
    POOL,
    Acknowledged,
    Event,
    Server,
    _feedback,
    check,
    client_of,
)
from tests.service.private_postgresql import PrivatePostgresql, private_postgresql
from tests.service.replica_crashes import is_learner, wait_for_learner

SLOW_POOL = POOL | {"click_window_s": 600, "revenue_window_s": 600}
LINKS = [{"link_id": f"l{n}", "url": f"https://shop.example/{n}"} for n in range(5)]


def made(*command: str) -> bool:
    """Run a command that needs root; say whether it worked."""
    if os.name != "posix" or os.getuid() != 0 or not shutil.which(command[0]):
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def fill(client: httpx.Client) -> None:
    client.put("/v1/pools/home", json=SLOW_POOL).raise_for_status()
    client.post("/v1/pools/home/links:batch", json={"links": LINKS}).raise_for_status()


# A full disk


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """Return a folder on a file system of its own with little room."""
    folder = Path(tempfile.mkdtemp(prefix="slotwise-disk-"))
    if not made("mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", str(folder)):
        folder.rmdir()
        pytest.skip("a small file system cannot be mounted here: it needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()


def take_all_room(disk: Path) -> Path:
    """Write a file until the disk is full."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 65_536)
    return ballast


@pytest.mark.system
def test_a_full_disk_of_postgresql_is_an_outage_that_passes(small_disk: Path) -> None:
    """Pages go on, feedback is refused with 503, and what was acknowledged is there afterwards."""
    database = PrivatePostgresql(small_disk, max_wal_size="32MB", min_wal_size="32MB")
    server = None
    try:
        address = database.new_database()
        server = Server(address)
        key = server.admin_key()
        acknowledged = Acknowledged()
        headers = {"authorization": f"Bearer {key}"}
        with httpx.Client(base_url=server.url, headers=headers, timeout=600) as client:
            fill(client)
            exchange(client, "before", acknowledged)
            assert acknowledged.events
            ballast = take_all_room(small_disk)
            refused = 0
            for number in range(2_000):
                refused += not exchange(client, f"full-{number}", acknowledged)
                if refused >= 3:
                    break
            assert refused >= 3, "the disk did not fill up"
            assert client.post("/v1/pools/home/decide").status_code == 200
            ballast.unlink()
            # A server that cannot write its log ends itself.
            with suppress(AssertionError, ProcessLookupError):
                database.stop()
            database.start()
            until(lambda: exchange(client, f"after-{len(acknowledged.events)}", acknowledged))
            until(lambda: client.get("/readyz").json()["store_available"])
        check(server.url, key, acknowledged)
        assert server.stop() == 0
        server = None
        store = PostgresqlStore(address)
        assert verify(store).mismatches == ()
        store.close()
    finally:
        if server is not None:
            server.kill()
        database.stop()


def exchange(client: httpx.Client, name: str, acknowledged: Acknowledged) -> bool:
    """Ask for pages and report; say whether all of it was acknowledged."""
    rng = random.Random(name)
    page = client.post("/v1/pools/home/decide")
    assert page.status_code == 200, page.text
    events: list[Event] = _feedback(rng, page.json(), name)
    answer = client.post("/v1/events:batch", json={"events": events})
    if answer.status_code != 200:
        assert answer.status_code == 503, answer.text
        assert int(answer.headers["retry-after"]) >= 1
        return False
    acknowledged.add(events, answer.json()["outcomes"])
    return True


# A network that is cut in two

CLONE_NEWNET = 0x40000000


class Network:
    """A namespace for replicas and one for the database, with a cable for each replica.

    The ends of a cable have the addresses 10.199.N.1, at the replicas, and 10.199.N.2.
    """

    def __init__(self) -> None:
        number = os.getpid()
        self.replicas, self.data = f"sw{number}-replicas", f"sw{number}-data"
        for space in (self.replicas, self.data):
            _run("ip", "netns", "add", space)
            _run("ip", "-n", space, "link", "set", "lo", "up")
        for cable in (1, 2):
            ends = {self.replicas: f"r{cable}", self.data: f"d{cable}"}
            peer = ("peer", "name", f"d{cable}", "netns", self.data)
            _run("ip", "-n", self.replicas, "link", "add", f"r{cable}", "type", "veth", *peer)
            for place, (space, end) in enumerate(ends.items(), start=1):
                address = f"10.199.{cable}.{place}/24"
                _run("ip", "-n", space, "addr", "add", address, "dev", end)
                _run("ip", "-n", space, "link", "set", end, "up")

    def cut(self, cable: int) -> None:
        """Take a cable out: packets vanish, connections stay open."""
        _run("ip", "-n", self.data, "link", "set", f"d{cable}", "down")

    def mend(self, cable: int) -> None:
        _run("ip", "-n", self.data, "link", "set", f"d{cable}", "up")

    def enter(self) -> None:
        """Let this thread open its connections where the replicas are."""
        with Path(f"/run/netns/{self.replicas}").open() as space:
            library = ctypes.CDLL(None, use_errno=True)
            assert library.setns(space.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())

    def close(self) -> None:
        for space in (self.replicas, self.data):
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
def network() -> Iterator[Network]:
    """Make the namespaces, or skip the test."""
    probe = f"sw{os.getpid()}-probe"
    if not (made("ip", "netns", "add", probe) and shutil.which("setpriv")):
        pytest.skip("network namespaces cannot be made here: they need root and iproute2")
    _run("ip", "netns", "del", probe)
    network = Network()
    try:
        yield network
    finally:
        network.close()


@pytest.mark.slow
@pytest.mark.system
def test_a_replica_that_is_cut_off_neither_learns_nor_loses(network: Network) -> None:
    """The learner loses the database, not the visitors; another replica learns from then on."""
    listening = {"listen_addresses": "10.199.1.2,10.199.2.2"}
    before = ("ip", "netns", "exec", network.data)
    inside = ("ip", "netns", "exec", network.replicas)
    servers: list[Server] = []
    with (
        private_postgresql(before, **listening) as database,
        ThreadPoolExecutor(1, initializer=network.enter) as there,
    ):
        name = database.new_database().partition("@/")[2].partition("?")[0]
        try:
            for cable in (1, 2):
                address = f"postgresql://slotwise@10.199.{cable}.2/{name}"
                servers.append(Server(address, before=inside))
            there.submit(_cut_the_learner_off, network, servers).result()
        finally:
            stopped = [server.stop() for server in servers]
        assert stopped == [0, 0]
        store = PostgresqlStore(database.url(name))
        assert verify(store).mismatches == ()
        store.close()


def _cut_the_learner_off(network: Network, servers: list[Server]) -> None:
    key, acknowledged = servers[0].admin_key(), Acknowledged()
    clients = [client_of(server.url, key) for server in servers]
    fill(clients[0])
    wait_for_learner(servers, key)
    until(lambda: clients[1].get("/v1/pools/home/links").is_success)
    until(lambda: exchange(clients[0], "a0", acknowledged))
    until(lambda: exchange(clients[1], "a1", acknowledged))
    lost = next(place for place, server in enumerate(servers) if is_learner(server, key))
    other = 1 - lost
    network.cut(1 + lost)
    # The one that is cut off answers pages and refuses feedback; the other goes on.
    refused = [exchange(clients[lost], f"b{number}", acknowledged) for number in range(2)]
    assert refused == [False, False]
    assert clients[lost].get("/readyz").json()["store_available"] is False
    assert exchange(clients[other], "c", acknowledged)
    wait_for_learner([servers[other]], key)
    network.mend(1 + lost)
    until(lambda: exchange(clients[lost], f"d{time.monotonic()}", acknowledged))
    until(lambda: not (is_learner(servers[lost], key) and is_learner(servers[other], key)))
    check(servers[lost].url, key, acknowledged)
    check(servers[other].url, key, acknowledged)
    for client in clients:
        client.close()
