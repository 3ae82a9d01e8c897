"""Machine code on disk is used while its sources are the same, and never after an edit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import slotwise
from slotwise.compile import cache
from slotwise.compile.cache import (
    TOUCH_AFTER_S,
    code_file,
    note_use,
    only_maker,
    remove_unused,
    write_whole,
)
from slotwise.policies import con_ucb, cucb
from slotwise.selection.rounding import draw_page
from slotwise.simulation.engine import _page_of, playing

pytestmark = pytest.mark.compiled

PACKAGE = Path(slotwise.__file__).parent

HELPER = (
    "from slotwise.compile import hot\n\n@hot\ndef helper(number):\n    return number + {added}\n"
)
POLICY = """
from slotwise.compile import hot
from of_user.helping import helper

@hot
def twice(number):
    return 2 * helper(number)
"""
PROGRAM = """
from slotwise.compile import code_for, switch
from of_user.policy import twice
code = code_for(twice, 1)
is_stored = code._is_stored()
code.compile()
print(is_stored, code.call(1))
"""


def outcome(program: str, folder: Path, *path: Path) -> list[str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, path))
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout.split()


def test_an_edited_helper_of_a_user_is_compiled_again(tmp_path: Path) -> None:
    """Code in a folder that can only be read is used: an image with a read-only file system.

    Root can write to any folder.
    """
    read_only = f"import os\nos.access = lambda *_: False\n{PROGRAM}"
    user = tmp_path / "of_user"
    user.mkdir()
    (user / "__init__.py").touch()
    (user / "policy.py").write_text(POLICY)
    (user / "helping.py").write_text(HELPER.format(added=1))
    path = (PACKAGE.parent, tmp_path)
    assert outcome(PROGRAM, tmp_path, *path) == ["False", "4"]
    assert outcome(read_only, tmp_path, *path) == ["True", "4"]
    (user / "helping.py").write_text(HELPER.format(added=2))
    assert outcome(PROGRAM, tmp_path, *path) == ["False", "6"]


ARRAYS = """
import numpy as np
from numba.core import event
from slotwise.compile import compiled_first
from slotwise.selection.passes import total_of

class Compiled(event.Listener):
    count = 0
    def on_start(self, happened):
        self.count += 1
    def on_end(self, happened):
        pass

compiled = Compiled()
event.register("numba:compile", compiled)
numbers = np.arange(5.0)
fixed = numbers.copy()
fixed.flags.writeable = False
print(compiled_first(total_of)(fixed), compiled_first(total_of)(numbers), compiled.count > 0)
"""


def test_code_for_arrays_that_cannot_be_written_is_stored_next_to_the_other(tmp_path: Path) -> None:
    assert outcome(ARRAYS, tmp_path, PACKAGE.parent) == ["10.0", "10.0", "True"]
    assert outcome(ARRAYS, tmp_path, PACKAGE.parent) == ["10.0", "10.0", "False"]


OF_MAIN_FILE = """
from typing import NamedTuple
from slotwise.compile import code_for, hot
from slotwise.policies.policy import rank_alike
import numpy as np

class State(NamedTuple):
    numbers: np.ndarray

@hot
def rank(state, links, worth):
    rank_alike(state, links, worth)

arguments = State(np.zeros(2)), np.zeros(1, np.int64), np.ones(1)
code = code_for(rank, *arguments)
code.compile()
code.call(*arguments)
print("ranked")
"""


def test_a_class_of_the_main_file_may_be_used_by_the_next_process_too(tmp_path: Path) -> None:
    """Its class is another one there, so stored code is not for it: it was used, and failed."""
    for _ in range(2):
        assert outcome(OF_MAIN_FILE, tmp_path, PACKAGE.parent) == ["ranked"]


OWN = """
from slotwise.compile import code_for
from slotwise.policies.policy import add_counts
from slotwise.selection.mix import INTEGRAL
from slotwise.selection.page_order import share_in_random_order, new_page_order
from slotwise.problem import Problem
order = new_page_order(Problem(n_links=5, n_slots=2, slot_weights="learn"))
order.clicks[:] = 1e12
code = code_for(share_in_random_order, order)
is_stored = code._is_stored()
code.compile()
print(is_stored, code.call(order))
"""


def test_an_edit_of_slotwise_is_compiled_again_and_a_docstring_or_another_file_is_not(
    tmp_path: Path,
) -> None:
    """Another policy, a class of errors, text: an hour of compiling for nothing."""
    copy = tmp_path / "slotwise"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    first = outcome(OWN, tmp_path, tmp_path)
    assert first[0] == "False"
    for name in ("policies/cucb.py", "errors.py", "selection/top_page.py"):
        source = copy / name
        source.write_text(source.read_text() + "\nEDITED = True\n")
    source = copy / "selection" / "page_order.py"
    text = source.read_text()
    source.write_text(text.replace('"""', '"""Edited. ').replace("Edited. \n", "\n"))
    assert source.read_text().count("Edited.") > 5
    assert outcome(OWN, tmp_path, tmp_path) == ["True", first[1]]
    text = source.read_text()
    assert "LEAST_SHARE = " in text
    lines = [
        "LEAST_SHARE = 0.625" if x.startswith("LEAST_SHARE =") else x for x in text.split("\n")
    ]
    source.write_text("\n".join(lines))
    assert outcome(OWN, tmp_path, tmp_path) == ["False", "0.625"]


def test_a_function_with_a_value_of_this_process_is_not_stored() -> None:
    held = object()

    def same(number: int) -> object:
        return held if number else None

    assert code_file(same, "entry", "[]") is None
    assert code_file(draw_page, "entry", "[]") is not None


def test_files_and_folders_unused_for_weeks_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "machine-code-numba2-py312"
    old, other = tmp_path / "machine-code-numba1-py311", tmp_path / "other"
    for one in (folder, old, other):
        one.mkdir()
    unused, used = folder / "a.code", folder / "b.code"
    for one in (unused, used):
        one.touch()
    long_ago = time.time() - 40 * 24 * 3600
    for one in (old, other, unused, used):
        os.utime(one, (long_ago, long_ago))
    note_use(used)
    remove_unused(folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == [folder.name, other.name]
    assert list(folder.iterdir()) == [used]


def test_the_use_of_a_file_is_noted_once_a_day(tmp_path: Path) -> None:
    file = tmp_path / "a.code"
    file.touch()
    recent = time.time() - TOUCH_AFTER_S / 2
    os.utime(file, (recent, recent))
    note_use(file)
    assert file.stat().st_mtime == pytest.approx(recent, abs=1.0)
    note_use(tmp_path / "missing.code")


def test_a_file_appears_whole(tmp_path: Path) -> None:
    file = tmp_path / "some.code"
    for content in (b"one", b"another"):
        write_whole(file, content)
        assert file.read_bytes() == content
    assert list(tmp_path.iterdir()) == [file]


def test_processes_that_start_together_make_a_file_once(tmp_path: Path) -> None:
    """Four workers that need the same function would each compile it, for minutes."""
    file, seen = tmp_path / "some.code", []

    def make_too() -> None:
        with only_maker(file):
            seen.append(file.exists())

    other = threading.Thread(target=make_too)
    with only_maker(file):
        other.start()
        other.join(0.2)
        assert not seen
        file.touch()
    other.join()
    assert seen == [True]
    assert list(tmp_path.iterdir()) == [file]


def test_nobody_waits_where_files_cannot_be_locked(tmp_path: Path) -> None:
    for file in (None, tmp_path / "missing" / "some.code"):
        with only_maker(file), only_maker(file):
            pass


def test_without_a_folder_nothing_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    occupied = tmp_path / "file"
    occupied.touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(occupied))
    assert cache.cache_folder.__wrapped__() is None


def test_loops_that_differ_in_a_part_of_a_part_have_files_of_their_own() -> None:
    """A policy that changes `choose` alone would otherwise play as the one it is made from."""
    rest = (cucb.learn, cucb.choose, cucb.choose, cucb.choose, cucb.choose)
    files = {
        code_file(playing(_page_of(choose, cucb.choose), *rest), "entry", "[]")
        for choose in (cucb.choose, con_ucb.choose)
    }
    assert len(files) == 2
