"""The runs of experiments, gathered as they are finished: each is found on disk or played once.

Used by `series` and `cli`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import threading
from collections.abc import Generator, Hashable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from slotwise.arrays import Floats
from slotwise.errors import InvalidInput
from slotwise.simulation.cluster import play_on_cluster, runs_per_block
from slotwise.simulation.experiment import Experiment
from slotwise.simulation.results import Results, quantities_of
from slotwise.simulation.run_blocks import PlayedBlock, RunBlock, blocks_of, play_in_threads

if TYPE_CHECKING:
    from distributed import Client


DECIDING = (
    "version",
    "code",
    "environment",
    "environment_fingerprint",
    "n_slots",
    "floors",
    "rate_floors",
    "rewards",
    "feature_sizes",
    "slot_weights",
    "segment_floors",
    "levels",
    "n_rounds",
    "seed",
)
"""The settings that determine a run, besides the policy."""


PLAYED = ("name", "settings", "sources", "own_page")
"""What determines a run of a policy: all but its label."""


class Parts:
    """A folder with one small file for each finished run of each policy.

    A run is stored under a digest of everything that determines its numbers: the environment, the
    page, the rounds, the seed, the settings of the policy and its own page, slotwise's own code and
    the files of policies and environments of your own with all that they import. So a changed
    experiment starts again, an experiment with more runs or another policy reuses finished runs,
    and two experiments may share a folder and their common runs.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        self._root = folder
        setting = {name: config[name] for name in DECIDING}
        if "rules" in config:
            setting["rules"] = config["rules"]
        self._folders = {
            policy["label"]: folder
            / _digest([setting, *(policy[part] for part in PLAYED if part in policy)])
            for policy in config["policies"]
        }

    def file(self, label: str, run: int) -> Path:
        """Return where a run is stored; equal runs of two experiments have the same file."""
        return self._folders[label] / f"{run:06d}.npy"

    def find(self, label: str, run: int) -> Floats | None:
        """Return the record of a finished run, or None."""
        try:
            record: Floats = np.load(self.file(label, run), allow_pickle=False)
        except (OSError, ValueError):
            return None
        return record

    def keep(self, label: str, run: int, record: Floats) -> None:
        """Store the record of a finished run; the file appears complete or not at all."""
        final = self.file(label, run)
        final.parent.mkdir(parents=True, exist_ok=True)
        temporary = final.with_suffix(f".{os.getpid()}-{threading.get_ident()}.tmp")
        try:
            with temporary.open("wb") as file:
                np.save(file, record, allow_pickle=False)
            temporary.replace(final)
        except BaseException:
            temporary.unlink(missing_ok=True)  # what a full disk has room for is of no use
            raise

    def count(self, runs: Iterable[int]) -> int:
        """Return the number of finished runs of every policy among `runs`."""
        wanted = list(runs)
        return sum(self.file(label, run).is_file() for label in self._folders for run in wanted)

    def discard(self) -> None:
        """Remove the runs of these policies, because their experiment is finished."""
        for folder in self._folders.values():
            shutil.rmtree(folder, ignore_errors=True)
        if self._root.is_dir() and not any(self._root.iterdir()):
            self._root.rmdir()


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


class Gathering:
    """The finished runs of an experiment; those in the folder `parts` are found at once.

    Of a `shard` only its own runs are missing.
    """

    def __init__(
        self, experiment: Experiment, parts: Path | None, shard: Shard | None = None
    ) -> None:
        self.experiment = experiment
        self._runs = (shard or Shard(1, 1)).runs(experiment.n_runs)
        self._config: dict[str, Any] = experiment.config()
        self._kept = None if parts is None else Parts(parts, self._config)
        self._records: dict[str, dict[int, Floats]] = {label: {} for label in experiment.policies}
        self.missing: list[tuple[str, int]] = []
        """Label and number of the runs to be played."""
        for run in self._runs:
            for label in experiment.policies:
                found = None if self._kept is None else self._kept.find(label, run)
                if found is None:
                    self.missing.append((label, run))
                else:
                    self.add(label, run, found)

    @property
    def n_runs(self) -> int:
        """The number of runs of all policies."""
        return len(self._runs) * len(self.experiment.policies)

    @property
    def n_done(self) -> int:
        """The number of finished runs."""
        return sum(len(of_label) for of_label in self._records.values())

    def key(self, label: str, run: int) -> Hashable:
        """Return what identifies a run: experiments in one folder share equal runs."""
        return (self, label, run) if self._kept is None else self._kept.file(label, run)

    def add(self, label: str, run: int, record: Floats) -> None:
        """Take the record of a finished run."""
        self._records[label][run] = record

    def keep(self, block: RunBlock, played: PlayedBlock) -> None:
        """Store the records of a block on disk, where the experiment has a folder."""
        if self._kept is not None:
            for run, record in zip(block.runs, played.records, strict=True):
                self._kept.keep(block.label, run, record)

    def results(self, wall: float, cpu: float) -> Results:
        """Return the results of so many seconds of both clocks; all runs must be finished.

        The records are handed over: they are not stored here.
        """
        experiment = self.experiment
        values = experiment.environment.segment_labels
        totals = {}
        for label in experiment.policies:
            of_label = self._records.pop(label)
            records = np.array([of_label[run] for run in self._runs])
            totals[label] = quantities_of(experiment.problem, records, values)
        config = {**self._config, "seconds": {"wall": wall, "cpu": cpu}}
        return Results(config, experiment.checkpoints, totals)


def play_missing(
    gatherings: Sequence[Gathering], n_threads: int, client: Client | None
) -> Generator[tuple[RunBlock, PlayedBlock]]:
    """Play the missing runs of all experiments in one queue; yield each block when it is added.

    A run that several of them miss is played once. Blocks have one run on threads and more on a
    cluster.
    """
    wanted: dict[Hashable, list[tuple[Gathering, str]]] = {}
    owners: dict[RunBlock, Gathering] = {}
    for gathering in gatherings:
        own = []
        for label, run in gathering.missing:
            wanting = wanted.setdefault(gathering.key(label, run), [])
            if not wanting:
                own.append((label, run))
            wanting.append((gathering, label))
        experiment = gathering.experiment
        max_runs = 1 if client is None else runs_per_block(experiment, len(own), client)
        owners |= dict.fromkeys(blocks_of(experiment, own, max_runs), gathering)

    def keep(block: RunBlock, played: PlayedBlock) -> None:
        owners[block].keep(block, played)

    blocks = list(owners)
    if client is None:
        playing = play_in_threads(blocks, n_threads, keep)
    else:
        playing = play_on_cluster(blocks, client, keep)
    with closing(playing) as finished:
        for block, played in finished:
            for run, record in zip(block.runs, played.records, strict=True):
                for gathering, label in wanted[owners[block].key(block.label, run)]:
                    gathering.add(label, run, record)
            yield block, played


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
            raise InvalidInput.of("shard", "K/N with 1 <= K <= N, for example 3/16", text)
        return shard

    def runs(self, n_runs: int) -> range:
        """Return the runs of this shard; all shards together have every run once."""
        return range((self.number - 1) * n_runs // self.of, self.number * n_runs // self.of)
