"""The same text runs compiled and interpreted, and both give the same answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.policies.transcript import transcript

pytestmark = pytest.mark.compiled

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def compiled() -> dict[str, Any]:
    return transcript()


@pytest.fixture(scope="module")
def interpreted() -> dict[str, Any]:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.policies.transcript"],
        cwd=ROOT,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": paths},
        check=False,
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    printed: dict[str, Any] = json.loads(finished.stdout)
    return printed


def test_one_ran_compiled_and_the_other_did_not(
    compiled: dict[str, Any], interpreted: dict[str, Any]
) -> None:
    assert compiled["compiled"]
    assert not interpreted["compiled"]


def test_policies_show_the_same_pages_and_know_the_same(
    compiled: dict[str, Any], interpreted: dict[str, Any]
) -> None:
    assert compiled["games"].keys() == interpreted["games"].keys()
    for name, game in compiled["games"].items():
        other = interpreted["games"][name]
        assert game["pages"] == other["pages"], name
        for part, numbers in game["numbers"].items():
            assert other["numbers"][part] == numbers, f"{name}: {part}"


def test_capped_links_are_counted_the_same(
    compiled: dict[str, Any], interpreted: dict[str, Any]
) -> None:
    assert interpreted["capped mix"] == pytest.approx(compiled["capped mix"], abs=1e-12)


@pytest.mark.parametrize("way", ["solve", "WarmProgram"])
def test_programs_have_the_same_answers(
    way: str, compiled: dict[str, Any], interpreted: dict[str, Any]
) -> None:
    ours, theirs = compiled["programs"][way], interpreted["programs"][way]
    assert len(ours) == len(theirs) > 50
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-9)
