"""Memory and processor time of `slotwise export`, by the size of the store.

    python benchmarks/export.py --pages 100000 1000000

Each export runs in a process of its own: its peak memory must not grow with the store.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from slotwise.service.records import SECOND_US, Event
from slotwise.service.storage.contract import (
    AppendDecision,
    CloseWindows,
    Operation,
    RecordEvent,
    SavePool,
)
from slotwise.service.storage.sqlite import SqliteStore
from tests.service.rows import T0, click, conversion, decision, pool
from tests.stores.store_rows import change_row

DAYS = 3
MEASURED = """
import json, resource, sys
from slotwise.cli.main import main
assert main(["export", "--to", sys.argv[1], "--store", sys.argv[2]]) == 0
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([used.ru_maxrss / 1024, used.ru_utime + used.ru_stime]))
"""


def fill(path: Path, n_pages: int) -> int:
    """Write pages of three days, a fifth of them with a click and a sale; return the events."""
    rng, n_events = random.Random(1), 0
    step_us = DAYS * 86_400 * SECOND_US // n_pages
    with closing(SqliteStore(path)) as store:
        store.commit([SavePool(pool=pool(created_us=T0), change=change_row("home"))])
        for first in range(0, n_pages, 2_000):
            commit: list[Operation] = []
            for page in range(first, min(first + 2_000, n_pages)):
                now_us, page_id = T0 + page * step_us, f"{rng.getrandbits(96):024x}"
                commit.append(AppendDecision(decision(page_id, issued_us=now_us)))
                if rng.random() < 0.2:
                    sale = conversion(f"o{page}", decision_id=page_id)
                    events: list[Event] = [click("l1", page_id), sale]
                    commit += [RecordEvent(event=one, received_us=now_us) for one in events]
                    n_events += 2
            store.commit(commit)
        store.commit([CloseWindows(until_us=T0 + (DAYS + 2) * 86_400 * SECOND_US)])
    return n_events


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, nargs="+", default=[100_000, 1_000_000])
    for n_pages in parser.parse_args().pages:
        with tempfile.TemporaryDirectory() as folder:
            store = Path(folder) / "shop.db"
            n_events = fill(store, n_pages)
            command = [sys.executable, "-c", MEASURED, str(Path(folder) / "to"), str(store)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            peak_mb, seconds = json.loads(done.stdout.splitlines()[-1])
            print(
                f"{n_pages:,} pages, {2 * n_pages + n_events:,} rows exported: peak memory "
                f"{peak_mb:.0f} MB, {seconds:.0f} s of processor time, "
                f"{store.stat().st_size / 1e6:.0f} MB of store",
                flush=True,
            )


if __name__ == "__main__":
    main()
