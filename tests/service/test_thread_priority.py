"""What requests wait for has a short time slice and a higher priority, where Linux allows it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from slotwise.service.storage.writer_process import ProcessStore
from slotwise.service.thread_priority import (
    REQUESTS,
    SHORT_SLICE_NS,
    WRITER,
    request_priority,
)

WITHOUT_RIGHTS = f"""
import os, resource, sys
from slotwise.service.thread_priority import SHORT_SLICE_NS, request_priority

resource.setrlimit(resource.RLIMIT_NICE, (0, 0))
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
print(request_priority({REQUESTS}, SHORT_SLICE_NS), os.getpriority(os.PRIO_PROCESS, 0))
print(open("/proc/thread-self/sched").read())
"""
WITHOUT_RIGHTS_LATER = f"""
import os
from slotwise.service.storage.writer_process import _come_after_requests
from slotwise.service.thread_priority import request_priority

assert request_priority({WRITER})
os.setgid(65534)
os.setuid(65534)
_come_after_requests()
print(os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK == os.SCHED_BATCH)
"""
LOW = f"""
import os
from slotwise.service.thread_priority import request_priority

os.nice(7)
print(request_priority({REQUESTS}), os.getpriority(os.PRIO_PROCESS, 0))
"""


def slice_in(described: str) -> int:
    """Return the slice in the description of a thread, in nanoseconds."""
    for line in described.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "se.slice":
            return int(value)
    pytest.skip("this system does not report slices")


def slice_of(process: str, thread: int) -> int:
    return slice_in(Path(f"/proc/{process}/task/{thread}/sched").read_text())


def granted(nice: int, slice_ns: int) -> bool:
    """Return what a new thread that requests this is told."""
    found: list[bool] = []
    asking = threading.Thread(target=lambda: found.append(request_priority(nice, slice_ns)))
    asking.start()
    asking.join()
    return found == [True]


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_requests_and_what_they_wait_for_come_first(tmp_path: Path) -> None:
    if not granted(0, SHORT_SLICE_NS):
        pytest.skip("this system has no slices that can be requested")
    is_raised = granted(REQUESTS, SHORT_SLICE_NS)
    settings = Settings(port=0, store=f"sqlite:///{tmp_path / 's.db'}")
    with BackgroundServer(settings, separate_writer=True) as server:
        service = server.context.service
        service.flush().result()
        store, learning = service.store, service.learner._thread
        committing = service.committer._thread
        assert server._thread.native_id is not None
        assert committing is not None
        assert committing.native_id is not None
        assert learning is not None
        assert learning.native_id is not None
        assert isinstance(store, ProcessStore)
        assert store._writer is not None
        writer = store._writer._process.pid
        assert slice_of("self", server._thread.native_id) == SHORT_SLICE_NS
        assert slice_of("self", committing.native_id) > SHORT_SLICE_NS
        assert slice_of("self", learning.native_id) > SHORT_SLICE_NS
        assert slice_of(str(writer), writer) > SHORT_SLICE_NS
        threads = (server._thread.native_id, committing.native_id, learning.native_id, writer)
        found = [os.getpriority(os.PRIO_PROCESS, one) for one in threads]
        assert found == ([REQUESTS, REQUESTS, 0, WRITER] if is_raised else [0, 0, 0, 5])


def test_threads_that_such_a_thread_starts_are_ordinary() -> None:
    found: list[tuple[int, int]] = []

    def start() -> None:
        request_priority(REQUESTS, SHORT_SLICE_NS)
        one = threading.Thread(target=note)
        one.start()
        one.join()

    def note() -> None:
        slice_ns = slice_of("self", threading.get_native_id())
        found.append((os.getpriority(os.PRIO_PROCESS, 0), slice_ns))

    if not granted(0, SHORT_SLICE_NS):
        pytest.skip("this system has no slices that can be requested")
    starting = threading.Thread(target=start)
    starting.start()
    starting.join()
    [(nice, slice_ns)] = found
    assert nice == 0
    assert slice_ns > SHORT_SLICE_NS


@pytest.mark.skipif(sys.platform != "linux", reason="priorities of threads are those of Linux")
def test_without_rights_the_slice_is_short_nevertheless() -> None:
    answer, described = run(WITHOUT_RIGHTS).split("\n", 1)
    assert answer == "False 0"
    if granted(0, SHORT_SLICE_NS):
        assert slice_in(described) == SHORT_SLICE_NS


@pytest.mark.skipif(sys.platform != "linux", reason="priorities of threads are those of Linux")
def test_a_service_that_was_started_with_a_low_priority_keeps_it() -> None:
    assert run(LOW).strip() == "False 7"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give up the rights of root")
def test_a_writer_without_the_rights_of_root_is_a_batch_process_too() -> None:
    """Its priority may come from a limit; then it may not take back that children lose it."""
    assert run(WITHOUT_RIGHTS_LATER).strip() == "True"
