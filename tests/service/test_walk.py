"""The way of a page view is the one that CONTRIBUTING.md draws."""

from __future__ import annotations

import re
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from tests.service.conftest import POOL, http

ROOT = Path(__file__).parents[2]
SERVICE = "/slotwise/service/"
MAX_FILES = 20
MAX_RETURNS = 2


class Walk:
    """Counts how often each file of the service is entered by the server's thread.

    A call enters a file unless that file called, directly or through others, or was called just
    before.
    """

    def __init__(self) -> None:
        self.entries: Counter[str] = Counter()
        self.is_on = False
        self._last = ""

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if not self.is_on or event != "call":
            return
        if threading.current_thread().name != "slotwise-server":
            return
        here = _file_of(frame)
        caller = frame.f_back
        while caller is not None and _file_of(caller) != here:
            caller = caller.f_back
        if here and caller is None and here != self._last:
            self.entries[here] += 1
        self._last = here or self._last


def _file_of(frame: FrameType) -> str:
    _, found, file = frame.f_code.co_filename.rpartition(SERVICE)
    return file if found and file != "server.py" else ""  # its clock ticks at any time


@pytest.fixture
def walk(tmp_path: Path) -> Counter[str]:
    """Trace a page of a pool whose links were all shown before, over HTTP."""
    traced = Walk()
    threading.setprofile(traced)
    try:
        settings = Settings(port=0, store=f"sqlite:///{tmp_path / 'walk.db'}", fold_every_s=3600)
        with BackgroundServer(settings) as server, http(server.url, server.admin_key) as client:
            client.put("/v1/pools/home", json=POOL).raise_for_status()
            links = [{"link_id": f"l{n}", "url": f"https://shop.example/{n}"} for n in range(5)]
            client.post("/v1/pools/home/links:batch", json={"links": links}).raise_for_status()
            for _ in range(100):
                client.post("/v1/pools/home/decide").raise_for_status()
            traced.is_on = True
            client.post("/v1/pools/home/decide").raise_for_status()
            traced.is_on = False
    finally:
        threading.setprofile(None)
    return traced.entries


def test_a_page_view_takes_the_way_that_is_drawn(walk: Counter[str]) -> None:
    drawing = (ROOT / "CONTRIBUTING.md").read_text().partition("### The way of a page view")[2]
    drawn = re.findall(r"[\w/]+\.py", drawing.partition("```\n")[2].partition("```")[0])
    assert sorted(walk) == sorted(set(drawn)), sorted(walk.items())
    assert len(walk) <= MAX_FILES
    assert max(walk.values()) - 1 <= MAX_RETURNS, walk
