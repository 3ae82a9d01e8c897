"""`slotwise warm-up` leaves nothing to compile for the first page."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slotwise.cli.main import main

FIRST_PAGE = """
from numba.core import event
import slotwise
with event.install_recorder("numba:compile") as recorder:
    selector = slotwise.Selector(list("abcde"), 2, policy="uniform", click_floor=0.2)
    page = selector.select()
    selector.update(page, clicks=[page.shown[0]], revenue={})
    selector.report()
ours = [e.data["dispatcher"].py_func.__qualname__ for _, e in recorder.buffer if e.is_start]
print(ours)
"""


@pytest.mark.slow
def test_the_first_page_compiles_nothing(tmp_path: Path) -> None:
    """On an empty cache: `uniform` is the policy with the least to compile."""
    fresh = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    fresh.pop("NUMBA_CACHE_LOCATOR_CLASSES", None)

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command], env=fresh, capture_output=True, text=True, check=True
        )

    warmed = run("-m", "slotwise", "warm-up", "uniform")
    assert "1 policies ready" in warmed.stdout
    assert str(tmp_path) in warmed.stdout
    assert "slotwise: compiling" not in warmed.stderr
    assert run("-c", FIRST_PAGE).stdout == "[]\n"


def test_an_unknown_policy_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warm-up", "paced-lk"]) == 2
    assert "did you mean 'paced-kl'?" in capsys.readouterr().err
