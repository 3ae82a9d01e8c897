"""Run an experiment: all runs of all policies, over threads, resumable."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from slotwise.environments import Environment
from slotwise.errors import InvalidInput
from slotwise.policies import Policy
from slotwise.problem import Problem, whole_number
from slotwise.selection import draw_page
from slotwise.selection.compiled import is_compiled
from slotwise.simulation.engine import is_machine_code, play_run
from slotwise.simulation.experiment import Experiment, label_policies
from slotwise.simulation.parts import Parts
from slotwise.simulation.quantities import quantities_of
from slotwise.simulation.results import Results

__all__ = ["PlainPythonNote", "run_experiment", "simulate"]

NO_FLOORS: Mapping[str, float] = MappingProxyType({})

Progress = Callable[[int, int], None]
"""Called with the number of finished runs and the number of all runs."""

Timing = Callable[[str, float], None]
"""Called with the label of a policy and the processor seconds of a run that just finished."""


class PlainPythonNote(UserWarning):
    """A policy or environment is plain Python, so it runs slowly."""


def simulate(
    links: Environment,
    policies: Iterable[Policy] | Mapping[str, Policy],
    n_slots: int,
    click_floor: float = 0.0,
    n_rounds: int = 50_000,
    n_runs: int = 20,
    seed: int = 1,
    *,
    floors: Mapping[str, float] = NO_FLOORS,
    rate_floors: Mapping[str, float] = NO_FLOORS,
    rewards: Mapping[str, float] = NO_FLOORS,
    n_threads: int | None = None,
    parts: str | Path | None = None,
    progress: Progress | None = None,
) -> Results:
    """Run every policy on the same visitors and return the results.

    Policies that need a horizon and have none get `n_rounds`. The numbers depend on the seed
    alone, not on the number of threads or on the other policies. `parts` is a folder that keeps
    finished runs: after Ctrl-C the same call continues from there. `floors`, `rate_floors` and
    `rewards` are those of `Problem`, for links with more than two levels.

    >>> import slotwise
    >>> links = slotwise.BernoulliLinks([0.3, 0.2, 0.1], [0.1, 0.5, 0.9])
    >>> results = simulate(links, [slotwise.CUCB()], n_slots=1, n_rounds=100, n_runs=3)
    >>> results.final("cucb", "reward").shape
    (3,)
    """
    n_rounds = whole_number("n_rounds", n_rounds, at_least=1)
    n_runs = whole_number("n_runs", n_runs, at_least=1)
    problem = Problem(
        links.n_links,
        n_slots,
        click_floor,
        levels=links.levels,
        horizon=n_rounds,
        floors=floors,
        rate_floors=rate_floors,
        rewards=rewards,
    )
    experiment = Experiment(links, problem, label_policies(policies), n_runs, seed)
    folder = None if parts is None else Path(parts)
    return run_experiment(experiment, n_threads=n_threads, parts=folder, progress=progress)


def run_experiment(
    experiment: Experiment,
    *,
    n_threads: int | None = None,
    parts: Path | None = None,
    progress: Progress | None = None,
    timing: Timing | None = None,
) -> Results:
    """Run the unfinished runs of an experiment and return all its results.

    `timing` is called for the runs of this call, not for those found in `parts`. Compilation is
    not part of the time: a policy whose loop is not yet compiled runs one round first.
    """
    n_threads = _thread_count(n_threads)
    _note_plain_python(experiment)
    config = experiment.config()
    kept = None if parts is None else Parts(parts, config)
    wall, cpu = time.perf_counter(), time.process_time()
    records = _all_records(experiment, kept, n_threads, progress, timing)
    config["seconds"] = {
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
    }
    totals = {
        label: quantities_of(experiment.problem, np.array(records[label]))
        for label in experiment.policies
    }
    return Results(config, experiment.checkpoints, totals)


def _thread_count(n_threads: int | None) -> int:
    if n_threads is None:
        return os.cpu_count() or 1
    if n_threads < 1:
        raise InvalidInput.of("n_threads", "at least 1", n_threads)
    return n_threads


def _note_plain_python(experiment: Experiment) -> None:
    if not is_compiled(draw_page):
        return  # the compiler is switched off on purpose
    for label, policy in experiment.policies.items():
        if not is_machine_code(policy, experiment.environment):
            warnings.warn(
                f"{label} runs as plain Python, about a hundred times slower than compiled code; "
                "if numba can compile them, decorate its `choose` and `learn` with "
                "slotwise.policies.compiled",
                PlainPythonNote,
                stacklevel=4,
            )


def _all_records(
    experiment: Experiment,
    kept: Parts | None,
    n_threads: int,
    progress: Progress | None,
    timing: Timing | None,
) -> dict[str, list[NDArray[np.float64]]]:
    """Return the record of every run of every policy, playing those not found in `kept`."""
    n_runs = experiment.n_runs
    checkpoints = experiment.checkpoints
    records: dict[str, dict[int, NDArray[np.float64]]] = {
        label: {} for label in experiment.policies
    }
    missing: list[tuple[str, int]] = []
    for run in range(
        n_runs
    ):  # run by run, so that the estimate of the time left covers all policies
        for label in experiment.policies:
            found = None if kept is None else kept.find(label, run)
            if found is None:
                missing.append((label, run))
            else:
                records[label][run] = found
    n_total = n_runs * len(experiment.policies)

    def play_until(label: str, run: int, rounds: NDArray[np.int64]) -> NDArray[np.float64]:
        policy, environment = experiment.policies[label], experiment.environment
        return play_run(policy, environment, experiment.problem, rounds, experiment.seed, run)

    compiled: set[str] = set()

    def play(label: str, run: int) -> NDArray[np.float64]:
        if timing is not None and label not in compiled:
            play_until(label, run, checkpoints[:1])
            compiled.add(label)
        started = time.thread_time()
        record = play_until(label, run, checkpoints)
        if timing is not None:
            timing(label, time.thread_time() - started)
        if kept is not None:
            kept.keep(label, run, record)
        return record

    def tell(n_missing: int) -> None:
        if progress is not None:
            progress(n_total - n_missing, n_total)

    tell(len(missing))
    with ThreadPoolExecutor(n_threads) as pool:
        waiting: dict[Future[NDArray[np.float64]], tuple[str, int]] = {
            pool.submit(play, label, run): (label, run) for label, run in missing
        }
        n_missing = len(waiting)
        try:
            for future in as_completed(waiting):
                label, run = waiting[future]
                records[label][run] = future.result()
                n_missing -= 1
                tell(n_missing)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return {label: [runs[run] for run in range(n_runs)] for label, runs in records.items()}
