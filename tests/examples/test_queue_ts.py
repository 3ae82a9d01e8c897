"""The plug-in of examples/queue_ts: the contract, its names, and files that name it without it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from queue_ts import QueueTS
from queue_ts.evidence import EvidencePolicy

from slotwise import Selector, make_policy
from slotwise.errors import InvalidInput, UnknownName
from slotwise.policies import Policy, policy_class, policy_reference
from slotwise.problem import Problem
from slotwise.simulation import Results
from slotwise.testing import PolicyContract
from slotwise.testing.policy_play import every_problem
from tests.policies.order_of_feedback import ORDERED
from tests.policies.test_more_floors import ASKS_FOR_MORE, starts

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "examples" / "queue_ts"


class ContractWithManyDraws(PolicyContract):
    """The laws of a policy that samples; those of means over many choices run machine code."""

    @pytest.mark.compiled
    @every_problem
    def test_equal_links_are_equally_likely(self, problem: Problem) -> None:
        super().test_equal_links_are_equally_likely(problem)

    @pytest.mark.compiled
    @every_problem
    def test_links_that_look_alike_are_treated_alike(self, problem: Problem) -> None:
        super().test_links_that_look_alike_are_treated_alike(problem)


class TestQueueTS(ContractWithManyDraws):
    ordered_knowledge = ORDERED[QueueTS.name]

    def make_policy(self, problem: Problem) -> Policy:
        return QueueTS()


class TestQueueTSWithFittedPriorAndMemory(ContractWithManyDraws):
    ordered_knowledge = EvidencePolicy.per_link | ORDERED[QueueTS.name]

    def make_policy(self, problem: Problem) -> Policy:
        return QueueTS(prior="fitted", memory=150)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"horizon": 2.5}, r"^`horizon` must be a whole number, got 2.5$"),
        ({"horizon": -1}, r"^`horizon` must be at least 1, got -1$"),
        ({"memory": 1}, r"^`memory` must be at least 2, got 1$"),
        ({"memory": 2.5}, r"^`memory` must be a whole number, got 2.5$"),
        ({"prior": "flat"}, r'^`prior` must be "uniform" or "fitted", got \'flat\'$'),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        QueueTS(**settings)


@pytest.mark.parametrize("asked", ASKS_FOR_MORE)
def test_it_keeps_all_floors_and_weighs_levels(asked: str) -> None:
    assert starts("queue-ts", asked)


def test_it_is_found_by_its_module_and_where_installed_by_its_name() -> None:
    assert policy_class("queue_ts:QueueTS") is policy_class("queue-ts") is QueueTS
    assert make_policy("queue_ts:QueueTS", {"prior": "fitted"}) == QueueTS(prior="fitted")
    assert policy_reference(QueueTS()) == "queue-ts"


def test_a_saved_selector_continues(tmp_path: Path) -> None:
    selector = Selector(["a", "b", "c"], 2, policy="queue_ts:QueueTS", click_floor=0.3, seed=3)
    for _ in range(20):
        page = selector.select()
        selector.update(page, clicks=page.shown[:1], revenue={page.shown[0]: 0.5})
    selector.save(tmp_path / "it.sel")
    again = Selector.load(tmp_path / "it.sel")
    assert [again.select().shown for _ in range(20)] == [selector.select().shown for _ in range(20)]


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a program that does not find the plug-in, except in the folder of the project."""
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_experiment_next_to_it_names_it_by_its_module(tmp_path: Path) -> None:
    path = str(tmp_path / "it.parquet")
    short = ("--rounds", "50", "--runs", "1", "--out", path)
    done = run(tmp_path, "-m", "slotwise", "simulate", str(PROJECT / "mine.toml"), *short)
    assert done.returncode == 0, done.stdout + done.stderr
    assert Results.load(Path(path)).labels[0] == "queue-ts"


def test_a_file_that_names_it_says_where_it_is(tmp_path: Path) -> None:
    Selector(["a", "b"], 1, policy="queue-ts").save(tmp_path / "it.sel")
    done = run(tmp_path, "-c", "import slotwise; slotwise.Selector.load('it.sel')")
    assert done.returncode != 0
    assert (
        done.stderr.strip()
        .splitlines()[-1]
        .endswith(
            "no policy is called 'queue-ts'; it is a package of its own: "
            "install examples/queue_ts of the source"
        )
    )


def test_the_name_alone_says_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [path for path in sys.path if "plug-ins" not in path])
    with pytest.raises(UnknownName, match="a package of its own: install examples/queue_ts"):
        make_policy("queue-ts")
