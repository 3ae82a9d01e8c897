"""Shards: parts of the runs, played apart, found by the command without a shard."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slotwise.cli.main import main
from slotwise.errors import InvalidInput
from slotwise.simulation import Results
from slotwise.simulation.gathering import Shard

EXPERIMENT = """
title = "Mine"
dataset = "coupon-like"
n_rounds = 60
n_runs = 5

[[policies]]
name = "uniform"

[[policies]]
name = "oracle"
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(EXPERIMENT)
    return tmp_path


def make(*shards: str) -> None:
    for shard in shards:
        assert main(["simulate", "mine.toml", "--shard", shard, "--threads", "1"]) == 0


@pytest.mark.parametrize(("n_runs", "of"), [(200, 16), (5, 5), (5, 3), (3, 7), (1, 1)])
def test_shards_have_every_run_once_in_order(n_runs: int, of: int) -> None:
    runs = [run for number in range(1, of + 1) for run in Shard(number, of).runs(n_runs)]
    assert runs == list(range(n_runs))


@pytest.mark.parametrize("text", ["", "3", "0/4", "5/4", "a/b", "3/16/2", "-1/4", "1/0", "1.5/2"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"`shard` must be K/N with 1 <= K <= N, for example"):
        Shard.parse(text)


@pytest.mark.parametrize("made", [["3/3", "1/3", "2/3"], ["2/3"], ["1/3", "1/5", "1/3"]])
def test_runs_of_shards_are_those_of_one_piece(
    made: list[str], mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that no shard has played are played at last."""
    assert main(["simulate", "mine.toml", "--out", "whole.parquet"]) == 0
    make(*made)
    assert not Path("mine.parquet").exists()
    runs = {run for text in made for run in Shard.parse(text).runs(5)}
    assert len(list(mine.glob("mine.parquet.parts/*/*.npy"))) == 2 * len(runs)
    assert "runs in mine.parquet.parts" in capsys.readouterr().out
    assert main(["simulate", "mine.toml"]) == 0
    assert not list(mine.glob("*.parts"))
    whole, pieces = Results.load("whole.parquet"), Results.load("mine.parquet")
    for label in whole.labels:
        for quantity, values in whole.totals[label].items():
            assert np.array_equal(values, pieces.totals[label][quantity])
    told_apart = {"seconds", "commit"}
    assert {key: value for key, value in pieces.config.items() if key not in told_apart} == {
        key: value for key, value in whole.config.items() if key not in told_apart
    }


def test_shards_of_several_machines_are_put_together(
    mine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (1, 2):
        machine = mine / f"node-{number}"
        machine.mkdir()
        (machine / "mine.toml").write_text(EXPERIMENT)
        monkeypatch.chdir(machine)
        make(f"{number}/2")
    monkeypatch.chdir(mine)
    parts = [f"node-{number}/mine.parquet.parts" for number in (1, 2)]
    assert main(["merge", *parts, "--into", "mine.parquet.parts"]) == 0
    assert "10 runs in mine.parquet.parts" in capsys.readouterr().out
    assert main(["merge", "mine.toml", "--into", "mine.parquet.parts"]) == 2
    assert "`FOLDERS` must be folders with finished runs" in capsys.readouterr().err
    monkeypatch.setattr("slotwise.simulation.run_blocks.play_run", None)  # nothing is left to play
    assert main(["simulate", "mine.toml"]) == 0
    assert Results.load("mine.parquet").n_runs == 5


def test_a_shard_of_another_seed_is_not_used(mine: Path) -> None:
    command = ["simulate", "mine.toml", "--shard", "2/2", "--threads", "1", "--seed", "9"]
    assert main(command) == 0
    assert main(["simulate", "mine.toml", "--out", "whole.parquet"]) == 0
    assert main(["simulate", "mine.toml"]) == 0
    whole, mine_too = Results.load("whole.parquet"), Results.load("mine.parquet")
    assert np.array_equal(whole.final("uniform", "reward"), mine_too.final("uniform", "reward"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["1/6"], "`shard` must be of at most as many parts as runs (5), got '1/6'"),
        (["1/2", "--scheduler", "tcp://head:8786"], "`--shard` must be left out with --scheduler"),
    ],
)
def test_a_shard_that_cannot_be_played_is_refused(
    options: list[str], message: str, mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "mine.toml", "--shard", *options]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_the_paper_in_shards(tmp_path: Path) -> None:
    small = ["reproduce", "--runs", "2", "--rounds", "20", "--threads", "1", "--out", str(tmp_path)]
    for shard in ("1/3", "2/3", "3/3"):  # two runs: the first shard has none
        assert main([*small, "--shard", shard]) == (2 if shard == "1/3" else 0)
    assert len({path.name for path in (tmp_path / "parts").glob("*/*.npy")}) == 2
    assert main(small) == 0
    assert (tmp_path / "report.html").is_file()
    assert not list(tmp_path.glob("parts*"))
