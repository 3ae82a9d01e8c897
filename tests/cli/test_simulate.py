"""`slotwise simulate`, from the command line to the results file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.cli.main import main
from slotwise.simulation import Results
from slotwise.simulation.run_blocks import PlayedBlock, RunBlock

EXPERIMENT = """
title = "Mine"
dataset = "coupon-like"
n_rounds = 80
n_runs = 3

[[policies]]
name = "cucb"

[[policies]]
name = "oracle"
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(EXPERIMENT)
    return tmp_path / "mine.toml"


def test_a_file_becomes_results_beside_the_shell(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "mine.toml"]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[-1] == "mine.parquet"
    assert "Mine" in [line.strip() for line in printed.splitlines()]
    assert "Look-alike of Coupon-Purchase (h = 4)" in printed
    results = Results.load("mine.parquet")
    assert results.labels == ("cucb", "oracle")
    assert (results.n_runs, results.n_rounds) == (3, 80)
    assert sorted(path.name for path in mine.parent.iterdir()) == ["mine.parquet", "mine.toml"]


@pytest.mark.compiled
def test_a_policy_in_plain_python_is_noted_in_one_line(mine: Path) -> None:
    own = "from slotwise.policies import Uniform\nclass Own(Uniform):\n    name = 'own'\n"
    own += "    choose = staticmethod(lambda *all: Uniform.choose(*all))\n"
    (mine.parent / "own_file.py").write_text(own)
    mine.write_text(EXPERIMENT.replace("cucb", "own_file:Own"))
    command = [sys.executable, "-m", "slotwise", "simulate", "mine.toml", "--runs", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=mine.parent)
    first, *others = done.stderr.splitlines()
    assert first.startswith("slotwise: own runs as plain Python, about a hundred times")
    assert others == ["  0% Mine: compiling"]


def test_options_replace_keys_of_the_file(mine: Path) -> None:
    options = ["--runs", "2", "--rounds", "50", "--seed", "9", "--threads", "1"]
    assert main(["simulate", "mine.toml", *options, "--out", "new/other.parquet"]) == 0
    results = Results.load("new/other.parquet")
    assert (results.n_runs, results.n_rounds, results.config["seed"]) == (2, 50, 9)


def test_a_shipped_experiment_runs_by_its_name(mine: Path) -> None:
    assert main(["simulate", "figure-1-coupon", "--runs", "1", "--rounds", "20"]) == 0
    assert Results.load("figure-1-coupon.parquet").n_rounds == 20


def test_finished_results_are_not_run_again(
    mine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "mine.toml"]) == 0
    assert "already finished" not in capsys.readouterr().err
    written = Path("mine.parquet").stat().st_mtime_ns

    def refuse(*_: object) -> None:
        raise AssertionError("played again")

    monkeypatch.setattr(RunBlock, "play", refuse)
    assert main(["simulate", "mine.toml"]) == 0
    assert "already finished, nothing was run: mine.parquet\n" in capsys.readouterr().err
    assert Path("mine.parquet").stat().st_mtime_ns == written
    for shard, told in (("2/3", "already finished, nothing was run: mine.parquet"), ("3", "")):
        main(["simulate", "mine.toml", "--shard", shard])
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith(told or "slotwise: `shard` must be K/N")
        assert said.err.count("\n") == 1
    with pytest.raises(AssertionError, match="played again"):
        main(["simulate", "mine.toml", "--seed", "2"])
    assert "replacing mine.parquet, which has 3 runs of 80 rounds\n" in capsys.readouterr().err


def test_ctrl_c_says_what_is_kept_and_the_same_command_goes_on(
    mine: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["simulate", "mine.toml", "--out", "whole.parquet"]) == 0
    n_played, play = 0, RunBlock.play

    def play_four(block: RunBlock) -> PlayedBlock:
        nonlocal n_played
        n_played += 1
        if n_played > 4:
            raise KeyboardInterrupt
        return play(block)

    monkeypatch.setattr(RunBlock, "play", play_four)
    capsys.readouterr()
    assert main(["simulate", "mine.toml", "--threads", "1"]) == 130
    said = capsys.readouterr().err
    assert "stopped: 4 of 6 runs are kept; the same command continues from there" in said
    monkeypatch.setattr(RunBlock, "play", play)
    assert main(["simulate", "mine.toml"]) == 0
    resumed, whole = Results.load("mine.parquet"), Results.load("whole.parquet")
    for label in whole.labels:
        assert np.array_equal(resumed.final(label, "reward"), whole.final(label, "reward"))
    assert not list(mine.parent.glob("*.parts"))


def test_a_full_disk_says_what_is_kept_and_the_same_command_goes_on(
    mine: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    n_saved, save = 0, np.save

    def save_four(file: BinaryIO, record: NDArray[np.float64], **settings: bool) -> None:
        nonlocal n_saved
        n_saved += 1
        if n_saved > 4:
            file.write(b"as much as there is room for")
            raise OSError("96 requested and 28 written")
        save(file, record, **settings)

    monkeypatch.setattr(np, "save", save_four)
    assert main(["simulate", "mine.toml", "--threads", "1"]) == 1
    said = capsys.readouterr().err
    assert "stopped: a file cannot be written (96 requested and 28 written). 4 of 6 runs" in said
    assert not list(mine.parent.rglob("*.tmp"))
    monkeypatch.setattr(np, "save", save)
    assert main(["simulate", "mine.toml"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone.toml"], "slotwise: no experiment file at gone.toml"),
        (
            ["figure-9"],
            "slotwise: no experiment file or shipped experiment is called figure-9; did you mean",
        ),
        (["mine.toml", "--runs", "0"], "slotwise: `--runs` must be at least 1, got 0"),
        (["mine.toml", "--seed", "-1"], "slotwise: `--seed` must be at least 0, got -1"),
        (["mine.toml", "--threads", "0"], "`n_threads` must be at least 1, got 0"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    mine: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *arguments]) == 2
    problem = capsys.readouterr().err
    assert message in problem
    assert "Traceback" not in problem


def test_the_help_shows_an_example(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["simulate", "--help"]) == 0
    printed = capsys.readouterr().out
    assert "slotwise simulate figure-1-coupon --runs 20" in printed
    assert "<bool>" not in printed
    lines = [line.strip() for line in printed.splitlines()]
    assert "The numbers depend on the file and its seed alone, not on the number of" in lines
    assert "threads. Ctrl-C keeps finished runs; the same command continues from there." in lines


def test_pages_are_logged_for_evaluate(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["simulate", "mine.toml", "--log", "logs", "--explore", "0.3"]
    assert main(asked) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["logs/cucb", "logs/oracle"]
    links = "".join(f"link-{place},1\n" for place in range(15))
    Path("mix.csv").write_text(f"link,probability\n{links}")
    assert main(["evaluate", "logs/cucb", "--mix", "mix.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_pages"] == 80
    assert main(asked) == 2
    assert "`--log` must be a folder without logs" in capsys.readouterr().err


def test_the_command_says_that_a_floor_is_out_of_reach(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine.write_text(EXPERIMENT.replace("n_runs = 3", "n_runs = 1\nclick_floor = 1.9\nn_slots = 2"))
    assert main(["simulate", "mine.toml"]) == 0
    assert "The floor is out of reach: the most clicked mix" in capsys.readouterr().out


def test_the_beginning_of_a_name_is_completed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "figure-1"]) == 2
    assert "did you mean 'figure-1-coupon'?" in capsys.readouterr().err
