"""What answers requests has a short time slice, where the system gives one."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slotwise.service import time_slice
from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from slotwise.service.storage.contract import AppendDecision
from slotwise.service.storage.writer_process import _YieldingStore
from slotwise.service.time_slice import DEFAULT_SLICE_NS, SHORT_SLICE_NS, ask_for_slice, slice_ns
from tests.service.conftest import http, until
from tests.service.rows import decision

FIRST_LINUX = (6, 12)


def in_a_thread(call: Callable[[], list[int]]) -> list[int]:
    """Call something in a thread of its own: what it asks for ends with it."""
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.extend(call()))
    thread.start()
    thread.join()
    return found


def _gives_slices() -> bool:
    if sys.platform != "linux" or os.uname().machine not in time_slice._SET_AND_GET:
        return False
    version = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    return version >= FIRST_LINUX


needs_slices = pytest.mark.skipif(not _gives_slices(), reason="this system gives no slices")


@needs_slices
def test_a_slice_is_given_and_given_back() -> None:
    def ask() -> list[int]:
        seen = [slice_ns() or 0]
        for wanted in (SHORT_SLICE_NS, DEFAULT_SLICE_NS):
            ask_for_slice(wanted)
            seen.append(slice_ns() or 0)
        return seen

    before, short, after = in_a_thread(ask)
    assert short == SHORT_SLICE_NS
    assert before == after
    assert before > short


@needs_slices
def test_priority_and_policy_stay() -> None:
    def ask() -> list[int]:
        thread = threading.get_native_id()
        os.sched_setscheduler(thread, os.SCHED_BATCH, os.sched_param(0))
        nice = os.getpriority(os.PRIO_PROCESS, thread) + 3
        os.setpriority(os.PRIO_PROCESS, thread, nice)
        ask_for_slice(SHORT_SLICE_NS)
        asked = os.getpriority(os.PRIO_PROCESS, thread)
        return [slice_ns() or 0, os.sched_getscheduler(thread), asked - nice]

    assert in_a_thread(ask) == [SHORT_SLICE_NS, os.SCHED_BATCH, 0]


@needs_slices
def test_the_service_comes_at_once_and_its_writer_interrupts_nobody(tmp_path: Path) -> None:
    settings = Settings(port=0, store=f"sqlite:///{tmp_path / 's.db'}")
    with (
        BackgroundServer(settings, write_beside=True) as server,
        http(server.url, server.admin_key) as admin,
    ):
        assert slice_ns(server._thread.native_id or 0) == SHORT_SLICE_NS
        assert admin.post("/v1/keys", json={"scopes": ["read"]}).is_success
        store: Any = server.context.service._store
        first = store._writer._process
        first.kill()
        first.wait()
        until(lambda: admin.post("/v1/keys", json={"scopes": ["read"]}).is_success)
        writer = store._writer._process.pid  # started by a thread of the service
        assert writer != first.pid
        assert slice_ns(writer) == slice_ns()
        assert os.sched_getscheduler(writer) == os.SCHED_BATCH
        assert os.getpriority(os.PRIO_PROCESS, writer) > os.getpriority(os.PRIO_PROCESS, 0)


def test_a_process_that_writes_lets_others_run_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    yields: list[None] = []
    monkeypatch.setattr(os, "sched_yield", lambda: yields.append(None))
    store = _YieldingStore(tmp_path / "s.db")
    yields.clear()
    made = [AppendDecision(decision=decision(f"d{number}")) for number in range(400)]
    store.commit(made)
    store.close()
    assert len(yields) >= 3


class Refusing:
    """A C library whose system calls are refused, as in a container that forbids them."""

    def syscall(self, *arguments: object) -> int:
        return -1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("os.uname", lambda: SimpleNamespace(machine="vax")),
        ("sys.platform", "darwin"),
        ("ctypes.CDLL", lambda name: Refusing()),
        ("ctypes.CDLL", lambda name: object()),
    ],
    ids=["another processor", "another system", "refused", "no such function"],
)
def test_where_no_slice_can_be_had_nothing_happens(
    monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    before = slice_ns()
    with monkeypatch.context() as patch:
        patch.setattr(name, value)
        assert slice_ns() is None
        ask_for_slice(SHORT_SLICE_NS)
    assert slice_ns() == before


@needs_slices
def test_a_real_time_thread_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    attributes = time_slice._Attributes(policy=1, priority=10)
    monkeypatch.setattr(time_slice, "_attributes", lambda thread: attributes)
    ask_for_slice(SHORT_SLICE_NS)
    assert attributes.runtime == 0
    assert ctypes.sizeof(attributes) == 48
