"""The threads that answer requests have a short time slice, where Linux has such slices."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from slotwise.service.storage.writer_process import ProcessStore
from slotwise.service.time_slice import DEFAULT_SLICE_NS, SHORT_SLICE_NS, request_slice


def slice_of(process: str, thread: int) -> int:
    """Return the slice of a thread in nanoseconds."""
    for line in Path(f"/proc/{process}/task/{thread}/sched").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "se.slice":
            return int(value)
    pytest.skip("this system does not report slices")


def test_the_server_preempts_and_the_writer_does_not(tmp_path: Path) -> None:
    found: list[bool] = []
    asking = threading.Thread(target=lambda: found.append(request_slice(DEFAULT_SLICE_NS)))
    asking.start()
    asking.join()
    if found != [True]:
        pytest.skip("this system has no slices that can be requested")
    settings = Settings(port=0, store=f"sqlite:///{tmp_path / 's.db'}")
    with BackgroundServer(settings, separate_writer=True) as server:
        serving, store = server._thread.native_id, server.context.service.store
        assert serving is not None
        assert slice_of("self", serving) == SHORT_SLICE_NS
        assert isinstance(store, ProcessStore)
        assert store._writer is not None
        writer = store._writer._process.pid
        assert slice_of(str(writer), writer) > SHORT_SLICE_NS
