"""Compiled and interpreted, a selector does the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slotwise.policies import POLICIES
from tests.selector.scenario import play_a_day

pytestmark = pytest.mark.compiled

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return a day of every policy, played in a process that compiles nothing."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    outcome = subprocess.run(
        [sys.executable, "-m", "tests.selector.scenario", tmp_path_factory.mktemp("interpreted")],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path},
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(outcome.stdout)  # type: ignore[no-any-return]


@pytest.mark.parametrize("policy", POLICIES)
def test_compiled_and_interpreted_agree(
    policy: str, interpreted: dict[str, Any], tmp_path: Path
) -> None:
    compiled = play_a_day(policy, tmp_path)
    assert [page[0] for page in compiled["pages"]] == [
        page[0] for page in interpreted[policy]["pages"]
    ]
    assert json.loads(json.dumps(compiled)) == interpreted[policy]
