"""A process killed at any moment has kept everything it acknowledged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from slotwise.service.service import Service
from slotwise.service.settings import ServiceOptions
from slotwise.service.storage.sqlite import SqliteStore
from slotwise.service.storage.verify import verify
from tests.service.rows import link, pool
from tests.stores.store_rows import reads

ROOT = Path(__file__).parents[3]
START_US = 1_700_000_000_000_000

# Decides, clicks and folds without end; prints what was acknowledged, and when the clock of
# its world stands where.
WORKER = """
import sys
from slotwise.service.records import ClickEvent
from slotwise.service.service import Service, ServiceOptions
from slotwise.service.storage import SqliteStore

service = Service(SqliteStore(sys.argv[1]), ServiceOptions(commit_every_ms=0.0))
now_us = int(sys.argv[2])
while True:
    for _ in range(20):
        now_us += 1000
        page = service.decider.decide("home", now_us)
        click = ClickEvent(decision_id=page.decision_id, link_id=page.shown[0].link_id)
        (outcome,) = service.committer.submit_events([click], now_us).result()
        print(page.decision_id, page.shown[0].link_id, outcome.outcome, now_us, flush=True)
    service.learner.learn(now_us)
"""


def live_and_be_killed(path: Path, now_us: int, n_lines: int) -> list[list[str]]:
    """Run the worker, kill it after some lines, return every whole line it printed."""
    command = [sys.executable, "-c", WORKER, str(path), str(now_us)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as worker:
        assert worker.stdout is not None
        lines = [worker.stdout.readline() for _ in range(n_lines)]
        worker.kill()
        lines += worker.stdout.readlines()
    return [line.split() for line in lines if line.endswith("\n")]


def run_cycles(path: Path, n_cycles: int) -> None:
    service = Service(SqliteStore(path), ServiceOptions(commit_every_ms=0.0))
    home = pool(policy="uniform", policy_settings={}, click_window_s=1, revenue_window_s=1)
    service.directory.put_pool(home, "test", START_US).result()
    service.directory.put_links(
        "home", [link(f"l{k}") for k in range(4)], "test", START_US
    ).result()
    service.close()
    acknowledged: list[list[str]] = []
    now_us = START_US
    for cycle in range(n_cycles):
        acknowledged += live_and_be_killed(path, now_us, 10 + 37 * cycle % 101)
        now_us = int(acknowledged[-1][3]) + 1000
        store = SqliteStore(path)
        assert verify(store).mismatches == ()
        for decision_id, link_id, outcome, _ in acknowledged:
            view = reads(store).view(decision_id)
            assert outcome == "accepted"
            assert view is not None
            assert [click.event.link_id for click in view.clicks] == [link_id]
        store.close()
    last = Service(SqliteStore(path))
    last.learner.learn(now_us + 10**7)
    counters = reads(last.store).counters("home").links.values()
    assert sum(item.clicks for item in counters) >= len(acknowledged)
    assert verify(last.store).mismatches == ()
    last.close()


def test_a_killed_process_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    run_cycles(tmp_path / "store.db", 3)


@pytest.mark.slow
def test_a_process_killed_often_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    run_cycles(tmp_path / "store.db", 50)
