"""`python -m benchmarks.leaderboard`, on one small case."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.combinations import Combination, Played, play
from benchmarks.leaderboard.__main__ import main
from benchmarks.leaderboard.board import Leaderboard
from benchmarks.leaderboard.page import BLOCK_END, BLOCK_START
from slotwise.simulation.run_blocks import PlayedBlock, RunBlock

TINY = ["--cases", "few-links", "--policies", "uniform", "--runs", "3", "--rounds", "60"]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("board")
    assert main([*TINY, "--out", str(folder)]) == 0
    return folder


def test_everything_is_written(out: Path) -> None:
    assert sorted(path.name for path in out.iterdir()) == [
        "leaderboard.csv",
        "leaderboard.html",
        "leaderboard.json",
        "leaderboard.md",
        "results",
    ]


def test_from_a_file_nothing_is_played_and_a_page_is_updated(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("played again")

    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(RunBlock, "play", refuse)
    page = tmp_path / "page.md"
    page.write_text(f"{BLOCK_START}\n{BLOCK_END}\n", encoding="utf-8")
    source = str(out / "leaderboard.json")
    command = ["--from", source, "--update", str(page), "--out", str(tmp_path)]
    assert main(command) == 0
    assert "| paced-bayes |" in page.read_text(encoding="utf-8")
    copy, original = tmp_path / "leaderboard.md", out / "leaderboard.md"
    assert copy.read_text() == original.read_text()
    printed = capsys.readouterr().out
    assert "The default, paced-bayes, case by case" in printed
    assert "note: original files were not given" in printed


def test_the_default_plays_combinations_where_asked(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def play_briefly(one: Combination, seed: int, _: int, policy: str | None) -> Played:
        return play(one, seed, 20, policy)

    monkeypatch.setattr("benchmarks.combinations.all_combinations", lambda: [Combination()])
    monkeypatch.setattr("benchmarks.combinations.play", play_briefly)
    command = ["--from", str(out / "leaderboard.json"), "--combinations", "--out", str(tmp_path)]
    assert main(command) == 0
    assert "| 1 | equal sales |" in capsys.readouterr().out
    table = json.loads((tmp_path / "combinations.json").read_text(encoding="utf-8"))
    assert [one["name"] for one in table["combinations"]] == ["equal sales"]


def test_bounds_are_added_to_a_finished_file(out: Path, tmp_path: Path) -> None:
    source = str(out / "leaderboard.json")
    command = ["--from", source, "--bounds", "--cases", "few-links", "--out", str(tmp_path)]
    assert main(command) == 0
    (before,), (after,) = (
        Leaderboard.load(folder / "leaderboard.json").cases for folder in (out, tmp_path)
    )
    assert before.bound is None
    assert after.bound is not None
    assert replace(after, bound=None) == before


def test_ctrl_c_says_what_is_kept_and_the_same_command_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    n_played, play = 0, RunBlock.play

    def play_some(block: RunBlock) -> PlayedBlock:
        nonlocal n_played
        n_played += 1
        if n_played > 6:
            raise KeyboardInterrupt
        return play(block)

    command = [*TINY, "--threads", "1", "--out", str(tmp_path)]
    with monkeypatch.context() as patched:
        patched.setattr(RunBlock, "play", play_some)
        assert main(command) == 130
    assert "stopped: 6 of 9 runs are kept; the same command continues" in capsys.readouterr().err
    assert main(command) == 0
    assert not (tmp_path / "parts").exists()


@pytest.mark.parametrize(("option", "name"), [("--runs", "n_runs"), ("--rounds", "horizon")])
def test_nothing_to_play_is_refused(
    option: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--cases", "few-links", option, "0", "--out", str(tmp_path)]
    assert main(command) == 2
    assert f"`{name}` must be at least 1, got 0" in capsys.readouterr().err


def test_an_unknown_case_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--cases", "no-such", "--out", str(tmp_path)]) == 2
    assert "no case is called 'no-such'; known: coupon-mild" in capsys.readouterr().err


def test_the_help_shows_an_example(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["--help"]) == 0
    assert "python -m benchmarks.leaderboard --quick" in capsys.readouterr().out
