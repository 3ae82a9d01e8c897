"""Shards: parts of the runs, made apart, put together into the same results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slotwise.cli.main import main
from slotwise.errors import InvalidInput
from slotwise.simulation import Planned, Results, load_experiment, run_series
from slotwise.simulation.gathering import Shard, merge_shards, whole_path
from slotwise.simulation.series import shard_plan

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
    with pytest.raises(InvalidInput, match=r"`shard` must be a number and how many there are"):
        Shard.parse(text)


def test_merged_shards_are_the_results_of_one_piece(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "mine.toml", "--out", "whole.parquet"]) == 0
    make("3/3", "1/3", "2/3")
    files = sorted(path.name for path in mine.glob("*.shard-*"))
    assert files == [f"mine.shard-{number}-of-3.parquet" for number in (1, 2, 3)]
    capsys.readouterr()
    assert main(["merge", *reversed(files)]) == 0
    assert capsys.readouterr().out == "mine.parquet\n"
    whole, merged = Results.load("whole.parquet"), Results.load("mine.parquet")
    for label in whole.labels:
        for quantity, values in whole.totals[label].items():
            assert np.array_equal(values, merged.totals[label][quantity])
    told_apart = {"seconds", "commit"}
    assert {key: value for key, value in merged.config.items() if key not in told_apart} == {
        key: value for key, value in whole.config.items() if key not in told_apart
    }
    written = Path("mine.parquet").stat().st_mtime_ns
    assert main(["simulate", "mine.toml"]) == 0  # found finished
    assert Path("mine.parquet").stat().st_mtime_ns == written


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (["1/3", "3/3"], "`files` must be all shards of mine.parquet, each once, got 'run 1 is mi"),
        (["2/3", "3/3"], "each once, got 'run 0 is missing'"),
        (["1/3", "2/3"], "`files` must be all shards of mine.parquet, got '3 of 5 runs'"),
        (["1/3", "2/3", "3/3", "1/5"], "each once, got 'run 0 is double'"),
    ],
)
def test_missing_or_double_runs_are_named_and_nothing_is_written(
    made: list[str], message: str, mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(*made)
    assert main(["merge", *map(str, mine.glob("*.shard-*.parquet"))]) == 2
    assert message in capsys.readouterr().err
    assert not Path("mine.parquet").exists()


def test_shards_of_another_seed_do_not_merge(mine: Path) -> None:
    make("1/2")
    command = ["simulate", "mine.toml", "--shard", "2/2", "--threads", "1", "--seed", "9"]
    assert main(command) == 0
    with pytest.raises(InvalidInput, match="of one experiment, with the same 'seed'"):
        merge_shards(sorted(Path().glob("*.shard-*.parquet")))


def test_other_files_are_refused(mine: Path) -> None:
    assert main(["simulate", "mine.toml"]) == 0
    with pytest.raises(InvalidInput, match="`files` must be results files of shards, such as"):
        merge_shards([Path("mine.parquet")])
    Path("mine.parquet").rename("mine.shard-1-of-1.parquet")
    with pytest.raises(InvalidInput, match="`files` must be results files of shards, got"):
        merge_shards([Path("mine.shard-1-of-1.parquet")])


def test_a_shard_without_runs_is_refused(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "mine.toml", "--shard", "1/6"]) == 2
    message = "`shard` must be of at most as many parts as runs (5), got '1/6'"
    assert message in capsys.readouterr().err


def test_an_experiment_with_fewer_runs_than_shards_still_merges(mine: Path) -> None:
    files = [load_experiment("mine.toml", {"n_runs": n_runs}) for n_runs in (2, 5)]
    plan = [Planned(file.experiment(), Path(f"of-{file.n_runs}.parquet")) for file in files]
    for number in range(1, 6):
        parts, folder = shard_plan(plan, f"{number}/5", Path())
        run_series(parts, folder, n_threads=1)
    assert len(list(mine.glob("of-2.shard-*"))) == 2
    assert len(merge_shards(sorted(Path().glob("of-*.shard-*.parquet")))) == 2
    assert [len(Results.load(one.path).final("uniform", "reward")) for one in plan] == [2, 5]
    assert not list(mine.glob("parts*"))


@pytest.mark.slow
def test_the_paper_in_shards(tmp_path: Path) -> None:
    small = ["reproduce", "--runs", "2", "--rounds", "20", "--threads", "1", "--out", str(tmp_path)]
    for shard in ("1/3", "2/3", "3/3"):  # two runs: the first shard has none
        assert main([*small, "--shard", shard]) == (2 if shard == "1/3" else 0)
    files = sorted((tmp_path / "results").glob("*.shard-*.parquet"))
    assert {whole_path(path).stem for path in files} == {path.stem for path in merge_shards(files)}
    assert main(small) == 0
    assert (tmp_path / "report.html").is_file()
    assert not list(tmp_path.glob("parts*"))
