"""Several experiments in one queue: nothing is played twice, and no core waits at their ends."""

from __future__ import annotations

import importlib
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from slotwise.environments import BernoulliLinks, LateFeedback
from slotwise.policies import CUCB, ConUCB, Policy, Uniform
from slotwise.problem import Problem
from slotwise.simulation import Experiment, Planned, Results, run_experiment, run_series
from slotwise.simulation.run_blocks import PlayedBlock, RunBlock
from slotwise.simulation.series import finished_results
from tests.simulation.test_run import assert_same
from tests.simulation.worlds import FLOOR, LINKS, N_LINKS, N_SLOTS


def planned(
    folder: Path, title: str, policies: dict[str, Policy], n_runs: int = 2, floor: float = FLOOR
) -> Planned:
    problem = Problem(N_LINKS, N_SLOTS, floor, horizon=100)
    experiment = Experiment(LINKS, problem, policies, n_runs, seed=3, title=title)
    return Planned(experiment, folder / f"{title}.parquet")


@pytest.fixture
def plan(tmp_path: Path) -> list[Planned]:
    return [
        planned(tmp_path, "first", {"cucb": CUCB(), "uniform": Uniform()}),
        planned(tmp_path, "second", {"con": ConUCB(), "same": CUCB()}, n_runs=3),
        planned(tmp_path, "third", {"cucb": CUCB()}, floor=0.5),
    ]


def test_results_are_those_of_each_alone_and_common_runs_are_played_once(
    plan: list[Planned], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = [run_experiment(one.experiment, n_threads=1) for one in plan]
    played: list[tuple[str, tuple[int, ...]]] = []
    play = RunBlock.play

    def noted(block: RunBlock) -> PlayedBlock:
        played.append((block.label, block.runs))
        return play(block)

    monkeypatch.setattr(RunBlock, "play", noted)
    together = run_series(plan, tmp_path / "parts", n_threads=2)
    for apart, found in zip(alone, together, strict=True):
        assert_same(apart, found)
    # of the second experiment, two runs of CUCB are those of the first
    assert len(played) == 4 + 4 + 2
    assert sorted(runs for label, runs in played if label == "same") == [(2,)]
    assert not (tmp_path / "parts").exists()
    for one, results in zip(plan, together, strict=True):
        assert_same(Results.load(one.path), results)


def test_an_experiment_starts_before_the_last_run_of_the_one_before_it_ends(
    plan: list[Planned], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last run of the first experiment waits for a run of the second: a barrier would hang."""
    has_started = threading.Event()
    play = RunBlock.play

    def waiting(block: RunBlock) -> PlayedBlock:
        if block.label == "con":
            has_started.set()
        if block.label == "uniform" and block.runs == (1,):
            assert has_started.wait(60)
        return play(block)

    monkeypatch.setattr(RunBlock, "play", waiting)
    assert len(run_series(plan, tmp_path / "parts", n_threads=2)) == 3


def test_results_are_handed_on_while_others_are_still_to_be_played(
    plan: list[Planned], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third experiment waits until the results of the first are handed on."""
    is_told = threading.Event()
    told: list[str] = []
    play = RunBlock.play

    def finished(results: Results) -> None:
        title = results.config["experiment"]
        told.append(title)
        assert Results.load(tmp_path / f"{title}.parquet").n_runs == results.n_runs
        is_told.set()

    def waiting(block: RunBlock) -> PlayedBlock:
        if block.problem.click_floor == 0.5:
            assert is_told.wait(60)
        return play(block)

    monkeypatch.setattr(RunBlock, "play", waiting)
    run_series(plan, tmp_path / "parts", n_threads=2, finished=finished)
    assert sorted(told) == ["first", "second", "third"]
    run_series(plan, tmp_path / "parts", n_threads=2, finished=finished)
    assert len(told) == 3  # those found in files are not run again


def test_records_of_a_finished_experiment_are_given_up(
    plan: list[Planned], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A paper has thousands of runs: those of finished experiments must not fill the memory."""
    records: list[weakref.ref[object]] = []
    n_alive: dict[str, int] = {}
    play = RunBlock.play

    def noted(block: RunBlock) -> PlayedBlock:
        played = play(block)
        if block.label == "uniform":  # in the first experiment alone
            records.extend(weakref.ref(record) for record in played.records)
        return played

    def finished(results: Results) -> None:
        alive = sum(record() is not None for record in records)
        n_alive[results.config["experiment"]] = alive

    monkeypatch.setattr(RunBlock, "play", noted)
    run_series(plan, tmp_path / "parts", n_threads=1, finished=finished)
    assert len(records) == 2
    assert n_alive["third"] == 0


def test_progress_names_the_experiments_in_order_and_never_falls(
    plan: list[Planned], tmp_path: Path
) -> None:
    told: list[tuple[float, str]] = []
    run_series(plan, tmp_path / "parts", n_threads=2, progress=lambda *what: told.append(what))
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    names = list(dict.fromkeys(name for _, name in told))
    assert names == [one.experiment.title for one in plan if one.experiment.title in names]
    assert names[0] == "first"


@pytest.mark.parametrize("n_threads", [1, 2])
def test_after_an_interruption_only_what_is_missing_is_played(
    plan: list[Planned], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_threads: int
) -> None:
    class Stop(KeyboardInterrupt):
        pass

    def stop(results: Results) -> None:
        raise Stop

    parts = tmp_path / "parts"
    with pytest.raises(Stop):
        run_series(plan, parts, n_threads=n_threads, finished=stop)
    n_kept = len(list(parts.rglob("*.npy")))
    n_played, play = 0, RunBlock.play

    def counted(block: RunBlock) -> PlayedBlock:
        nonlocal n_played
        n_played += 1
        return play(block)

    monkeypatch.setattr(RunBlock, "play", counted)
    results = run_series(plan, parts, n_threads=1)
    assert n_played == 10 - n_kept < 10
    for one, found in zip(plan, results, strict=True):
        assert_same(found, run_experiment(one.experiment, n_threads=1))


OWN = """
import helper_of_own
from slotwise.environments import BernoulliLinks
from slotwise.policies import Uniform

class Own(Uniform):
    name = "own"

class OwnLinks(BernoulliLinks):
    pass
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a module with a policy and an environment; it uses a helper in another file."""
    (tmp_path / "own_of_user.py").write_text(OWN)
    (tmp_path / "helper_of_own.py").write_text("FACTOR = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("own_of_user")
    del sys.modules["own_of_user"], sys.modules["helper_of_own"]


@pytest.mark.parametrize("edited", ["own_of_user.py", "helper_of_own.py"])
@pytest.mark.parametrize("part", ["policy", "environment", "environment inside"])
def test_results_of_edited_code_are_not_used(
    own: Any, tmp_path: Path, edited: str, part: str
) -> None:
    links: Any = (own.OwnLinks if "environment" in part else BernoulliLinks)([0.3, 0.2], [0.1, 0.5])
    if part == "environment inside":
        links = LateFeedback(links, 1, 2)
    policy = own.Own() if part == "policy" else Uniform()
    problem = Problem(2, 1, horizon=10)

    def own_plan() -> Planned:
        experiment = Experiment(links, problem, {"own": policy}, n_runs=1, seed=1)
        return Planned(experiment, tmp_path / "own.parquet")

    run_series([own_plan()], tmp_path / "parts")
    assert finished_results(own_plan()) is not None
    with (tmp_path / edited).open("a") as file:
        file.write("# a comment may change nothing, but a file says no more\n")
    assert finished_results(own_plan()) is None


def test_results_of_code_without_a_file_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a notebook, where a class may have been written again."""
    kind = type("Own", (Uniform,), {"name": "own", "__module__": "notebook_without_a_file"})
    monkeypatch.setitem(sys.modules, "notebook_without_a_file", ModuleType("notebook"))
    links = BernoulliLinks([0.3, 0.2], [0.1, 0.5])

    def own_plan() -> Planned:
        problem = Problem(2, 1, horizon=10)
        experiment = Experiment(links, problem, {"own": kind()}, n_runs=1, seed=1)
        return Planned(experiment, tmp_path / "own.parquet")

    first = own_plan()
    run_series([first], tmp_path / "parts")
    assert finished_results(first) is not None
    assert finished_results(own_plan()) is None
