"""Three replicas behind nginx on PostgreSQL, for minutes, while everything around them fails.

    make soak MINUTES=30
    python -m tests.service.soak --minutes 30

Senders decide and report through nginx, and keep a ledger of their own of everything that was
acknowledged. Meanwhile one fault after the other happens: replicas are killed, stopped and
restarted, PostgreSQL is killed and hangs, and a hostile client floods the service with pipelined
requests, nested bodies, junk words and junk origins. In the end every acknowledged event is sent
again and must be answered `duplicate`, the rows of the store must be those that were sent, each
once, and `slotwise verify` must find every counter equal to the rows.

The first replica is never killed: its memory and file descriptors must not grow after a third of
the time, or after ten minutes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from slotwise.service.storage.postgresql import PostgresqlStore
from slotwise.service.storage.verify import verify
from tests.service.crash_harness import POOL, Acknowledged, Event, _feedback, check, client_of
from tests.service.forked_server import ForkedServer
from tests.service.nginx import client_through, nginx_before
from tests.service.private_postgresql import PrivatePostgresql, private_postgresql
from tests.service.replica_crashes import wait_for_learner

N_REPLICAS = 3
N_SENDERS = 3
PAUSE_S = 0.02
"""Between two pages of a sender: the machine has to run everything else, too."""
STOPPED_S = 3.0
"""How long a stopped process stands still."""
SETTLE_S = 600.0
"""Memory is compared from then on, or from a third of the run on."""
GROWTH = 1.10
"""Memory may exceed what it was when it had settled by so much, plus `GROWTH_KB`."""
GROWTH_KB = 20_000
MORE_FILES = 40
FORCED = 1
"""How a service ends that could not finish within `stop_within_s`."""
POOLS: dict[str, dict[str, Any]] = {
    "home": POOL,
    "visitors": POOL
    | {"policy": {"name": "paced-bayes"}, "features": {"country": "text", "new": "bool"}},
}


@dataclass
class SoakLedger(Acknowledged):
    """What senders sent and what was acknowledged, by their own account."""

    sent: set[tuple[str, str, str]] = field(default_factory=set)
    """Every event: its type and its key."""
    answers: Counter[str] = field(default_factory=Counter)

    def note_sent(self, events: list[Event]) -> None:
        with self.changed:
            self.sent.update(map(key_of, events))

    def note_answer(self, name: str) -> None:
        with self.changed:
            self.answers[name] += 1


def key_of(event: Event) -> tuple[str, str, str]:
    """Return what makes an event the same event."""
    if event["type"] == "click":
        return "click", event["decision_id"], event["link_id"]
    name = "conversion_id" if event["type"] == "conversion" else "adjustment_id"
    return event["type"], event[name], ""


def send_through(
    nginx: Path, key: str, seed: str, ledger: SoakLedger, over: threading.Event
) -> None:
    """Decide and report until it is over; only what is answered 200 counts as acknowledged."""
    rng = random.Random(seed)
    with client_through(nginx, key) as client:
        for number in itertools.count():
            if over.wait(PAUSE_S):
                return
            pool = rng.choice(list(POOLS))
            body: dict[str, Any] = {}
            if POOLS[pool].get("features"):
                body = {"visitor": {"country": rng.choice(["DE", "FR", "IT"]), "new": True}}
            if rng.random() < 0.5:
                body["decision_id"] = f"{seed}-{number}"
            with suppress(httpx.TransportError):
                page = client.post(f"/v1/pools/{pool}/decide", json=body)
                ledger.note_answer(f"decide {page.status_code}")
                if page.status_code != 200:
                    continue
                events = _feedback(rng, page.json(), f"{seed}-{number}")
                if not events:
                    continue  # a replica that has not heard of the links yet
                ledger.note_sent(events)
                answer = client.post("/v1/events:batch", json={"events": events})
                ledger.note_answer(f"events {answer.status_code}")
                if answer.status_code == 200:
                    ledger.add(events, answer.json()["outcomes"])


@dataclass
class Monitor:
    """Memory and file descriptors of one process, over time."""

    pid: int
    started_s: float = field(default_factory=time.monotonic)
    rows: list[tuple[float, int, int]] = field(default_factory=list)
    """Seconds since the start, resident memory in kB, open file descriptors."""

    def look(self) -> None:
        status = Path(f"/proc/{self.pid}/status").read_text()
        resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        n_files = len(list(Path(f"/proc/{self.pid}/fd").iterdir()))
        self.rows.append((time.monotonic() - self.started_s, int(resident.split()[1]), n_files))

    def watch(self, over: threading.Event) -> None:
        while not over.wait(1.0):
            self.look()

    def summary(self) -> dict[str, float]:
        """Return the figures; the part after settling is compared with its own beginning."""
        lasted_s = self.rows[-1][0]
        settled_s = min(SETTLE_S, lasted_s / 3)
        after = [row for row in self.rows if row[0] >= settled_s]
        part = max(1, len(after) // 5)
        first, last = after[:part], after[-part:]
        return {
            "settled_after_s": round(settled_s),
            "start_mb": round(self.rows[0][1] / 1e3, 1),
            "settled_mb": round(_median(row[1] for row in first) / 1e3, 1),
            "end_mb": round(_median(row[1] for row in last) / 1e3, 1),
            "max_mb": round(max(row[1] for row in self.rows) / 1e3, 1),
            "settled_files": _median(row[2] for row in first),
            "end_files": _median(row[2] for row in last),
            "max_files": max(row[2] for row in self.rows),
        }


def _median(values: Iterator[int] | Any) -> float:
    in_order = sorted(values)
    return float(in_order[len(in_order) // 2])


def processes_of(pid: int) -> list[int]:
    """Return a process and those that it started."""
    found = [pid]
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # the name of a program may have spaces: what counts comes after its bracket
            if int(status.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(status.parent.name))
    return found


class World:
    """The replicas, the database and everything that may happen to them."""

    def __init__(self, database: PrivatePostgresql, rng: random.Random) -> None:
        self.database, self.rng = database, rng
        self.address = database.new_database()
        self.ports = [_free_port() for _ in range(N_REPLICAS)]
        self.servers = [self._start(self.ports[0])]
        self.key = self.servers[0].admin_key()
        self.servers += [self._start(port) for port in self.ports[1:]]
        self.n_faults: Counter[str] = Counter()
        self.n_forced_stops = 0
        self.faults: dict[str, Callable[[], None]] = {
            "replica killed": self.kill_replica,
            "replica stopped": self.stop_replica,
            "replica restarted": self.restart_replica,
            "database killed": self.kill_database,
            "database hanging": self.hang_database,
            "pipelined requests": self.pipeline,
            "nested bodies": self.nest,
            "junk words and origins": self.send_junk,
        }

    def _start(self, port: int) -> ForkedServer:
        return ForkedServer(self.address, "--port", str(port))

    def fill(self) -> None:
        """Make the pools."""
        with client_of(self.servers[0].url, self.key) as client:
            for pool, body in POOLS.items():
                client.put(f"/v1/pools/{pool}", json=body).raise_for_status()
                links = [{"link_id": f"l{n}", "url": f"https://shop.example/{n}"} for n in range(5)]
                path = f"/v1/pools/{pool}/links:batch"
                client.post(path, json={"links": links}).raise_for_status()

    def happen(self, fault: str) -> None:
        """Let one fault happen, to its end."""
        self.faults[fault]()
        self.n_faults[fault] += 1

    def _victim(self) -> int:
        return self.rng.randrange(1, N_REPLICAS)  # the first one is monitored

    def kill_replica(self) -> None:
        place = self._victim()
        self.servers[place].kill()
        self.servers[place] = self._start(self.ports[place])

    def restart_replica(self) -> None:
        place = self._victim()
        code = self.servers[place].stop()
        # What is stuck, say in a database that was just killed, is ended when its time is over.
        assert code in (0, FORCED), code
        self.n_forced_stops += code == FORCED
        self.servers[place] = self._start(self.ports[place])

    def stop_replica(self) -> None:
        self._stand_still([self.servers[self.rng.randrange(N_REPLICAS)].pid])

    def kill_database(self) -> None:
        self.database.stop(signal.SIGKILL)
        self.database.start()

    def hang_database(self) -> None:
        self._stand_still(processes_of(self.database.pid))

    @staticmethod
    def _stand_still(pids: list[int]) -> None:
        """Stop processes for a while: they neither answer nor end."""
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        threading.Event().wait(STOPPED_S)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def pipeline(self) -> None:
        """Send thousands of requests on each of many connections and read nothing."""
        lines = []
        for _ in range(20):
            line = socket.create_connection(("127.0.0.1", self.ports[0]))
            line.setblocking(False)
            lines.append(line)
        for line in lines:
            with suppress(BlockingIOError, ConnectionError):
                for _ in range(20):
                    line.send(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" * 700)
        threading.Event().wait(1.0)
        for line in lines:
            line.close()

    def nest(self) -> None:
        """Send bodies of brackets, without a key and from a wrong origin."""
        body = b"[" * 500_000
        with httpx.Client(base_url=self.servers[0].url, timeout=600) as client:
            for path in ("/dashboard/session", "/v1/pools/home/page", "/v1/events"):
                for _ in range(5):
                    headers = {
                        "content-type": "application/json",
                        "origin": "https://other.example",
                    }
                    with suppress(httpx.TransportError):
                        client.post(path, content=body, headers=headers)

    def send_junk(self) -> None:
        """Send words that nobody has, and origins that no pool allows."""
        with client_of(self.servers[0].url, self.key) as client, suppress(httpx.TransportError):
            for number in range(300):
                word = {"country": f"junk {self.rng.randrange(100)}"}
                client.post("/v1/pools/visitors/decide", json={"visitor": word})
                origin = {"origin": f"https://junk{self.rng.random()}.example"}
                client.options("/v1/pools/home/page", headers=origin)
                if number % 10 == 0:
                    client.get(f"/r/{self.rng.random()}")

    def close(self) -> None:
        for server in self.servers:
            with suppress(ProcessLookupError, ValueError):
                server.kill()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def run(
    minutes: float | None, seed: int = 0, tell: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Let faults happen for some minutes, or each of them once; return what was found.

    An assertion fails if anything is lost or counted twice, or if memory grows.
    """
    rng = random.Random(seed)
    # Switching to machine code in the middle takes some 80 MB, which would look like growth.
    os.environ.setdefault("SLOTWISE_COMPILE", "first")
    with private_postgresql() as database:
        world = World(database, rng)
        try:
            return _soak(world, minutes, seed, tell)
        finally:
            world.close()


def _soak(
    world: World, minutes: float | None, seed: int, tell: Callable[[str], None]
) -> dict[str, Any]:
    world.fill()
    wait_for_learner(world.servers, world.key)
    ledger, over, monitor = SoakLedger(), threading.Event(), Monitor(world.servers[0].pid)
    with nginx_before([server.url for server in world.servers], read_timeout_s=5) as nginx:
        threads = [
            threading.Thread(
                target=send_through, args=(nginx, world.key, f"{seed}-{sender}", ledger, over)
            )
            for sender in range(N_SENDERS)
        ]
        threads.append(threading.Thread(target=monitor.watch, args=(over,)))
        for thread in threads:
            thread.start()
        try:
            ends_s = monitor.started_s + 60 * (minutes or 0.0)
            for fault in _faults(world, ends_s):
                n_before = len(ledger.events)
                monitor.look()
                seconds, resident_kb, n_files = monitor.rows[-1]
                tell(f"{seconds:6.0f} s  {resident_kb / 1e3:6.1f} MB  {n_files:4} files  {fault}")
                world.happen(fault)
                ledger.wait_for(n_before + 50)
            wait_for_learner(world.servers, world.key)
        finally:
            over.set()
            for thread in threads:
                thread.join()
    monitor.look()
    tell("check everything that was acknowledged")
    # While the database is away two replicas may answer one id with two pages. Afterwards the
    # stored page wins, and feedback for the other one is refused.
    taken = [(event, outcome) for event, outcome in ledger.events if outcome != "rejected"]
    check(world.servers[-1].url, world.key, Acknowledged(taken))
    assert [server.stop() for server in world.servers] == [0] * N_REPLICAS
    stored = _stored(world)
    store = PostgresqlStore(world.address)
    found = verify(store)
    store.close()
    assert found.mismatches == (), found.mismatches[:3]
    acknowledged = {key_of(event) for event, _ in taken}
    accepted = Counter(key_of(event) for event, outcome in ledger.events if outcome == "accepted")
    lost, strange = acknowledged - stored.keys(), stored.keys() - ledger.sent
    twice = [key for key, n in stored.items() if n > 1]
    twice += [key for key, n in accepted.items() if n > 1]
    memory = monitor.summary()
    result = {
        "minutes": round((time.monotonic() - monitor.started_s) / 60, 1),
        "faults": dict(world.n_faults),
        "forced_stops": world.n_forced_stops,
        "answers": dict(sorted(ledger.answers.items())),
        "acknowledged": len(taken),
        "refused": len(ledger.events) - len(taken),
        "stored": len(stored),
        "lost": len(lost),
        "counted_twice": len(twice),
        "never_sent": len(strange),
        **memory,
    }
    assert not lost, (result, list(lost)[:3])
    assert not twice, (result, twice[:3])
    assert not strange, (result, list(strange)[:3])
    if minutes is not None:
        most_mb = GROWTH * memory["settled_mb"] + GROWTH_KB / 1e3
        assert memory["end_mb"] <= most_mb, result
        assert memory["end_files"] <= memory["settled_files"] + MORE_FILES, result
    return result


def _faults(world: World, ends_s: float) -> Iterator[str]:
    """Yield each fault once, in one order, then in any order until the time is over."""
    yield from world.faults
    while time.monotonic() < ends_s:
        yield world.rng.choice(list(world.faults))


def _stored(world: World) -> Counter[tuple[str, str, str]]:
    """Return how often each event is stored, read from the tables themselves."""
    name = world.address.partition("@/")[2].partition("?")[0]
    found: Counter[tuple[str, str, str]] = Counter()
    queries = {
        "click": "SELECT decision_id, link_id FROM clicks WHERE invalid = ''",
        "conversion": "SELECT conversion_id, '' FROM conversions",
        "adjustment": "SELECT adjustment_id, '' FROM adjustments",
    }
    for kind, sql in queries.items():
        found.update((kind, *row) for row in world.database.execute(name, sql))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    result = run(arguments.minutes, arguments.seed, lambda line: print(line, flush=True))
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
