"""Loops made of functions are compiled once, and kept while the sources are the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import slotwise
from slotwise.compile.decorators import hot, is_compiled
from slotwise.compile.loops import kept_loop

PROGRAM = """
import sys
from numba.core import event
from slotwise.compile.decorators import hot
from slotwise.compile.loops import kept_loop

class Listener(event.Listener):
    def on_start(self, happened):
        compiled.append(happened.data["dispatcher"].py_func.__name__)
    def on_end(self, happened):
        pass

compiled = []
event.register("numba:compile", Listener())
digest, module = sys.argv[1:]
sys.modules["slotwise.of_a_test"] = sys.modules["__main__"]  # code on disk names its module

def repeated(step):
    def loop(number, times):
        for _ in range(times):
            number = step(number)
        return number
    loop.__module__ = "slotwise.of_a_test"
    return loop

def twice(number):
    return 2.0 * number

def thrice(number):
    return 3.0 * number

loop_of = kept_loop(repeated, lambda: digest)
for step in (twice, thrice):
    step.__module__ = module
    print(loop_of(hot(step))(1.0, 5))
print(compiled.count("loop"))
"""


def outcome(folder: Path, digest: str, module: str) -> list[str]:
    """Run the program in a process of its own; return what it printed."""
    program = folder / "program.py"
    if not program.exists():
        program.write_text(PROGRAM)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "NUMBA_DISABLE_JIT": "0"}
    environment.pop("NUMBA_CACHE_LOCATOR_CLASSES", None)
    environment["PYTHONPATH"] = str(Path(slotwise.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, str(program), digest, module],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.split()


def test_a_loop_is_read_from_disk_while_the_sources_are_the_same(tmp_path: Path) -> None:
    ours = "slotwise.of_a_test"
    assert outcome(tmp_path, "old", ours) == ["32.0", "243.0", "2"]
    assert outcome(tmp_path, "old", ours) == ["32.0", "243.0", "0"]
    assert outcome(tmp_path, "new", ours) == ["32.0", "243.0", "2"]
    assert outcome(tmp_path, "new", ours) == ["32.0", "243.0", "0"]


def test_a_loop_over_functions_of_others_is_not_kept(tmp_path: Path) -> None:
    for _ in range(2):
        assert outcome(tmp_path, "same", "of_user") == ["32.0", "243.0", "2"]


def counting(step: Any) -> Any:
    def loop(times: int) -> int:
        number = 0
        for _ in range(times):
            number = step(number)
        return number

    return loop


def add_one(number: int) -> int:
    return number + 1


def test_a_loop_over_a_plain_function_is_interpreted() -> None:
    loop = kept_loop(counting, lambda: "")(add_one)
    assert not is_compiled(loop)
    assert loop(7) == 7


def test_the_same_functions_give_the_same_loop() -> None:
    loop_of, step = kept_loop(counting, lambda: ""), hot(add_one)
    assert loop_of(step) is loop_of(step)
    assert loop_of(step)(7) == 7


@pytest.mark.skipif(not is_compiled(hot(add_one)), reason="nothing is compiled")
def test_functions_of_one_name_are_told_apart() -> None:
    def made(amount: int) -> Any:
        def step(number: int) -> int:
            return number + amount

        return hot(step)

    loop_of = kept_loop(counting, lambda: "")
    assert [loop_of(made(amount))(7) for amount in (1, 2)] == [7, 14]
