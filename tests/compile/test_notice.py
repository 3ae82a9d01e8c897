"""The notice that functions are being compiled: once, late, and only about slotwise's own."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from slotwise.compile import notice as noticing
from slotwise.compile.notice import NOTICE, CompilingNotice

pytestmark = pytest.mark.compiled


class Clock:
    now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(noticing, "time", clock)
    return clock


def compiling_of(module: str) -> Any:
    function = SimpleNamespace(__module__=module)
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=function)})


OURS = compiling_of("slotwise.policies.paced_bayes")


class Timer:
    """A timer that fires when the clock is told to."""

    daemon = False
    started: ClassVar[list[Timer]] = []

    def __init__(self, seconds: float, act: Callable[[], None]) -> None:
        self.seconds, self.act = seconds, act

    def start(self) -> None:
        self.started.append(self)

    def cancel(self) -> None:
        if self in self.started:
            self.started.remove(self)


def test_a_timer_announces_one_long_function(clock: Clock) -> None:
    said = io.StringIO()
    notice = CompilingNotice(said, Timer)
    compile_for(notice, clock, 0.5)
    assert Timer.started == []
    notice.on_start(OURS)
    [timer] = Timer.started
    assert timer.seconds == 1.5  # of two seconds in all
    timer.act()
    assert said.getvalue() == f"{NOTICE}\n"
    notice.on_end(OURS)
    compile_for(notice, clock, 60.0)
    assert said.getvalue() == f"{NOTICE}\n"


def compile_for(notice: CompilingNotice, clock: Clock, seconds: float, what: Any = OURS) -> None:
    notice.on_start(what)
    clock.now += seconds
    notice.on_end(what)


def test_it_is_said_once_and_only_when_it_takes_long(clock: Clock) -> None:
    said = io.StringIO()
    notice = CompilingNotice(said, Timer)
    for _ in range(4):
        compile_for(notice, clock, 0.5)
        clock.now += 100.0  # the program itself
    assert said.getvalue() == ""
    for _ in range(5):
        compile_for(notice, clock, 0.5)
    assert said.getvalue() == f"{NOTICE}\n"


def test_functions_inside_others_count_once(clock: Clock) -> None:
    said = io.StringIO()
    notice = CompilingNotice(said, Timer)
    notice.on_start(OURS)
    compile_for(notice, clock, 1.9)
    notice.on_end(OURS)
    assert said.getvalue() == ""
    notice.on_start(OURS)
    clock.now += 0.2
    compile_for(notice, clock, 0.0)
    notice.on_end(OURS)
    assert said.getvalue() == f"{NOTICE}\n"


def test_a_program_of_somebody_else_is_not_announced(clock: Clock) -> None:
    said = io.StringIO()
    compile_for(CompilingNotice(said, Timer), clock, 60.0, compiling_of("mine"))
    silent = CompilingNotice(said, Timer)
    silent.is_wanted = False
    compile_for(silent, clock, 60.0)
    assert said.getvalue() == ""


def test_a_closed_stream_is_no_problem(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (closed, None):
        monkeypatch.setattr(sys, "stderr", stream)
        notice = CompilingNotice(None, Timer)
        compile_for(notice, clock, 60.0)
        assert not notice.is_wanted
    assert capsys.readouterr().out == ""


def test_numba_tells_the_notice(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("""
from slotwise.compile import compiled_first, hot
from slotwise.compile import notice
notice.MIN_SECONDS = 0.0
def mine(x): return x + 1
mine.__module__ = "slotwise.mine"
compiled_first(hot(mine))(1)
""")
    fresh = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=True, env=fresh
    )
    assert (done.stderr, done.stdout) == (f"{NOTICE}\n", "")
