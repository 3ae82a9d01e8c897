"""The runs of experiments, gathered as they are finished: each is found on disk or played once."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slotwise.simulation.blocks import Block, PlayedBlock, blocks_of, play_in_threads
from slotwise.simulation.cluster import play_on_cluster, runs_per_block
from slotwise.simulation.experiment import Experiment
from slotwise.simulation.parts import Parts
from slotwise.simulation.quantities import quantities_of
from slotwise.simulation.results import Results

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["Gathering", "play_missing"]


class Gathering:
    """The finished runs of an experiment; those in the folder `parts` are found at once."""

    def __init__(self, experiment: Experiment, parts: Path | None) -> None:
        self.experiment = experiment
        self._config: dict[str, Any] = experiment.config()
        self._kept = None if parts is None else Parts(parts, self._config)
        self._records: dict[str, dict[int, NDArray[np.float64]]] = {
            label: {} for label in experiment.policies
        }
        self.missing: list[tuple[str, int]] = []
        """Label and number of the runs to be played."""
        for run in experiment.runs:
            for label in experiment.policies:
                found = None if self._kept is None else self._kept.find(label, run)
                if found is None:
                    self.missing.append((label, run))
                else:
                    self.add(label, run, found)

    @property
    def n_runs(self) -> int:
        """The number of runs of all policies."""
        return len(self.experiment.runs) * len(self.experiment.policies)

    @property
    def n_done(self) -> int:
        """The number of finished runs."""
        return sum(len(of_label) for of_label in self._records.values())

    def key(self, label: str, run: int) -> Hashable:
        """Return what tells a run from others: experiments in one folder share equal runs."""
        return (id(self), label, run) if self._kept is None else self._kept.file(label, run)

    def add(self, label: str, run: int, record: NDArray[np.float64]) -> None:
        """Take the record of a finished run."""
        self._records[label][run] = record

    def keep(self, block: Block, played: PlayedBlock) -> None:
        """Store the records of a block on disk, where the experiment has a folder."""
        if self._kept is not None:
            for run, record in zip(block.runs, played.records, strict=True):
                self._kept.keep(block.label, run, record)

    def results(self, wall: float, cpu: float) -> Results:
        """Return the results of so many seconds of both clocks; all runs must be finished.

        The records are handed over: they are not kept here.
        """
        experiment = self.experiment
        values = [label for labels in experiment.environment.value_labels for label in labels]
        totals = {}
        for label in experiment.policies:
            of_label = self._records.pop(label)
            records = np.array([of_label[run] for run in experiment.runs])
            totals[label] = quantities_of(experiment.problem, records, values)
        config = {**self._config, "seconds": {"wall": wall, "cpu": cpu}}
        return Results(config, experiment.checkpoints, totals)


def play_missing(
    gatherings: Sequence[Gathering], n_threads: int, client: Client | None
) -> Generator[tuple[Block, PlayedBlock]]:
    """Play the missing runs of all experiments in one queue; yield each block when it is added.

    A run that several of them miss is played once. Blocks have one run on threads and more on a
    cluster.
    """
    wanted: dict[Hashable, list[tuple[Gathering, str]]] = {}
    owners: dict[Block, Gathering] = {}
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

    def keep(block: Block, played: PlayedBlock) -> None:
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
