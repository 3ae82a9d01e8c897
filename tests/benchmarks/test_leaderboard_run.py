"""Playing the suite: files, resuming, refusals and the JSON of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.leaderboard.board import Leaderboard, write_table
from benchmarks.leaderboard.cases import Effort
from benchmarks.leaderboard.run import PlannedCase, pick_entrants, plan_leaderboard, run_leaderboard
from benchmarks.leaderboard.suite import build_suite, pick_cases
from slotwise.errors import InvalidInput, MissingData, UnsupportedState
from slotwise.policies import Policy, Uniform
from slotwise.problem import Problem
from slotwise.simulation import Results
from slotwise.simulation.run_blocks import RunBlock
from tests.benchmarks.boards import Fared, make_board, make_case

EFFORT = Effort(n_rounds=80, n_runs=3)


def plan_few(out: Path, extra: dict[str, Policy] | None = None) -> list[PlannedCase]:
    suite = pick_cases(build_suite(), ["few-links"])
    return plan_leaderboard(suite, pick_entrants(["uniform"]) | (extra or {}), EFFORT, out)


def test_a_case_is_played_measured_and_filed(tmp_path: Path) -> None:
    shares: list[float] = []
    plan = plan_few(tmp_path)
    board = run_leaderboard(
        plan, tmp_path / "parts", n_threads=1, progress=lambda share, _: shares.append(share)
    )
    (case,) = board.cases
    assert {one.label for one in case.standings} == {"paced-bayes", "uniform"}
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    results = Results.load(tmp_path / "results" / "few-links.parquet")
    assert results.labels == ("paced-bayes", "uniform", "oracle")
    uniform = case.find("uniform")
    assert uniform is not None
    assert uniform.measures["regret"].mean == pytest.approx(
        results.final("uniform", "regret").mean()
    )
    assert uniform.measures["microseconds"].mean > 0
    assert not (tmp_path / "parts").exists()


def test_a_second_time_nothing_is_played_and_the_same_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("played again")

    first = run_leaderboard(plan_few(tmp_path), tmp_path / "parts", n_threads=1)
    monkeypatch.setattr(RunBlock, "play", refuse)
    again = run_leaderboard(plan_few(tmp_path), tmp_path / "parts", n_threads=1)
    assert again.cases == first.cases


def test_a_policy_that_refuses_a_case_is_left_out_and_quoted(tmp_path: Path) -> None:
    class Picky(Uniform):
        def start(self, problem: Problem) -> object:  # type: ignore[override]
            raise InvalidInput.of("n_links", "more than five for picky", problem.n_links)

    plan = plan_few(tmp_path, {"picky": Picky()})
    assert plan[0].refused == {"picky": "`n_links` must be more than five for picky, got 5"}
    assert "picky" not in plan[0].planned.experiment.policies


def test_a_board_survives_its_file(tmp_path: Path) -> None:
    board = make_board(
        make_case("one", {"paced-bayes": Fared(900.0, 0.0)}, refused={"x": "it will not"})
    )
    path = tmp_path / "board.json"
    board.save(path)
    loaded = Leaderboard.load(path)
    assert loaded.cases[0].refused == {"x": "it will not"}
    for name, measure in board.cases[0].standings[0].measures.items():
        kept = loaded.cases[0].standings[0].measures[name]
        assert kept.low == pytest.approx(measure.low, rel=1e-5)
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()
    assert Leaderboard.load(tmp_path / "again.json") == loaded


def test_files_that_are_no_leaderboard_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "board.json"
    with pytest.raises(MissingData, match=r"no leaderboard .*; `python -m benchmarks.leaderboard`"):
        Leaderboard.load(path)
    path.write_text("[1", encoding="utf-8")
    with pytest.raises(UnsupportedState, match="cannot be read as a leaderboard"):
        Leaderboard.load(path)
    path.write_text(json.dumps({"format": 99}), encoding="utf-8")
    with pytest.raises(
        UnsupportedState, match=r"^\S+board.json has the format of another slotwise version"
    ):
        Leaderboard.load(path)


def test_the_table_has_a_row_for_each_case_and_policy(tmp_path: Path) -> None:
    import polars as pl

    policies = {"paced-bayes": Fared(900.0, 0.0), "x": Fared(1_000.0, 0.0)}
    write_table(make_board(make_case("one", policies)), tmp_path / "board.csv")
    rows = pl.read_csv(tmp_path / "board.csv").to_dicts()
    assert [(row["case"], row["policy"], row["rank"]) for row in rows] == [
        ("one", "paced-bayes", 1),
        ("one", "x", 2),
    ]
    assert rows[0]["regret_low"] < rows[0]["regret"] == pytest.approx(900.0)
