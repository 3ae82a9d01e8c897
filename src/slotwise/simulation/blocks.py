"""Blocks of runs: the tasks into which an experiment is divided, on threads or on a cluster.

A block holds everything that its runs need, so that it can be sent to another machine. The records
do not depend on how runs are divided into blocks: the generators of a run follow from the seed and
the number of the run alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.environments import Environment
from slotwise.policies import Policy
from slotwise.problem import Problem
from slotwise.simulation.engine import play_run
from slotwise.simulation.experiment import Experiment

__all__ = ["Block", "Keep", "PlayedBlock", "blocks_of", "play_in_threads"]


class PlayedBlock(NamedTuple):
    """The records of the runs of a block, and the processor seconds of each."""

    records: list[NDArray[np.float64]]
    seconds: list[float]


@dataclass(frozen=True, eq=False)
class Block:
    """Some runs of one policy of an experiment."""

    label: str
    policy: Policy
    environment: Environment
    problem: Problem
    checkpoints: NDArray[np.int64]
    seed: int
    runs: tuple[int, ...]

    def play(self) -> PlayedBlock:
        """Play the runs; compilation is not part of the seconds."""
        self._play(self.runs[0], self.checkpoints[:1])  # compiles the loop where it is not yet
        records, seconds = [], []
        for run in self.runs:
            started = time.thread_time()
            records.append(self._play(run, self.checkpoints))
            seconds.append(time.thread_time() - started)
        return PlayedBlock(records, seconds)

    def _play(self, run: int, checkpoints: NDArray[np.int64]) -> NDArray[np.float64]:
        return play_run(self.policy, self.environment, self.problem, checkpoints, self.seed, run)


Keep = Callable[[Block, PlayedBlock], None]
"""Called with every block as soon as it is played, to store its records."""


def blocks_of(
    experiment: Experiment, missing: Sequence[tuple[str, int]], max_runs: int
) -> list[Block]:
    """Return blocks of at most `max_runs` runs that cover the missing runs, in their order.

    `missing` lists pairs of label and run. A block starts where its first run is in the list, so
    that all policies progress together and the estimate of the time left covers all of them.
    """
    open_blocks: dict[str, list[int]] = {}
    grouped: list[tuple[str, list[int]]] = []
    for label, run in missing:
        runs = open_blocks.get(label)
        if runs is None or len(runs) == max_runs:
            runs = open_blocks[label] = []
            grouped.append((label, runs))
        runs.append(run)
    return [
        Block(
            label,
            experiment.policies[label],
            experiment.environment,
            experiment.problem,
            experiment.checkpoints,
            experiment.seed,
            tuple(runs),
        )
        for label, runs in grouped
    ]


def play_in_threads(
    blocks: Sequence[Block], n_threads: int, keep: Keep
) -> Generator[tuple[Block, PlayedBlock]]:
    """Play blocks on the threads of this process; yield each when it is finished."""

    def play(block: Block) -> PlayedBlock:
        played = block.play()
        keep(block, played)
        return played

    with ThreadPoolExecutor(n_threads) as pool:
        try:  # from the first submission on: Ctrl-C must not wait for blocks that have not started
            waiting = {pool.submit(play, block): block for block in blocks}
            for future in as_completed(waiting):
                yield waiting.pop(future), future.result()  # the records are not kept here
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
