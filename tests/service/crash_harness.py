"""Kill -9 over HTTP, again and again: what was acknowledged must be there, once.

    python -m tests.service.crash_harness --cycles 1000
    python -m tests.service.crash_harness --cycles 1000 --store postgresql

Each cycle starts `slotwise serve`, sends decisions and feedback from several threads, and
kills the server in the middle of it, or lets it die exactly before, between or after a fold and
its version (`tests.service.forked_server`). After the next start everything acknowledged is sent
again and must be answered `duplicate`, decisions must show each acknowledged event once, and
in the end `slotwise verify` must find every counter equal to the raw rows. On PostgreSQL two
replicas run, and one of them, the one that learns or the database is killed
(`tests.service.replica_crashes`).

One start in ten runs the command from its first import. The others are forked from a process
that has imported it (`tests.service.forked_server`): everything that touches the store is the same,
and 1,000 cycles take minutes of imports less.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import httpx

from slotwise.cli import main as cli
from slotwise.cli.progress import progress_bar

POOL = {
    "slots": 2,
    "click_floor": 0.1,
    "max_revenue": {"amount_micros": 50_000_000, "currency": "EUR"},
    "click_window_s": 1,
    "revenue_window_s": 1,
    "policy": {"name": "uniform"},
    "allowed_hosts": ["shop.example"],
}
N_SENDERS = 3
WHOLE_STARTS = 10
"""One start in so many runs the command from its first import."""
STORE_AWAY = 503
Event = dict[str, Any]


@dataclass
class Acknowledged:
    """What the service said it has, by the senders' own account."""

    events: list[tuple[Event, str]] = field(default_factory=list)
    """Events with the outcome that was answered."""
    n_unanswered: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def add(self, events: list[Event], outcomes: list[Event]) -> None:
        with self.changed:
            for event, outcome in zip(events, outcomes, strict=True):
                self.events.append((event, outcome["outcome"]))
            self.changed.notify_all()

    def note_unanswered(self) -> None:
        with self.changed:
            self.n_unanswered += 1
            self.changed.notify_all()

    def wait_for(self, n_events: int) -> None:
        """Wait for so many events, or until no sender gets an answer any more."""
        with self.changed:
            self.changed.wait_for(
                lambda: len(self.events) >= n_events or self.n_unanswered == N_SENDERS
            )


def serve_arguments(store: Path | str, flags: tuple[str, ...]) -> list[str]:
    """Return the arguments of `slotwise`."""
    often = ["--set", "log_level=info", "--set", "fold_every_s=0.05"]
    return ["serve", "--port", "0", "--store", str(store), *often, *flags]


LOGGED = threading.Condition()
"""Notified of every line that a server logs."""


class ServerLog:
    """What a server logs: kept by event, and shown where something is wrong."""

    n_lines = 0
    """Lines of all servers together."""

    def __init__(self, lines: IO[str]) -> None:
        self.events: set[str] = set()
        self.is_over = False
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()

    @staticmethod
    def wait_for_more(than: int, within_s: float) -> bool:
        """Wait until there are more lines `than` so many; say whether there are."""
        with LOGGED:
            return LOGGED.wait_for(lambda: ServerLog.n_lines > than, within_s)

    def _read(self, lines: IO[str]) -> None:
        with lines:
            for line in lines:
                said = json.loads(line) if line.startswith("{") else {}
                if said.get("level") not in ("info", "warning"):
                    sys.stderr.write(line)
                with LOGGED:
                    self.events.add(said.get("event", line))
                    ServerLog.n_lines += 1
                    LOGGED.notify_all()
        with LOGGED:
            self.is_over = True
            LOGGED.notify_all()


class Server:
    """`slotwise serve` as a process of its own."""

    has_fault = False

    @property
    def pid(self) -> int:
        """The process that serves."""
        return self.process.pid

    def wait_for_end(self) -> None:
        """Wait until the process has ended by itself."""
        self.process.wait()

    def __init__(
        self,
        store: Path | str,
        *flags: str,
        before: tuple[str, ...] = (),
        source: Path | None = None,
    ) -> None:
        """Start it: `before` is a command that runs it, `source` another release's `src`."""
        serve = ["-m", "slotwise.cli.main", *serve_arguments(store, flags)]
        command = [*before, sys.executable, *serve]
        environment = None
        if source is not None:
            own = {name: os.environ[name] for name in os.environ if "SLOTWISE" not in name}
            environment = own | {"PYTHONPATH": str(source)}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdout=pipe, stderr=pipe, text=True, env=environment
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._lines: IO[str] = self.process.stdout
        self.log = ServerLog(self.process.stderr)
        self._find_url()

    def _find_url(self) -> None:
        """Read where it listens; the line comes when it does, in the words of its release."""
        line = self._lines.readline()
        found = re.search(r"(?:dashboard +| at )(http://\S+?)/?$", line.rstrip())
        assert found, f"the server did not start: {line!r}"
        self.url = found.group(1)

    def admin_key(self) -> str:
        """Read the key that a first start prints."""
        for line in self._lines:
            if found := re.search(r"(sw_ak_\S+)", line):
                return found.group(1)
        raise AssertionError("the first start printed no key")

    def wait_until_ready(self) -> None:
        """Wait until the policies are compiled: long on a new machine."""
        with LOGGED:
            LOGGED.wait_for(lambda: "ready" in self.log.events or self.log.is_over)
        assert "ready" in self.log.events, "the server ended"

    def kill(self) -> None:
        self.end(signal.SIGKILL)

    def stop(self) -> int:
        return self.end(signal.SIGTERM)

    def end(self, by: signal.Signals) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(by)
        code = self.process.wait()
        self._lines.close()
        return code


def start(number: int, store: Path | str, armed: Path | None = None) -> Server:
    """Start the server after cycle `number`; two in three die of a fault once `armed` is there."""
    from tests.service.forked_server import FAULTS, ForkedServer

    if number % WHOLE_STARTS == 0:
        return Server(store)
    fault = None if armed is None or number % 3 == 0 else (FAULTS[number % len(FAULTS)], armed)
    return ForkedServer(store, fault=fault)


def client_of(url: str, key: str) -> httpx.Client:
    """Return a client that is patient with a slow machine; the server has no TLS."""
    headers = {"authorization": f"Bearer {key}"}
    return httpx.Client(base_url=url, headers=headers, timeout=600, verify=False)


def send(url: str, key: str, seed: str, acknowledged: Acknowledged) -> None:
    """Decide and report until the server is gone."""
    rng = random.Random(seed)
    with client_of(url, key) as client:
        try:
            for number in range(1_000_000):
                page = client.post("/v1/pools/home/decide").json()
                events = _feedback(rng, page, f"{seed}-{number}")
                if rng.random() < 0.5:
                    acknowledged.add(events, report(client, events))
                else:
                    for event in events:
                        outcome = client.post("/v1/events", json=event)
                        if outcome.status_code != STORE_AWAY:
                            acknowledged.add([event], [outcome.json()])
        except (httpx.TransportError, json.JSONDecodeError):
            acknowledged.note_unanswered()


def report(client: httpx.Client, events: list[Event]) -> list[Event]:
    """Send events until the store is there: on a loaded machine it may start late."""
    while (answer := client.post("/v1/events:batch", json={"events": events})).status_code == (
        STORE_AWAY
    ):
        threading.Event().wait(0.1)
    outcomes: list[Event] = answer.json()["outcomes"]
    return outcomes


def _feedback(rng: random.Random, page: Event, name: str) -> list[Event]:
    events: list[Event] = []
    for link in page["links"]:
        one = {"decision_id": page["decision_id"], "link_id": link["link_id"]}
        order = f"{name}-{link['position']}"
        sale = {
            "type": "conversion",
            "conversion_id": order,
            "revenue_micros": rng.randrange(1, 30_000_000),
            "currency": "EUR",
            **one,
        }
        refund = {
            "type": "adjustment",
            "adjustment_id": f"r-{order}",
            "conversion_id": order,
            "refund_micros": rng.randrange(1, 10_000_000),
            "currency": "EUR",
        }
        events += [{"type": "click", **one}, sale, refund]
    rng.shuffle(events)
    return events + rng.sample(events, min(2, len(events)))


def check(url: str, key: str, acknowledged: Acknowledged) -> None:
    """Fail unless everything acknowledged is stored, once."""
    with client_of(url, key) as client:
        events = [event for event, _ in acknowledged.events]
        for start in range(0, len(events), 500):
            part = events[start : start + 500]
            for event, answered in zip(part, report(client, part), strict=True):
                assert answered["outcome"] == "duplicate", (event, answered)
        accepted: dict[str, list[Event]] = {}
        for event, outcome in acknowledged.events:
            if outcome == "accepted" and event["type"] != "adjustment":
                accepted.setdefault(event["decision_id"], []).append(event)
        for decision_id, sent in random.Random(0).sample(
            sorted(accepted.items()), min(50, len(accepted))
        ):
            received = client.get(f"/v1/decisions/{decision_id}").json()["received"]
            for event in sent:
                event_id = event.get("conversion_id", event["link_id"])
                same = [
                    one
                    for one in received
                    if (one["type"], one["event_id"]) == (event["type"], event_id)
                    and one["outcome"] == "accepted"
                ]
                assert len(same) == 1, (event, received)


def run(
    cycles: int, folder: Path, seed: int = 0, tell: Callable[[float], None] = lambda _: None
) -> dict[str, float]:
    """Run the cycles and return what they did; an assertion fails if anything is lost.

    `tell` is told the share done.
    """
    store = folder / "crash.db"
    rng = random.Random(seed)
    server = Server(store)
    key = server.admin_key()
    with client_of(server.url, key) as client:
        client.put("/v1/pools/home", json=POOL).raise_for_status()
        links = [{"link_id": f"l{n}", "url": f"https://shop.example/{n}"} for n in range(5)]
        client.post("/v1/pools/home/links:batch", json={"links": links}).raise_for_status()
    n_acknowledged = n_unanswered = n_faults = 0
    armed = folder / "armed"
    for cycle in range(cycles):
        acknowledged = Acknowledged()
        senders = [
            threading.Thread(
                target=send, args=(server.url, key, f"{seed}-{cycle}-{sender}", acknowledged)
            )
            for sender in range(N_SENDERS)
        ]
        for sender in senders:
            sender.start()
        wanted = rng.randrange(20, 200)
        acknowledged.wait_for(wanted)
        if server.has_fault:
            armed.touch()
            server.wait_for_end()
            armed.unlink()
            n_faults += 1
        else:
            server.kill()
        for sender in senders:
            sender.join()
        assert len(acknowledged.events) >= wanted, "the server stopped by itself"
        n_acknowledged += len(acknowledged.events)
        n_unanswered += acknowledged.n_unanswered
        server = start(cycle, store, armed)
        check(server.url, key, acknowledged)
        tell((cycle + 1) / cycles)
    assert server.stop() == 0
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert cli.main(["verify", "--store", f"sqlite:///{store}"]) == 0, said.getvalue()
    return {
        "cycles": cycles,
        "acknowledged": n_acknowledged,
        "cut_off": n_unanswered,
        "died_of_faults": n_faults,
        "lost": 0,
        "counted_twice": 0,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", choices=["sqlite", "postgresql"], default="sqlite")
    arguments = parser.parse_args()
    if arguments.store == "postgresql":
        from tests.service import replica_crashes

        with progress_bar("kill and look") as tell:
            found = replica_crashes.run(arguments.cycles, arguments.seed, tell)
        print(json.dumps(found))
        return
    with tempfile.TemporaryDirectory(prefix="slotwise-crash-") as folder:
        with progress_bar("kill and look") as tell:
            result = run(arguments.cycles, Path(folder), arguments.seed, tell)
        print(json.dumps(result))


if __name__ == "__main__":
    main()
