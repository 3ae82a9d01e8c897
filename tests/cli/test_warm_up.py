"""`slotwise warm-up` leaves nothing to compile for the first page."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slotwise.cli.main import main
from slotwise.cli.warm_up import play_policy
from slotwise.policies import POLICIES

FIRST_PAGE = """
from numba.core import event
import slotwise
from slotwise.cli.warm_up import serve_pool
from slotwise.service.records import PoolSettings
from slotwise.environments import SegmentLinks
FEATURES = {"device": ("phone", "desktop"), "days": (1, 7), "country": str}
with event.install_recorder("numba:compile") as recorder:
    for more in ({}, {"features": FEATURES}, {"features": FEATURES, "slot_weights": "learn"}):
        selector = slotwise.Selector(list("abcde"), 2, policy=POLICY, click_floor=0.2, **more)
        page = selector.select(visitor={"device": "phone"} if more else None)
        selector.update(page, clicks=[page.shown[0]], revenue={})
        selector.report()
    pool = PoolSettings("a", 3, 0.2, 1000, "EUR", 1, 1, POLICY)
    declared = {"days": [1, 7], "country": "text"}
    for features in ({}, declared):
        serve_pool(pool, features, learns_slots=bool(features))
    kinds = SegmentLinks([[0.5] * 5] * 3, [[0.5] * 5] * 3, [0.2, 0.3, 0.5])
    slotwise.simulate(kinds, {"p": slotwise.make_policy(POLICY)}, 2, 0.1, n_rounds=5, n_runs=1)
found = [e.data["dispatcher"] for _, e in recorder.buffer if e.is_start]
print([one.py_func.__qualname__ for one in found if type(one._cache).__name__ != "NullCache"])
"""


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["uniform", "paced-bayes"])
def test_the_first_page_compiles_nothing(policy: str, tmp_path: Path) -> None:
    """On an empty cache, with visitors and slots; loops that cannot be kept are left out."""
    fresh = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    fresh.pop("NUMBA_CACHE_LOCATOR_CLASSES", None)

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command], env=fresh, capture_output=True, text=True, check=True
        )

    warmed = run("-m", "slotwise", "warm-up", policy)
    assert "1 policy compiled in" in warmed.stdout
    assert str(tmp_path) in warmed.stdout
    assert "slotwise: compiling" not in warmed.stderr
    assert run("-c", FIRST_PAGE.replace("POLICY", repr(policy))).stdout == "[]\n"


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_can_be_warmed_up(policy: str) -> None:
    """Also policies that do not start without a horizon; interpreted here, since it is faster."""
    shares = list(play_policy(policy))
    assert shares == sorted(shares)


def test_an_unknown_policy_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warm-up", "paced-lk"]) == 2
    assert "did you mean 'paced-bayes'?" in capsys.readouterr().err


def test_commands_of_the_service_need_its_packages_only() -> None:
    """`pip install slotwise[service]` installs neither matplotlib nor polars nor scipy."""
    hide = "import sys; sys.modules.update(dict.fromkeys(('matplotlib', 'polars', 'scipy')))"
    modules = ("warm_up", "serving", "store_upkeep", "needed_traffic")
    program = "; ".join([hide, *(f"import slotwise.cli.{module}" for module in modules)])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
