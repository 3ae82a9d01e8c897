"""The ways of a page view and of an event are the ones that CONTRIBUTING.md draws."""

from __future__ import annotations

import re
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from slotwise.service.records import DAY_US
from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from tests.service.conftest import POOL, http

ROOT = Path(__file__).parents[2]
SERVICE = "/slotwise/service/"
SERVER_THREAD = "slotwise-server"
MAX_FILES = 16
MAX_FILES_OF_EVENT = 34
"""With the process that writes, `storage/writer_process.py`, which a test does not start."""
MAX_RETURNS = 2
GATES = {"storage/group_commit.py", "storage/sqlite.py", "storage/sql_reads.py"}
GATES |= {"counting/attribution.py", "pool.py", "giving_way.py"}
"""Who writes and reads the store, what counts, the settings, and where requests come in between:
called at every step."""
HEAD = {"http/protocol.py", "http/routing.py", "http/exchange.py"}
HEAD |= {"api/app.py", "access/keys.py", "observability.py"}
"""The head of each request, which is drawn for a page view only."""


class Walk:
    """Counts how often each file of the service is entered, and by which files.

    A call enters a file unless that file called, directly or through others, or was called just
    before. A thread starts its own walk. What the server does every second is left out.
    """

    def __init__(self, *threads: str) -> None:
        self.entries: Counter[str] = Counter()
        self.callers: dict[str, set[str]] = defaultdict(set)
        self.is_on = False
        self._threads = threads
        self._last: dict[str, str] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        thread = threading.current_thread().name
        if not self.is_on or event != "call" or thread not in self._threads:
            return
        here = _file_of(frame)
        files: list[str] = []
        caller = frame.f_back
        while caller is not None and here not in files:
            if caller.f_code.co_name == "on_tick":
                return
            files.append(_file_of(caller))
            caller = caller.f_back
        if here and here not in files and here != self._last.get(thread):
            self.entries[here] += 1
            self.callers[here].add(next(filter(None, files), ""))
        self._last[thread] = here or self._last.get(thread, "")


def _file_of(frame: FrameType) -> str:
    _, found, file = frame.f_code.co_filename.rpartition(SERVICE)
    return file if found and file != "server.py" else ""  # its clock ticks at any time


@contextmanager
def traced_server(folder: Path, walk: Walk) -> Iterator[BackgroundServer]:
    """Serve a pool whose links were all shown before."""
    threading.setprofile(walk)
    try:
        settings = Settings(port=0, store=f"sqlite:///{folder / 'walk.db'}", fold_every_s=3600)
        with BackgroundServer(settings) as server, http(server.url, server.admin_key) as client:
            client.put("/v1/pools/home", json=POOL).raise_for_status()
            links = [{"link_id": f"l{n}", "url": f"https://shop.example/{n}"} for n in range(5)]
            client.post("/v1/pools/home/links:batch", json={"links": links}).raise_for_status()
            for _ in range(100):
                client.post("/v1/pools/home/decide").raise_for_status()
            yield server
    finally:
        threading.setprofile(None)


def guide() -> str:
    return (ROOT / "CONTRIBUTING.md").read_text()


def drawn_under(heading: str) -> set[str]:
    drawing = guide().partition(heading)[2]
    return set(re.findall(r"[\w/]+\.py", drawing.partition("```\n")[2].partition("```")[0]))


def test_a_page_view_takes_the_way_that_is_drawn(tmp_path: Path) -> None:
    walk = Walk(SERVER_THREAD)
    with traced_server(tmp_path, walk) as server, http(server.url, server.admin_key) as client:
        walk.is_on = True
        client.post("/v1/pools/home/decide").raise_for_status()
        walk.is_on = False
    assert sorted(walk.entries) == sorted(drawn_under("### The way of a page view"))
    assert len(walk.entries) <= MAX_FILES
    assert max(walk.entries.values()) - 1 <= MAX_RETURNS, walk.entries


def test_an_event_takes_the_way_that_is_drawn_to_the_next_version(tmp_path: Path) -> None:
    walk = Walk(SERVER_THREAD, "slotwise-commits", "slotwise-learning")
    with traced_server(tmp_path, walk) as server, http(server.url, server.admin_key) as client:
        page = client.post("/v1/pools/home/decide").json()
        names = {"decision_id": page["decision_id"], "link_id": page["links"][0]["link_id"]}
        walk.is_on = True
        answer = client.post("/v1/events", json={"type": "click", **names})
        assert answer.json() == {"outcome": "accepted"}
        service, later_us = server.context.service, server.context.clock_us() + DAY_US
        before = service.decider.installed("home").version
        learning = threading.Thread(
            target=service.learner.learn, args=(later_us,), name="slotwise-learning"
        )
        learning.start()
        learning.join()
        walk.is_on = False
        assert service.decider.installed("home").version > before
    entered = walk.callers
    drawn = drawn_under("### The way of an event to the next version")
    assert drawn_under("### The way of a page view") > HEAD
    assert sorted(entered) == sorted(drawn | HEAD)
    assert len(entered) + 1 <= MAX_FILES_OF_EVENT
    assert f"it enters {len(entered)} files of the service, and the process" in guide()
    often = {file for file, by in entered.items() if len(by) > MAX_RETURNS}
    assert often == GATES, {file: sorted(entered[file]) for file in often ^ GATES}
