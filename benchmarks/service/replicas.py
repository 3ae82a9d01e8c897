"""Measure the service on PostgreSQL against SQLite, in one run on one disk.

    python -m benchmarks.service.replicas

What a decision or an event costs the database is its processes' computing time and the bytes that
it writes: hardly dependent on what else the machine does. Rates depend on it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import psycopg

from benchmarks.service.load import Result
from benchmarks.service.measures import ROUNDS, Measure, Target, running_target
from slotwise.policies import default_policy
from tests.service.private_postgresql import PrivatePostgresql

N_EVENTS = 20_000
BATCH = 100
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Database:
    """What the processes of a PostgreSQL server have used so far."""

    def __init__(self, server: PrivatePostgresql, address: str) -> None:
        self._pid = server.pid
        self._connection = psycopg.connect(address, autocommit=True)

    def cpu_s(self) -> float:
        """Return the computing time of the server and its children, ended ones too."""
        ticks = 0
        for place in Path("/proc").iterdir():
            if place.name.isdigit():
                try:
                    fields = (place / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                if int(place.name) == self._pid:
                    ticks += sum(map(int, fields[11:15]))
                elif int(fields[1]) == self._pid:
                    ticks += sum(map(int, fields[11:13]))
        return ticks / _TICKS_PER_S

    def wal_bytes(self) -> int:
        """Return how much was written to the log of all changes."""
        return int(self._number("SELECT pg_current_wal_insert_lsn() - '0/0'"))

    def size(self, *tables: str) -> int:
        """Return the bytes of tables with their indexes."""
        names = ", ".join(f"pg_total_relation_size('{table}')" for table in tables)
        return int(self._number(f"SELECT {names.replace(', ', ' + ')}"))

    def rows(self, table: str) -> int:
        return int(self._number(f"SELECT count(*) FROM {table}"))

    def _number(self, sql: str) -> float:
        [(value,)] = self._connection.execute(sql.encode()).fetchall()
        return float(value)


def decide_measures(sqlite: Target, postgresql: Target, database: Database) -> list[Measure]:
    """Compare decisions on both stores; the rounds alternate."""
    taken: dict[str, list[tuple[Result, float]]] = {"sqlite": [], "postgresql": []}
    db_s, wal, n_before = 0.0, 0, database.rows("decisions")
    for name, target in (("sqlite", sqlite), ("postgresql", postgresql)) * (ROUNDS + 1):
        request = [target.request("/v1/pools/bench/decide")]
        began_s, began_wal = database.cpu_s(), database.wal_bytes()
        taken[name].append(target.costly_load(request))
        if name == "postgresql":
            db_s += database.cpu_s() - began_s
            wal += database.wal_bytes() - began_wal
    n_decided = database.rows("decisions") - n_before
    ratios = [
        other[0].per_s / one[0].per_s
        for one, other in itertools.islice(zip(*taken.values(), strict=True), 1, None)
    ]
    costs = {name: statistics.median(cost for _, cost in runs[1:]) for name, runs in taken.items()}
    rates = {
        name: statistics.median(run.per_s for run, _ in runs[1:]) for name, runs in taken.items()
    }
    sides = {
        "postgresql_per_s": rates["postgresql"],
        "sqlite_per_s": rates["sqlite"],
        "postgresql_cpu_us": costs["postgresql"],
        "sqlite_cpu_us": costs["sqlite"],
        "db_cpu_us": 1e6 * db_s / n_decided,
        "wal_bytes": wal / n_decided,
        "stored_bytes": database.size("decisions") / database.rows("decisions"),
    }
    return [
        Measure("decide, PostgreSQL/SQLite", statistics.median(ratios), 0.8, True, sides),
        Measure("decide, same in CPU", costs["sqlite"] / costs["postgresql"], 0.8, True, {}),
    ]


def event_batches(target: Target, prefix: str) -> list[str]:
    clicks = []
    for number in range(N_EVENTS // 10):
        wish = {"decision_id": f"{prefix}-{number}"}
        page = target.client.post("/v1/pools/bench/decide", json=wish).json()
        clicks += [{"type": "click", "link_id": one["link_id"], **wish} for one in page["links"]]
    return [
        target.request("/v1/events:batch", json.dumps({"events": clicks[start : start + BATCH]}))
        for start in range(0, len(clicks), BATCH)
    ]


def send_events(target: Target, prefix: str) -> float:
    """Return events a second, in batches, each answered after its commit."""
    batches = event_batches(target, prefix)
    result = target.load(batches, once=True, seconds=120, connections=16)
    assert result.n_answers == len(batches)
    return BATCH * result.per_s


def single_commits_per_s(address: str, n_events: int = 1_000) -> float:
    """Return how many bare inserts the same server commits one by one."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE bare (decision text, link text, PRIMARY KEY (decision, link))"
        )
        began = time.perf_counter()
        for number in range(n_events):
            connection.execute(
                "INSERT INTO bare VALUES (%s, %s) ON CONFLICT DO NOTHING", (f"d{number}", "l1")
            )
        return n_events / (time.perf_counter() - began)


def event_measures(
    sqlite: Target, postgresql: Target, database: Database, address: str
) -> list[Measure]:
    """Compare events in batches with bare commits on the same server, and with SQLite."""
    on_sqlite = send_events(sqlite, "events")
    batches = event_batches(postgresql, "events")
    began_s, began_wal = database.cpu_s(), database.wal_bytes()
    result = postgresql.load(batches, once=True, seconds=120, connections=16)
    db_s, wal = database.cpu_s() - began_s, database.wal_bytes() - began_wal
    on_postgresql = BATCH * result.per_s
    single = single_commits_per_s(address)
    sides = {
        "batched_per_s": on_postgresql,
        "single_commit_per_s": single,
        "sqlite_batched_per_s": on_sqlite,
        "db_cpu_us": 1e6 * db_s / N_EVENTS,
        "wal_bytes": wal / N_EVENTS,
        "stored_bytes": database.size("clicks") / max(database.rows("clicks"), 1),
    }
    return [Measure("events, batches/single", on_postgresql / single, 10, True, sides)]


def replica_measure(first: Target, second: Target) -> Measure:
    """Compare two replicas under load with one; on few cores they share them."""
    requests = [[target.request("/v1/pools/bench/decide")] for target in (first, second)]
    alone = first.load(requests[0]).per_s
    loads = [
        target.start_load(request)
        for target, request in zip((first, second), requests, strict=True)
    ]
    both = sum(finish().per_s for finish in loads)
    sides = {"one_per_s": alone, "two_per_s": both, "cores": float(os.cpu_count() or 1)}
    return Measure("decide, two replicas/one", both / alone, 0.5, True, sides)


def measure(folder: Path, policy: str) -> list[Measure]:
    place = folder / "pg"
    place.mkdir()
    server = PrivatePostgresql(
        place, fsync="on", full_page_writes="on", shared_buffers="256MB", max_wal_size="4GB"
    )
    address = server.new_database()
    with ExitStack() as stack:
        stack.callback(server.stop)
        sqlite = stack.enter_context(running_target(folder))
        postgresql = stack.enter_context(running_target(folder, store=address))
        for target in (sqlite, postgresql):
            target.make_pool("bench", 100, policy)
        database = Database(server, address)
        measures = decide_measures(sqlite, postgresql, database)
        measures += event_measures(sqlite, postgresql, database, address)
        second = stack.enter_context(running_target(folder, store=address, key=postgresql.key))
        while second.client.post("/v1/pools/bench/decide").status_code != 200:
            time.sleep(0.05)
        measures.append(replica_measure(postgresql, second))
    return measures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", default=default_policy().name)
    parser.add_argument("--folder", type=Path, default=None, help="disk to measure on")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slotwise-bench-", dir=arguments.folder) as folder:
        Path(folder).chmod(0o755)
        measures = measure(Path(folder), arguments.policy)
    for one in measures:
        sides = ", ".join(f"{name} {value:,.4g}" for name, value in one.sides.items())
        print(f"{one.name:<26} {one.value:>9.2f} (at least {one.target:g})  {sides}")
    print(json.dumps([asdict(one) for one in measures]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
