"""The measurements: each returns the two sides of a ratio, taken in one run."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import socket
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.service.load import Load, Result
from slotwise.service.records import DecisionRecord, FloorState, ShownLink
from slotwise.service.settings import Settings
from slotwise.service.storage import open_store
from slotwise.service.storage.contract import AppendDecision

ROUNDS = 3
SECONDS = 3.0
WARM_UP_S = 6.0
"""Load before the tail of decisions is measured: windows close and policies learn by then."""
FOLDED_PER_S = 2_000
BESIDE_PER_S = 5_000
MAX_MEDIANS = 3
"""Medians of the control up to which the median of decisions counts."""


@dataclass(frozen=True)
class Measure:
    """One line of the report: a ratio and the target it has to reach."""

    name: str
    value: float
    target: float
    at_least: bool
    sides: dict[str, float]

    @property
    def reached(self) -> bool:
        return self.value >= self.target if self.at_least else self.value <= self.target


class Target:
    """The service under measurement and a way to load it."""

    def __init__(self, url: str, key: str) -> None:
        self.address = httpx.URL(url)
        self.key = key
        self.client = httpx.Client(
            base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=120
        )

    def request(self, path: str, body: str = "") -> str:
        head = f"POST {path} HTTP/1.1\r\nHost: {self.address.host}\r\n"
        head += f"Authorization: Bearer {self.key}\r\nContent-Length: {len(body)}\r\n"
        head += "Content-Type: application/json\r\n" if body else ""
        return f"{head}\r\n{body}"

    def load(self, requests: list[str], **options: Any) -> Result:
        return self.start_load(requests, **options)()

    def start_load(self, requests: list[str], **options: Any) -> Callable[[], Result]:
        """Start a load beside others; call what is returned to wait for its result."""
        options.setdefault("seconds", SECONDS)
        assert self.address.port is not None
        load = Load(self.address.host, self.address.port, requests, **options)
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.service.send_load"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(asdict(load)))
        process.stdin.close()

        def finish() -> Result:
            assert process.stdout is not None
            answer = process.stdout.read()
            assert process.wait() == 0
            result = Result(**json.loads(answer))
            assert result.n_failures == 0, result
            return result

        return finish

    def costly_load(self, requests: list[str], seconds: float = SECONDS) -> tuple[Result, float]:
        """Return what came of a load, and the server's computing time an answer, in us.

        Computing time hardly depends on what else the machine does; requests a second do.
        """
        before_s = self.client.get("/cpu-seconds").json()
        result = self.load(requests, seconds=seconds)
        time.sleep(0.1)  # what the last answers left to do belongs to them
        after_s = self.client.get("/cpu-seconds").json()
        return result, 1e6 * (after_s - before_s) / result.n_answers

    def make_pool(self, pool_id: str, n_links: int, policy: str, **settings: object) -> None:
        pool: dict[str, object] = {
            "slots": 10,
            "click_floor": 0.2,
            "max_revenue": {"amount_micros": 50_000_000, "currency": "EUR"},
            "policy": {"name": policy},
            "allowed_hosts": ["shop.example"],
            **settings,
        }
        self.client.put(f"/v1/pools/{pool_id}", json=pool).raise_for_status()
        for start in range(0, n_links, 1000):
            links = [
                {"link_id": f"link-{n}", "url": f"https://shop.example/articles/{n}"}
                for n in range(start, min(start + 1000, n_links))
            ]
            self.client.post(
                f"/v1/pools/{pool_id}/links:batch", json={"links": links}
            ).raise_for_status()
        self.client.post(f"/v1/pools/{pool_id}/decide").raise_for_status()


@contextlib.contextmanager
def running_target(
    folder: Path,
    module: Sequence[str] = ("benchmarks.service.target",),
    store: str = "",
    key: str = "",
    nice: int = 0,
) -> Iterator[Target]:
    """Start a service without rate limits; `module` is what its process runs.

    It compiles before it learns, so that machine code is measured, not Python.
    `store` is a SQLite file in the folder unless it is given; `key` is the admin key of a store
    that is not new. With a `nice` above 0 the service keeps that priority for all its threads.
    """
    settings = {
        "port": 0,
        "store": store or f"sqlite:///{folder / 'bench.db'}",
        "decide_per_s": 1e9,
        "events_per_s": 1e9,
        "clicks_per_s": 1e9,
        "calls_per_s": 1e9,
        "max_pool_links": 20_000,
    }
    process = subprocess.Popen(
        [
            "nice",
            f"-n{nice}",
            sys.executable,
            "-m",
            *module,
            json.dumps(settings),
            *filter(None, [key]),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "SLOTWISE_COMPILE": "first"},
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        target = Target(**json.loads(process.stdout.readline()))
        with target.client:
            yield target
    finally:
        process.stdin.close()
        process.wait()


def decide_against_constant(target: Target, pool_id: str, goal: float) -> Measure:
    """Compare decisions with a constant answer of the same size; the rounds alternate."""
    decide = target.request(f"/v1/pools/{pool_id}/decide")
    size = target.load([decide], seconds=0.5).answer_bytes
    constant = target.request(f"/constant/{size}")
    target.load([constant], seconds=0.5)
    ratios, decided, answered, decide_us, constant_us = [], [], [], [], []
    writer_s, n_decided = -target.client.get("/writer-cpu-seconds").json(), 0
    for _ in range(ROUNDS):
        result, cost_us = target.costly_load([constant])
        answered.append(result.per_s)
        constant_us.append(cost_us)
        result, cost_us = target.costly_load([decide])
        decided.append(result.per_s)
        decide_us.append(cost_us)
        n_decided += result.n_answers
        ratios.append(decided[-1] / answered[-1])
    writer_s += target.client.get("/writer-cpu-seconds").json()
    sides = {
        "decide_per_s": statistics.median(decided),
        "constant_per_s": statistics.median(answered),
        "decide_cpu_us": statistics.median(decide_us),
        "writer_cpu_us": 1e6 * writer_s / n_decided,
        "constant_cpu_us": statistics.median(constant_us),
        "answer_bytes": float(size),
    }
    return Measure(f"decide, {pool_id}", statistics.median(ratios), goal, True, sides)


def decide_with_rules(target: Target, pool_id: str, n_rules: int) -> Measure:
    """Compare the computing time of decisions with rules and without, in turns, on one pool.

    The ratio is the median of those of neighbouring turns: a busy machine slows both alike.
    """
    links = [
        one["link_id"] for one in target.client.get(f"/v1/pools/{pool_id}/links").json()["links"]
    ]
    rules = [
        {
            "name": f"group {place}",
            "links": links[place::n_rules],
            "at_least": 0.5 * (place % 4 == 3),
            "at_most": 1,
        }
        for place in range(n_rules)
    ]
    decide = target.request(f"/v1/pools/{pool_id}/decide")
    spent: list[list[float]] = [[], []]
    for turn in range(4 * ROUNDS):
        sides = list(enumerate(([], rules)))
        for place, asked in sides if turn % 2 else reversed(sides):
            answer = target.client.put(f"/v1/pools/{pool_id}/rules", json={"rules": asked})
            answer.raise_for_status()
            target.load([decide], seconds=0.5)
            spent[place].append(target.costly_load([decide], seconds=2.0)[1])
    target.client.put(f"/v1/pools/{pool_id}/rules", json={"rules": []}).raise_for_status()
    plain, ruled = map(statistics.median, spent)
    ratios = sorted(of_ruled / of_plain for of_plain, of_ruled in zip(*spent, strict=True))
    found = {"ruled_cpu_us": ruled, "plain_cpu_us": plain, "least": ratios[0], "most": ratios[-1]}
    return Measure(f"decide, {n_rules} rules", statistics.median(ratios), 1.1, False, found)


def decide_tail(target: Target, pool_id: str) -> Measure:
    """Compare the 99th percentile with the median at half the peak, in an open loop.

    The control is a constant answer at the same rate, in turn: what the machine does to it at that
    moment it does to decisions, too. A median above three times that of the control counts as
    three times: slow answers to everybody are no success.
    """
    decide = target.request(f"/v1/pools/{pool_id}/decide")
    result = target.load([decide])
    peak = result.per_s
    constant = target.request(f"/constant/{result.answer_bytes}")
    target.load([constant], seconds=0.5)
    taken: dict[str, list[float]] = {}
    for seed in range(ROUNDS):
        control = target.load([constant], rate=peak / 2, connections=64, seed=seed)
        decided = target.load([decide], rate=peak / 2, connections=64, seed=seed)
        one = {
            "ratio": decided.p99_ms / min(decided.p50_ms, MAX_MEDIANS * control.p50_ms),
            "p99_ms": decided.p99_ms,
            "p50_ms": decided.p50_ms,
            "control_ratio": control.p99_ms / control.p50_ms,
            "control_p99_ms": control.p99_ms,
            "control_p50_ms": control.p50_ms,
        }
        for name, value in one.items():
            taken.setdefault(name, []).append(value)
    sides = {name: statistics.median(values) for name, values in taken.items()}
    ratio = sides.pop("ratio")
    return Measure("decide, p99 over p50", ratio, 10, False, {**sides, "rate_per_s": peak / 2})


def decide_beside_others(folder: Path, policy: str) -> Measure:
    """Compare the tails of a service with a higher priority and of one without, in turns.

    A program that never rests runs on each core. Only root, and a user with the limit `nice`, may
    raise a priority; without that right both sides are alike.
    """
    taken: list[list[Result]] = [[], []]
    with contextlib.ExitStack() as opened:
        targets = []
        for nice in (0, 1):
            place = folder / f"nice-{nice}"
            place.mkdir()
            targets.append(opened.enter_context(running_target(place, nice=nice)))
            targets[-1].make_pool("beside", 100, policy)
        for _ in range(os.cpu_count() or 1):
            busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            opened.callback(busy.wait)
            opened.callback(busy.kill)
        for seed in range(ROUNDS):
            for target, results in zip(targets, taken, strict=True):
                decide = target.request("/v1/pools/beside/decide")
                results.append(target.load([decide], rate=BESIDE_PER_S, connections=64, seed=seed))
    sides = {
        f"{name}_{key}": statistics.median(getattr(one, key) for one in results)
        for name, results in zip(("raised", "ordinary"), taken, strict=True)
        for key in ("p99_ms", "p50_ms")
    }
    ratio = sides["raised_p99_ms"] / sides["ordinary_p99_ms"]
    return Measure("decide p99, beside others", ratio, 0.7, False, sides)


def decide_while_folding(target: Target, policy: str) -> Measure:
    """Measure the tail of 2,000 decisions a second whose windows close meanwhile.

    600 clicks a second come beside them, for pages of another pool.
    """
    target.make_pool("folding", 100, policy, click_window_s=1, revenue_window_s=1)
    target.make_pool("clicked", 100, policy)
    decide = target.request("/v1/pools/folding/decide")
    seconds = 2 * SECONDS
    clicks: list[str] = []
    while len(clicks) < 700 * seconds:  # more than chance makes due: a load waits for its answers
        page = target.client.post("/v1/pools/clicked/decide").json()
        for link in page["links"]:
            one = {"decision_id": page["decision_id"], "link_id": link["link_id"]}
            clicks.append(target.request("/v1/events", json.dumps({"type": "click", **one})))
    target.load(
        [decide], rate=FOLDED_PER_S, connections=64, seconds=WARM_UP_S
    )  # windows close and the policy learns
    taken = target.start_load(clicks, rate=600, connections=16, seconds=seconds, once=True, seed=9)
    decided = target.load([decide], rate=FOLDED_PER_S, connections=64, seconds=seconds)
    sides = {
        "p50_ms": decided.p50_ms,
        "decide_per_s": decided.per_s,
        "events_per_s": taken().per_s,
    }
    return Measure("decide p99 ms, folding", decided.p99_ms, 10, False, sides)


def healthz_while_pipelining(target: Target) -> Measure:
    """Measure the tail of `/healthz` while 80 connections send and read nothing.

    Each offers 14,000 requests, as much at a time as the server takes.
    """
    request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    place = (target.address.host, target.address.port or 80)
    taken_s = []
    with contextlib.ExitStack() as opened:
        lines = [opened.enter_context(socket.create_connection(place)) for _ in range(80)]
        left = dict.fromkeys(lines, 14_000)
        for line in lines:
            line.setblocking(False)
        for _ in range(1_000):
            for line in lines:
                with contextlib.suppress(BlockingIOError, ConnectionError):
                    left[line] -= line.send(request * min(700, left[line])) // len(request)
            began = time.perf_counter()
            target.client.get("/healthz").raise_for_status()
            taken_s.append(time.perf_counter() - began)
    *_, p99_s = statistics.quantiles(taken_s, n=100)
    sides = {
        "p50_ms": 1e3 * statistics.median(taken_s),
        "sent": float(sum(14_000 - one for one in left.values())),
    }
    return Measure("healthz p99 ms, pipelining", 1e3 * p99_s, 50, False, sides)


def decide_while_republishing(target: Target, pool_id: str) -> Measure:
    """Measure the tail of 500 decisions a second while links of the pool are changed.

    Every change publishes the pool anew before it is answered.
    """
    decide = target.request(f"/v1/pools/{pool_id}/decide")
    taken = target.start_load([decide], rate=500, connections=32, seconds=SECONDS)
    began = time.perf_counter()
    changes_s: list[float] = []
    while time.perf_counter() < began + SECONDS:
        changed = time.perf_counter()
        link = f"/v1/pools/{pool_id}/links/link-{len(changes_s)}"
        target.client.patch(link, json={"title": "Changed"}).raise_for_status()
        changes_s.append(time.perf_counter() - changed)
    decided = taken()
    sides = {
        "p50_ms": decided.p50_ms,
        "change_ms": 1e3 * statistics.median(changes_s),
        "changes_per_s": len(changes_s) / (time.perf_counter() - began),
    }
    return Measure("decide p99 ms, republishing", decided.p99_ms, 10, False, sides)


def events_against_single_commits(target: Target, pool_id: str, folder: Path) -> Measure:
    """Compare durable events in batches of 100 with one commit for each on the same disk."""
    clicks = []
    for number in range(2000):
        wish = {"decision_id": f"bench-{number}"}
        page = target.client.post(f"/v1/pools/{pool_id}/decide", json=wish).json()
        for link in page["links"]:
            one = {"decision_id": wish["decision_id"], "link_id": link["link_id"]}
            clicks.append({"type": "click", **one})
    batches = [
        target.request("/v1/events:batch", json.dumps({"events": clicks[start : start + 100]}))
        for start in range(0, len(clicks), 100)
    ]
    began = time.perf_counter()
    result = target.load(batches, once=True, seconds=60, connections=32)
    assert result.n_answers == len(batches)
    batched_per_s = len(clicks) / (result.n_answers / result.per_s)
    single_per_s = _single_commits_per_s(clicks[:1000], folder / "single.db")
    sides = {
        "batched_per_s": batched_per_s,
        "single_commit_per_s": single_per_s,
        "seconds": time.perf_counter() - began,
    }
    return Measure("events, batches of 100", batched_per_s / single_per_s, 20, True, sides)


def _single_commits_per_s(events: list[dict[str, str]], file: Path) -> float:
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(
        "CREATE TABLE clicks (decision TEXT, link TEXT, PRIMARY KEY (decision, link))"
    )
    began = time.perf_counter()
    for event in events:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "INSERT INTO clicks VALUES (?, ?) ON CONFLICT DO NOTHING",
            (event["decision_id"], event["link_id"]),
        )
        connection.execute("COMMIT")
    seconds = time.perf_counter() - began
    connection.close()
    return len(events) / seconds


def start_to_ready(folder: Path, n_decisions: int) -> Measure:
    """Time `slotwise serve` from its start to the first ready answer over a full store."""
    address = f"sqlite:///{folder / 'full.db'}"
    _fill(address, n_decisions)
    _start_s(address)  # compiles what is not on disk yet
    before_s = _children_cpu_s()
    times = [_start_s(address) for _ in range(ROUNDS)]
    cpu_s = (_children_cpu_s() - before_s) / ROUNDS
    sides = {"n_decisions": float(n_decisions), "cpu_s": cpu_s}
    return Measure("start to ready, seconds", statistics.median(times), 3, False, sides)


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _start_s(address: str) -> float:
    began = time.perf_counter()
    command = [sys.executable, "-m", "slotwise.cli.main", "serve", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--store", address, "--set", "log_level=warning"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        found = re.search(r"dashboard +(http://\S+)/", process.stdout.readline())
        assert found, "the service did not start"
        with httpx.Client(base_url=found.group(1)) as client:
            while client.get("/readyz").status_code != 200:
                time.sleep(0.005)
        return time.perf_counter() - began
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def _fill(address: str, n_decisions: int) -> None:
    """Store a pool's history the way the service does, a day of it, settled and not."""
    with _filled_pool(address):
        store = open_store(address)
        now_us = time.time_ns() // 1000
        floor = FloorState(clicks=0.2, expected=0.3, attainable=0.5, status="met")
        shown = tuple(
            ShownLink(link_id=f"link-{n}", position=n + 1, propensity=0.1) for n in range(10)
        )
        step_us = 86_400_000_000 // n_decisions
        for start in range(0, n_decisions, 20_000):
            operations = []
            for number in range(start, min(start + 20_000, n_decisions)):
                issued_us = now_us - 86_400_000_000 + number * step_us
                operations.append(
                    AppendDecision(
                        decision=DecisionRecord(
                            decision_id=f"stored-{number}",
                            pool_id="home",
                            issued_us=issued_us,
                            click_closes_us=issued_us + 1_800_000_000,
                            revenue_until_us=issued_us + 86_400_000_000,
                            revenue_closes_us=issued_us + 86_400_000_000,
                            currency="EUR",
                            max_revenue_micros=50_000_000,
                            policy="uniform",
                            policy_version=1,
                            floor=floor,
                            shown=shown,
                        )
                    )
                )
            store.commit(operations)
        store.close()


@contextlib.contextmanager
def _filled_pool(address: str) -> Iterator[None]:
    from slotwise.service.server import BackgroundServer

    with BackgroundServer(Settings(port=0, store=address)) as server:
        Target(server.url, server.admin_key).make_pool("home", 100, "uniform")
    yield
