"""The log of a program that ends without `close_log`."""

import gc
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

from slotwise import Selector
from slotwise.errors import MissingData
from slotwise.evaluation import LinkMix, evaluate

PROGRAM = """
import os, sys
from slotwise import Selector

selector = Selector(["a", "b", "c"], n_slots=2, explore=0.5, seed=1)
selector.log_to("log")
for _ in range(40):
    selector.update(selector.select(), clicks=[], revenue={})
if child := os.fork():
    os.waitpid(child, 0)
    assert not list(os.scandir("log")), "the child has written the log"
sys.exit()
"""

UNIFORM = LinkMix.of({"a": 1.0, "b": 1.0})


def test_the_end_of_a_program_writes_its_log_once(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert evaluate(tmp_path / "log", UNIFORM).n_pages == 40
    assert len(list((tmp_path / "log").iterdir())) == 1


def test_the_end_of_a_selector_writes_its_log(tmp_path: Path) -> None:
    selector = Selector(["a", "b", "c"], n_slots=2, explore=0.5, seed=1)
    selector.log_to(tmp_path / "log")
    selector.update(selector.select(), clicks=[], revenue={})
    ended = weakref.ref(selector)
    del selector
    gc.collect()
    assert ended() is None
    assert evaluate(tmp_path / "log", UNIFORM).n_pages == 1


def test_an_empty_folder_says_how_a_log_gets_its_files(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match=r"got none; .*`close_log` writes"):
        evaluate(tmp_path, UNIFORM)
