"""Blocks of runs, and how the threads of this process play them.

A block holds everything that its runs need, so that it can be sent to another machine. The records
do not depend on how runs are divided into blocks: the generators of a run follow from the seed and
the number of the run alone. Used by `cluster`, `compile_ahead` and `gathering`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import NamedTuple

from slotwise.arrays import Floats, Whole
from slotwise.environments import Environment
from slotwise.policies import Policy
from slotwise.problem import Problem
from slotwise.simulation.engine import play_run
from slotwise.simulation.experiment import Experiment
from slotwise.simulation.promised_runs import OwnPagePlan, play_promised


class PlayedBlock(NamedTuple):
    """The records of the runs of a block, and the processor seconds of each."""

    records: list[Floats]
    seconds: list[float]


@dataclass(frozen=True, eq=False)
class RunBlock:
    """Some runs of one policy of an experiment."""

    label: str
    policy: Policy
    environment: Environment
    problem: Problem
    checkpoints: Whole
    seed: int
    runs: tuple[int, ...]
    own_page: OwnPagePlan | None = None

    def play(self) -> PlayedBlock:
        """Play the runs; compilation is not part of the seconds."""
        self.play_first_round()
        records, seconds = [], []
        for run in self.runs:
            started = time.thread_time()
            records.append(self._play(run, self.checkpoints))
            seconds.append(time.thread_time() - started)
        return PlayedBlock(records, seconds)

    def play_first_round(self) -> None:
        """Play until the first checkpoint, which compiles the loop where it is not yet."""
        self._play(self.runs[0], self.checkpoints[:1])

    def _play(self, run: int, checkpoints: Whole) -> Floats:
        played = (self.policy, self.environment, self.problem, checkpoints)
        if self.own_page is not None:
            return play_promised(*played, (self.seed, run), self.own_page)
        return play_run(*played, self.seed, run)


Keep = Callable[[RunBlock, PlayedBlock], None]
"""Called with every block as soon as it is played, to store its records."""


def blocks_of(
    experiment: Experiment, missing: Sequence[tuple[str, int]], max_runs: int
) -> list[RunBlock]:
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
        RunBlock(
            label,
            experiment.policies[label],
            experiment.environment,
            experiment.problem,
            experiment.checkpoints,
            experiment.seed,
            tuple(runs),
            experiment.own_pages.get(label),
        )
        for label, runs in grouped
    ]


def play_in_threads(
    blocks: Sequence[RunBlock], n_threads: int, keep: Keep
) -> Generator[tuple[RunBlock, PlayedBlock]]:
    """Play blocks on the threads of this process; yield each when it is finished."""

    def play(block: RunBlock) -> PlayedBlock:
        played = block.play()
        keep(block, played)
        return played

    with ThreadPoolExecutor(n_threads) as pool:
        try:  # from the first submission on: Ctrl-C must not wait for blocks that have not started
            waiting = {pool.submit(play, block): block for block in blocks}
            for future in as_completed(waiting):
                yield waiting.pop(future), future.result()  # the records are not stored here
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
