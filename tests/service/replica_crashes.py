"""Kill replicas, the learner and PostgreSQL in turn while two replicas serve.

Senders go on with the replica that is left. What was acknowledged must be there, once, and another
replica must learn within 10 s.
"""

from __future__ import annotations

import itertools
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import httpx

from slotwise.service.storage.postgresql import PostgresqlStore
from slotwise.service.storage.verify import verify
from tests.service.crash_harness import (
    N_SENDERS,
    POOL,
    Acknowledged,
    Server,
    ServerLog,
    _feedback,
    check,
    client_of,
    start,
)
from tests.service.private_postgresql import PrivatePostgresql, private_postgresql

MAX_FAILOVER_S = 10.0
GIVE_UP_S = 600.0


def send_to_any(
    urls: list[str], key: str, seed: str, acknowledged: Acknowledged, over: threading.Event
) -> None:
    """Decide and report at both replicas; what gets no answer, or a 503, is not acknowledged."""
    rng = random.Random(seed)
    clients = [client_of(url, key) for url in urls]
    for number in itertools.count():
        if over.is_set():
            break
        one, other = rng.sample(clients, 2)
        with suppress(httpx.TransportError):
            page = one.post("/v1/pools/home/decide").json()
            events = _feedback(rng, page, f"{seed}-{number}")
            # Some events reach the other replica, perhaps before their page is stored.
            reported_to = one if rng.random() < 0.7 else other
            answer = reported_to.post("/v1/events:batch", json={"events": events})
            if answer.status_code == 200:
                acknowledged.add(events, answer.json()["outcomes"])
            else:
                assert answer.status_code == 503, answer.text
                assert int(answer.headers["retry-after"]) >= 1
    for client in clients:
        client.close()


def is_learner(server: Server, key: str) -> bool:
    """Say whether a replica learns, by its own account."""
    with client_of(server.url, key) as client:
        return "slotwise_learner 1.0" in client.get("/metrics").text


def wait_for_learner(servers: Sequence[Server], key: str) -> float:
    """Wait until one replica learns and return how long that took."""
    started = time.monotonic()
    while True:
        n_before = ServerLog.n_lines
        if any(is_learner(server, key) for server in servers):
            return time.monotonic() - started
        # A replica logs that it learns.
        assert ServerLog.wait_for_more(n_before, GIVE_UP_S), "nobody learns"


def kill(what: str, servers: list[Server], key: str, database: PrivatePostgresql) -> int | None:
    """Kill something; return the number of the replica that is gone."""
    if what == "postgresql":
        database.stop(signal.SIGKILL)
        database.start()
        return None
    place = {"first": 0, "second": 1}.get(what)
    if place is None:
        place = next((n for n, one in enumerate(servers) if is_learner(one, key)), 0)
    servers[place].kill()
    return place


def run(
    cycles: int, seed: int = 0, tell: Callable[[float], None] = lambda _: None
) -> dict[str, float]:
    """Run the cycles and return what they did; an assertion fails if anything is lost."""
    with private_postgresql() as database:
        result = run_on(database, cycles, seed, tell)
    assert result["longest_failover_s"] <= MAX_FAILOVER_S, result
    return result


def run_on(
    database: PrivatePostgresql, cycles: int, seed: int, tell: Callable[[float], None]
) -> dict[str, float]:
    """Run the cycles on a server that may be killed, however long a loaded machine takes."""
    address, rng = database.new_database(), random.Random(seed)
    servers = [Server(address)]
    key = servers[0].admin_key()
    with client_of(servers[0].url, key) as client:
        client.put("/v1/pools/home", json=POOL).raise_for_status()
        links = [{"link_id": f"l{n}", "url": f"https://shop.example/{n}"} for n in range(5)]
        client.post("/v1/pools/home/links:batch", json={"links": links}).raise_for_status()
    servers.append(Server(address))
    wait_for_learner(servers, key)
    n_acknowledged, longest_s = 0, 0.0
    for cycle in range(cycles):
        acknowledged, over = Acknowledged(), threading.Event()
        urls = [server.url for server in servers]
        senders = [
            threading.Thread(
                target=send_to_any,
                args=(urls, key, f"{seed}-{cycle}-{sender}", acknowledged, over),
            )
            for sender in range(N_SENDERS)
        ]
        for sender in senders:
            sender.start()
        acknowledged.wait_for(rng.randrange(20, 400))
        what = rng.choice(("first", "second", "learner", "postgresql"))
        gone = kill(what, servers, key, database)
        left = [server for place, server in enumerate(servers) if place != gone]
        longest_s = max(longest_s, wait_for_learner(left, key))
        acknowledged.wait_for(len(acknowledged.events) + 20)
        over.set()
        for sender in senders:
            sender.join()
        n_acknowledged += len(acknowledged.events)
        if gone is not None:
            servers[gone] = start(cycle, address)
        check(servers[cycle % 2].url, key, acknowledged)
        tell((cycle + 1) / cycles)
    stopped = [server.stop() for server in servers]
    store = PostgresqlStore(address)
    found = verify(store)
    store.close()
    assert found.mismatches == (), found.mismatches[:3]
    assert stopped == [0, 0]
    return {
        "cycles": cycles,
        "acknowledged": n_acknowledged,
        "lost": 0,
        "counted_twice": 0,
        "longest_failover_s": round(longest_s, 2),
    }
