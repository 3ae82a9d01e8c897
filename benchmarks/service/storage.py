"""Measure a store by itself, in computing time.

    python -m benchmarks.service.storage sql        # SQLAlchemy as a builder of statements
    python -m benchmarks.service.storage verify     # `slotwise verify` on many views
    python -m benchmarks.service.storage export     # an export of the same views
    python -m benchmarks.service.storage size       # bytes on disk for a decision
    python -m benchmarks.service.storage purge      # dropping half of the views again
    python -m benchmarks.service.storage forget     # taking all of them back

With `--store postgresql` it is a private PostgreSQL server instead of a SQLite file. All but `sql`
fill a store first: pages of 10 of 100 links, 0.4 clicks a page and a
sale for every fifth click, settled and folded. `--views` says how many pages.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from sqlalchemy import Engine, create_engine
from sqlalchemy.dialects.sqlite import insert

from slotwise.service.records import SECOND_US, DecisionRecord, ShownLink
from slotwise.service.reporting.page_view_files import round_file
from slotwise.service.server import tune_interpreter
from slotwise.service.service import Service
from slotwise.service.storage import open_store, schema, sqlite
from slotwise.service.storage.contract import (
    AppendDecision,
    ForgetViews,
    Operation,
    SaveLinks,
    SavePool,
    Store,
)
from slotwise.service.storage.maintenance import purge
from slotwise.service.storage.sqlite import SqliteStore
from slotwise.service.storage.verify import verify
from tests.service.private_postgresql import private_postgresql
from tests.stores.store_case import StoreCase
from tests.stores.store_rows import (
    REVENUE_WINDOW_US,
    START_US,
    change_row,
    click_row,
    conversion_row,
    decision_row,
    link_row,
    pool_row,
)

GROUP = 100
ROUNDS = 30


def _cpu_s(function: Callable[[], object]) -> float:
    began = time.process_time()
    function()
    return time.process_time() - began


def _started_ms(code: str) -> float:
    """Return the computing time of a statement in a fresh interpreter, the best of five."""
    program = f"import time; t = time.process_time(); {code}; print(time.process_time() - t)"
    command = [sys.executable, "-c", program]
    times = [
        float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(5)
    ]
    return 1e3 * min(times)


def _write_with_sqlalchemy(engine: Engine, new: list[DecisionRecord]) -> None:
    names = schema.row_columns(schema.decisions)
    values = [dict(zip(names, schema.DECISIONS.row(one), strict=True)) for one in new]
    with engine.begin() as connection:
        connection.execute(insert(schema.decisions).on_conflict_do_nothing(), values)


def measure_sql() -> None:
    """Compare statements built ahead and run on the driver with SQLAlchemy's own execution."""
    print(f"importing SQLAlchemy          {_started_ms('import sqlalchemy'):8.0f} ms")
    build_s = min(_cpu_s(lambda: importlib.reload(sqlite)) for _ in range(5))
    print(f"building all statements       {1e3 * build_s:8.0f} ms")
    raw_s, core_s = [], []
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "raw.db")
        SqliteStore(Path(folder) / "core.db").close()
        engine = create_engine(f"sqlite:///{folder}/core.db")
        for number in range(ROUNDS):
            new = [decision_row(f"d{number}-{k}") for k in range(GROUP)]
            batch = [AppendDecision(decision=item) for item in new]
            raw_s.append(_cpu_s(partial(store.commit, batch)))
            core_s.append(_cpu_s(partial(_write_with_sqlalchemy, engine, new)))
        store.close()
    for name, taken in (("the store's own way", raw_s), ("SQLAlchemy's execution", core_s)):
        print(f"{name:<28} {1e6 * statistics.median(taken) / GROUP:8.1f} µs a decision")


def fill(store: Store, n_views: int) -> None:
    """Write a pool with this many settled and folded views, a second apart."""
    chance = random.Random(1)
    pool = pool_row(slots=10)
    links = tuple(link_row(f"link-{n}") for n in range(100))
    store.commit(
        [
            SavePool(pool=pool, change=change_row("home")),
            SaveLinks(links=links, changes=()),
        ]
    )
    step = 5_000
    for start in range(0, n_views, step):
        batch: list[Operation] = []
        for number in range(start, min(start + step, n_views)):
            batch += _view(number, chance)
        store.commit(batch)
    until_us = START_US + n_views * SECOND_US + 2 * REVENUE_WINDOW_US
    folded_s = _cpu_s(lambda: StoreCase().fold(store, until_us, limit=20_000))
    print(f"folding: {1e6 * folded_s / n_views:.0f} µs of computing a view")


def _view(number: int, chance: random.Random) -> list[Operation]:
    issued_us = START_US + number * SECOND_US
    chosen = chance.sample(range(100), 10)
    shown = tuple(ShownLink(f"link-{n}", k, 0.1 + n / 1000) for k, n in enumerate(chosen, start=1))
    name = f"{number:08x}{chance.getrandbits(64):016x}"
    page: list[Operation] = [AppendDecision(decision=decision_row(name, issued_us, shown=shown))]
    if chance.random() < 0.4:
        link_id = shown[0].link_id
        page.append(click_row(name, link_id, issued_us + SECOND_US))
        if chance.random() < 0.2:
            sale_us = issued_us + 2 * SECOND_US
            page.append(conversion_row(f"sale-{number}", name, sale_us, link_id=link_id))
    return page


@contextlib.contextmanager
def new_store(kind: str) -> Iterator[tuple[Store, Callable[[], int]]]:
    """Return an empty store and what tells its bytes."""
    with contextlib.ExitStack() as stack:
        if kind == "postgresql":
            server = stack.enter_context(private_postgresql(fsync="on", full_page_writes="on"))
            store: Store = open_store(server.new_database())
            sql = "SELECT pg_database_size('store1') - pg_database_size('postgres')"
            yield store, lambda: int(server.execute("store1", sql)[0][0])
        else:
            path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "store.db"
            store = open_store(str(path))
            yield store, lambda: path.stat().st_size
        store.close()


def measure_views(part: str, kind: str, n_views: int) -> None:
    """Time one pass over a filled store."""
    with new_store(kind) as (store, n_bytes):
        fill(store, n_views)
        began = time.perf_counter()
        taken_s = _cpu_s(partial(_PARTS[part], store, n_bytes, n_views))
        print(
            f"{part} of {n_views} views: {taken_s:.1f} s of computing, "
            f"{time.perf_counter() - began:.1f} s on the clock"
        )


def _size(_: Store, n_bytes: Callable[[], int], n_views: int) -> None:
    size = n_bytes() / n_views
    print(f"{size:.0f} bytes a decision; a month at 100 a second: {size * 0.2592:.0f} GB")


def _verify(store: Store, *_: object) -> None:
    assert verify(store).mismatches == ()


def _export(store: Store, *_: object) -> None:
    tune_interpreter()  # as where it is served
    service = Service(store)
    for n_bytes in map(len, round_file(service.reporter.export("home"))):
        assert n_bytes
    service.close()


def _purge(store: Store, n_bytes: Callable[[], int], n_views: int) -> None:
    before_us = START_US + n_views // 2 * SECOND_US + REVENUE_WINDOW_US
    steps: list[float] = []

    def commit(operation: Operation) -> object:
        began = time.perf_counter()
        [answer] = store.commit([operation])
        steps.append(time.perf_counter() - began)
        return answer

    n_purged = purge(store.reading, commit, before_us, max_steps=sys.maxsize)
    assert verify(store).mismatches == ()
    print(
        f"{n_purged} views dropped in steps of {1e3 * statistics.median(steps):.1f} ms, "
        f"the longest {1e3 * max(steps):.0f} ms; {n_bytes() / n_views:.0f} bytes a decision left"
    )


def _forget(store: Store, _: Callable[[], int], n_views: int) -> None:
    forget = ForgetViews(key_id="", since_us=0, change=change_row("home"))  # asked by no key
    assert store.commit([forget]) == [n_views]


_PARTS: dict[str, Callable[[Store, Callable[[], int], int], None]] = {
    "size": _size,
    "verify": _verify,
    "export": _export,
    "purge": _purge,
    "forget": _forget,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["sql", *_PARTS])
    parser.add_argument("--store", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--views", type=int, default=1_000_000)
    arguments = parser.parse_args()
    if arguments.part == "sql":
        measure_sql()
    else:
        measure_views(arguments.part, arguments.store, arguments.views)
    return 0


if __name__ == "__main__":
    sys.exit(main())
