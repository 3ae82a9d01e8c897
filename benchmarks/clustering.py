"""Experiments on a Dask cluster: what it costs beside threads, and what it would bring."""

from __future__ import annotations

import math
import os
import pickle
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.measuring import Row, at_most, note
from slotwise.simulation import cluster, experiment_path, load_experiment, run_experiment
from slotwise.simulation.cluster import play_on_cluster
from slotwise.simulation.experiment import Experiment
from slotwise.simulation.gathering import Parts
from slotwise.simulation.run_blocks import blocks_of

N_WORKERS, N_RUNS = 2, 20
N_SMALL_BLOCKS = 100
IDLE_S = 5.0
N_RECORDS = 2_000
SLOTS_PER_RUN = 50_000 * 15
EXPERIMENT = "figure-1-coupon"
MACHINES, PAPERS = 1_000, 1_000
PAPER_RUNS, PAPER_SECONDS = 6_120, 320.0
"""Runs and processor seconds of the whole paper, from the row of `make paper`."""


class Costs(NamedTuple):
    """Processor seconds: of an experiment on threads and on Dask, of a block, of compiling.

    `idle_share` is what a cluster without work uses, per second on the clock.
    """

    threads: float
    dask: float
    elapsed: float
    idle_share: float
    block: float
    record: float
    compiling: float


def clustering() -> list[Row]:
    """Compare two workers with two threads, then compute a run on a thousand machines."""
    try:
        import distributed  # noqa: F401
    except ModuleNotFoundError:
        return [note("experiments on Dask", "not installed: pip install 'slotwise[cluster]'")]
    costs = measure()
    measured = (
        f"{costs.dask:.1f} s of processor time, client and scheduler included, against "
        f"{costs.threads:.1f} s on threads; {EXPERIMENT}, {N_RUNS} runs, "
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    # On a busy machine the experiment takes longer, and the cluster's idle work adds up.
    on_idle_cores = costs.dask - costs.idle_share * (costs.elapsed - costs.threads / N_WORKERS)
    return [
        at_most("experiments on Dask, two workers", measured, on_idle_cores / costs.threads, 1.1),
        note("a cluster without work", f"{costs.idle_share:.3f} of a core"),
        note(
            "a block of runs",
            f"{1e3 * costs.block:.1f} ms of client and scheduler, {1e3 * costs.record:.2f} ms to "
            "store the record of a run",
        ),
        note("the first block of a policy on a worker", f"{costs.compiling:.1f} s, compiling"),
        thousand_machines(costs),
    ]


def thousand_machines(costs: Costs) -> Row:
    """Compute the time of a thousand papers: start, then the slower of workers and client.

    Blocks are as long as `runs_per_block` makes them for so many workers; every record passes
    through the client, which stores it.
    """
    n_runs = PAPERS * PAPER_RUNS
    seconds_per_run = PAPER_SECONDS / PAPER_RUNS
    longest = cluster.SLOTS_PER_BLOCK * (MACHINES // cluster.THREADS_FOR_SHORT_BLOCKS)
    fair = math.ceil(n_runs / (cluster.BLOCKS_PER_THREAD * MACHINES))
    runs_per_block = min(fair, longest // SLOTS_PER_RUN)
    n_blocks = n_runs / runs_per_block
    workers = n_runs * seconds_per_run / MACHINES
    client = n_blocks * costs.block + n_runs * costs.record
    first = costs.compiling * 6  # six policies
    total = first + max(workers, client) + runs_per_block * seconds_per_run
    days = n_runs * seconds_per_run / 86_400
    described = (
        f"computed: {PAPERS:,} papers ({n_runs / 1e6:.1f} million runs), {n_blocks / 1e3:,.0f} "
        f"thousand blocks; workers {workers / 60:.1f} min, client {client / 60:.1f} min, "
        f"compiling {first:.0f} s; one machine with one core {days:.1f} days"
    )
    return note(f"{MACHINES:,} machines with one core", described, total / 60, "min")


def record_seconds() -> float:
    """Return the processor seconds of receiving and storing the record of a run."""
    whole = experiment(50_000, 1)
    record = pickle.dumps(np.zeros((3, 2, len(whole.checkpoints))), protocol=5)
    with tempfile.TemporaryDirectory() as folder:
        parts = Parts(Path(folder), whole.config())

        def keep_all() -> None:
            for run in range(N_RECORDS):
                parts.keep("cucb", run, pickle.loads(record))

        return processor_seconds(keep_all) / N_RECORDS


def measure() -> Costs:
    """Run the same experiment on threads and on the workers of a local cluster."""
    from distributed import Client, LocalCluster

    whole, short = experiment(50_000, N_RUNS), experiment(50, N_SMALL_BLOCKS)
    run_experiment(experiment(50, 1), n_threads=1)  # compiles
    threads = processor_seconds(lambda: run_experiment(whole, n_threads=N_WORKERS))
    with (
        LocalCluster(
            n_workers=N_WORKERS, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as workers_here,
        Client(workers_here, set_as_default=False) as client,
    ):
        compiling = max(client.run(compile_all).values())

        def worker_seconds() -> float:
            return float(sum(client.run(time.process_time).values()))

        missing = [(label, run) for run in range(N_SMALL_BLOCKS) for label in short.policies]
        small = blocks_of(short, missing, 1)
        with_small_blocks = processor_seconds(
            lambda: list(play_on_cluster(small, client, lambda *_: None))
        )
        before, started = worker_seconds(), time.perf_counter()
        collecting = processor_seconds(lambda: run_experiment(whole, scheduler=client))
        workers, elapsed = worker_seconds() - before, time.perf_counter() - started
        before = worker_seconds()
        waiting = processor_seconds(lambda: time.sleep(IDLE_S)) + worker_seconds() - before
    return Costs(
        threads=threads,
        dask=workers + collecting,
        elapsed=elapsed,
        idle_share=waiting / IDLE_S,
        block=with_small_blocks / len(small),
        record=record_seconds(),
        compiling=compiling / len(whole.policies),
    )


def compile_all() -> float:
    """Compile the loops of all policies in this process; return the processor seconds."""
    return processor_seconds(lambda: run_experiment(experiment(50, 1), n_threads=1))


def experiment(n_rounds: int, n_runs: int) -> Experiment:
    """Return a figure of the paper with fewer rounds and runs."""
    changes = {"n_rounds": n_rounds, "n_runs": n_runs}
    return load_experiment(experiment_path(EXPERIMENT), changes).experiment()


def processor_seconds(work: Callable[[], object]) -> float:
    """Return the processor seconds that this process spends on `work`."""
    start = time.process_time()
    work()
    return time.process_time() - start
