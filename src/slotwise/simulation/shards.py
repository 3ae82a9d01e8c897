"""Shards of an experiment: some of its runs, made apart and put together again.

For machines without a common scheduler. Shard 3 of 16 makes the runs from 2/16 to 3/16 of them all,
with the same numbers as in one piece; its results file lies beside the whole one's place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from slotwise.errors import InvalidInput
from slotwise.simulation.results import Results

__all__ = ["Shard", "merge_shards", "shard_path", "whole_path"]

NAME = re.compile(r"(?P<whole>.+)\.shard-\d+-of-\d+$")


class Shard(NamedTuple):
    """Which part of the runs, counted from 1.

    >>> Shard.parse("3/16").runs(200)
    range(25, 37)
    """

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read "3/16"."""
        found = re.fullmatch(r"(\d+)/(\d+)", text.strip())
        shard = cls(int(found[1]), int(found[2])) if found else cls(0, 0)
        if not 1 <= shard.number <= shard.of:
            rule = "a number and how many there are, such as 3/16, the first at most the second"
            raise InvalidInput.of("shard", rule, text)
        return shard

    def runs(self, n_runs: int) -> range:
        """Return the runs of this shard; all shards together have every run once."""
        return range((self.number - 1) * n_runs // self.of, self.number * n_runs // self.of)


def shard_path(path: Path, shard: Shard) -> Path:
    """Return the results file of a shard, beside that of the whole experiment.

    >>> shard_path(Path("mine.parquet"), Shard(3, 16)).name
    'mine.shard-3-of-16.parquet'
    """
    return path.with_name(f"{path.stem}.shard-{shard.number}-of-{shard.of}{path.suffix}")


def whole_path(path: Path) -> Path:
    """Return the results file of the whole experiment that a shard's file belongs to."""
    found = NAME.fullmatch(path.stem)
    if found is None:
        rule = "results files of shards, such as mine.shard-3-of-16.parquet"
        raise InvalidInput.of("files", rule, str(path))
    return path.with_name(f"{found['whole']}{path.suffix}")


def merge_shards(paths: Sequence[Path]) -> list[Path]:
    """Put shards together, experiment by experiment; return the results files written.

    Every run must be in exactly one file of its experiment. Times of runs, which a
    benchmark keeps beside its results, are put together too.
    """
    by_whole: dict[Path, list[Path]] = {}
    for path in dict.fromkeys(paths):
        by_whole.setdefault(whole_path(path), []).append(path)
    merged = {whole: _merged(whole, files) for whole, files in by_whole.items()}
    for whole, results in merged.items():  # all are read and checked before one is written
        results.save(whole)
        _merge_seconds(whole, by_whole[whole])
    return list(merged)


def _merged(whole: Path, files: list[Path]) -> Results:
    found = {path: Results.load(path) for path in files}
    for path, results in found.items():
        if "shard" not in results.config:
            raise InvalidInput.of("files", "results files of shards", str(path))
    files.sort(key=lambda path: int(found[path].config["shard"]["first_run"]))
    n_runs = int(found[files[0]].config["shard"]["n_runs"])
    expected = 0
    for path in files:
        first = int(found[path].config["shard"]["first_run"])
        if first != expected:
            problem = f"run {expected} is missing" if first > expected else f"run {first} is double"
            raise InvalidInput.of("files", f"all shards of {whole.name}, each once", problem)
        expected += found[path].n_runs
    if expected != n_runs:
        problem = f"{expected} of {n_runs} runs"
        raise InvalidInput.of("files", f"all shards of {whole.name}", problem)
    parts = []
    for path in files:
        config = dict(found[path].config)
        config["shard"] = {"n_runs": config["shard"]["n_runs"]}
        parts.append(Results(config, found[path].rounds, found[path].totals))
    results = Results.merge(parts)
    config = {key: value for key, value in results.config.items() if key != "shard"}
    return Results(config, results.rounds, results.totals)


def _merge_seconds(whole: Path, files: Sequence[Path]) -> None:
    beside = [path.with_suffix(".seconds.json") for path in files]
    if not all(path.is_file() for path in beside):
        return
    seconds: dict[str, list[float]] = {}
    for path in beside:
        for label, of_runs in json.loads(path.read_text(encoding="utf-8")).items():
            seconds.setdefault(label, []).extend(of_runs)
    whole.with_suffix(".seconds.json").write_text(json.dumps(seconds), encoding="utf-8")
