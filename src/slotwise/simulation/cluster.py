"""Blocks of runs on the workers of a Dask cluster.

The scheduler hands out blocks, this process stores their records as they arrive. Every block
carries the versions of this process, and a worker with other versions refuses it: the same code on
the same versions gives the same numbers, wherever it runs. Used by `compile_ahead`, `gathering`
and `series`.
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from slotwise.arrays import Floats, Whole
from slotwise.compile import compiler_version
from slotwise.environments import Environment
from slotwise.errors import InvalidInput, SlotwiseError
from slotwise.extras import imported
from slotwise.policies import Policy
from slotwise.problem import Problem
from slotwise.simulation.engine import play_run
from slotwise.simulation.experiment import Experiment, code_fingerprint
from slotwise.simulation.promised_runs import OwnPagePlan, play_promised
from slotwise.version import __version__

if TYPE_CHECKING:
    from distributed import Client


# A block holds everything that its runs need, so that it can be sent to another machine. The
# records do not depend on how runs are divided into blocks: the generators of a run follow from
# the seed and the number of the run alone.


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


CONNECT_S, WORKERS_S = 10, 20
"""Seconds to wait for an answer of the scheduler, and for its first worker."""

SLOTS_PER_BLOCK = 10_000_000
"""Slots filled by a block at most: a few seconds of work, against milliseconds of overhead."""

THREADS_FOR_SHORT_BLOCKS = 32
"""With more threads than this blocks grow, because one process hands out all of them."""

BLOCKS_PER_THREAD = 4
"""Blocks for each thread of the cluster at least, so that all of them finish together."""


def versions() -> dict[str, str]:
    """Return the versions that determine the numbers of a run in this process."""
    return {
        "slotwise": __version__,
        "slotwise's code": code_fingerprint(),
        "numba": compiler_version(),
        "numpy": np.__version__,
        "Python": ".".join(platform.python_version_tuple()[:2]),
    }


@contextmanager
def connected(scheduler: str | Client | None) -> Iterator[Client | None]:
    """Yield a client of the scheduler at an address; a client, or None, is yielded as it is.

    A client made here is closed at the end. The versions of all workers are checked.
    """
    if scheduler is None:
        yield None
        return
    distributed = _distributed()
    if isinstance(scheduler, distributed.Client):
        _check_workers(scheduler)
        yield scheduler
        return
    if not isinstance(scheduler, str) or "://" not in scheduler:
        rule = "an address such as tcp://host:8786, or a client of distributed"
        raise InvalidInput.of("scheduler", rule, scheduler)
    try:
        client = distributed.Client(scheduler, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError, ImportError) as error:
        raise SlotwiseError(
            f"no scheduler answers at {scheduler} ({error}); start one with: dask scheduler"
        ) from error
    with client:
        _check_workers(client)
        yield client


def _distributed() -> Any:
    return imported("distributed", "`scheduler`")


def _check_workers(client: Client) -> None:
    """Refuse a cluster without workers, or with workers of other versions."""
    address = client.scheduler.address if client.scheduler else "the scheduler"
    try:
        client.wait_for_workers(1, timeout=WORKERS_S)
    except TimeoutError as error:
        raise SlotwiseError(
            f"the scheduler at {address} has no workers; start some with: dask worker {address}"
        ) from error
    try:
        found = client.run(versions)
    except (ImportError, AttributeError) as error:
        raise SlotwiseError(
            f"a worker of {address} has no slotwise, or another version of it ({error}); install "
            f"slotwise[cluster]=={__version__} on every worker"
        ) from error
    for worker, theirs in found.items():
        _check_versions(versions(), theirs, worker)


def _check_versions(ours: Mapping[str, str], theirs: Mapping[str, str], worker: str) -> None:
    for name, version in ours.items():
        if theirs.get(name) != version:
            raise SlotwiseError(
                f"the worker {worker} has {name} {theirs.get(name)}, this process has {version}; "
                "install the same versions everywhere, so that the numbers are the same"
            )


def runs_per_block(experiment: Experiment, n_missing: int, client: Client) -> int:
    """Return how many runs a block has: few enough for all threads, and not too long."""
    n_threads = sum(client.nthreads().values())
    fair = math.ceil(n_missing / max(1, BLOCKS_PER_THREAD * n_threads))
    slots = SLOTS_PER_BLOCK * max(1, n_threads // THREADS_FOR_SHORT_BLOCKS)
    longest = slots // (experiment.n_rounds * experiment.problem.n_slots)
    return max(1, min(fair, longest))


def play_checked(block: RunBlock, expected: Mapping[str, str]) -> PlayedBlock:
    """Play a block on a worker, which may have joined after the versions were checked."""
    _check_versions(expected, versions(), platform.node())
    return block.play()


def play_on_cluster(
    blocks: Sequence[RunBlock], client: Client, keep: Keep
) -> Generator[tuple[RunBlock, PlayedBlock]]:
    """Play blocks on the workers of a cluster; yield each when its records have arrived."""
    distributed = _distributed()
    ours = versions()
    waiting = {client.submit(play_checked, block, ours, pure=False): block for block in blocks}
    try:
        for future in distributed.as_completed(list(waiting), loop=client.loop):
            block = waiting.pop(future)
            played = _result(future, block)
            keep(block, played)
            yield block, played
    finally:
        if client.status == "running":
            client.cancel(list(waiting), force=True)


def _result(future: Any, block: RunBlock) -> PlayedBlock:
    """Return the result of a task; a lost worker or scheduler becomes one sentence."""
    distributed = _distributed()
    again = "finished runs are kept, and the same call continues from there"
    try:
        played: PlayedBlock = future.result()
    except distributed.KilledWorker as error:
        raise SlotwiseError(
            f"workers died several times while they ran {block.label}, perhaps for lack of "
            f"memory; {again}"
        ) from error
    except (distributed.CancelledError, OSError) as error:
        raise SlotwiseError(f"the scheduler or its connection was lost; {again}") from error
    return played
