"""Blocks of runs on the workers of a Dask cluster.

The scheduler hands out blocks, this process stores their records as they arrive. Every block
carries the versions of this process, and a worker with other versions refuses it: the same code on
the same versions gives the same numbers, wherever it runs. Used by `gathering` and `series`.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from slotwise.compile import compiler_version
from slotwise.errors import InvalidInput, SlotwiseError
from slotwise.extras import imported
from slotwise.simulation.experiment import Experiment, code_fingerprint
from slotwise.simulation.run_blocks import Keep, PlayedBlock, RunBlock
from slotwise.version import __version__

if TYPE_CHECKING:
    from distributed import Client


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
