"""Run an experiment: all runs of all policies, on threads or on a cluster, resumable."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from slotwise.environments import Environment
from slotwise.errors import InvalidInput
from slotwise.policies import Policy
from slotwise.problem import Problem, whole_number
from slotwise.selection import draw_page
from slotwise.selection.compiled import is_compiled
from slotwise.simulation.cluster import connected
from slotwise.simulation.engine import is_machine_code
from slotwise.simulation.experiment import Experiment, label_policies
from slotwise.simulation.gathering import Gathering, play_missing
from slotwise.simulation.results import Results

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["PlainPythonNote", "note_plain_python", "run_experiment", "simulate", "thread_count"]

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
    slot_weights: Sequence[float] | str | None = None,
    floors_by: Mapping[str, Mapping[Any, float]] | None = None,
    n_threads: int | None = None,
    scheduler: str | Client | None = None,
    parts: str | Path | None = None,
    progress: Progress | None = None,
) -> Results:
    """Run every policy on the same visitors and return the results.

    Policies that need a horizon and have none get `n_rounds`. The numbers depend on the seed
    alone, not on the number of threads or on the other policies. `parts` is a folder that keeps
    finished runs: after Ctrl-C the same call continues from there. `floors`, `rate_floors` and
    `rewards` are those of `Problem`, for links with more than two levels. `slot_weights` says what
    policies know of slots that differ: "learn", the weights themselves, or None for slots that
    are taken to be alike. `floors_by` asks for clicks of the visitors with a feature value, as in
    `Selector`. `scheduler` is a client
    of a Dask cluster, or the address of its scheduler; the runs are then made by its workers.

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
        feature_sizes=links.feature_sizes,
        slot_weights=slot_weights,  # type: ignore[arg-type]
        value_floors=links.value_floors(floors_by or {}),
    )
    experiment = Experiment(links, problem, label_policies(policies), n_runs, seed)
    folder = None if parts is None else Path(parts)
    return run_experiment(
        experiment, n_threads=n_threads, scheduler=scheduler, parts=folder, progress=progress
    )


def run_experiment(
    experiment: Experiment,
    *,
    n_threads: int | None = None,
    scheduler: str | Client | None = None,
    parts: Path | None = None,
    progress: Progress | None = None,
    timing: Timing | None = None,
) -> Results:
    """Run the unfinished runs of an experiment and return all its results.

    `timing` is called for the runs of this call, not for those found in `parts`. Compilation is
    not part of the time.
    """
    n_threads = thread_count(n_threads, scheduler)
    note_plain_python(experiment)
    wall, cpu, seconds_of_runs = time.perf_counter(), time.process_time(), 0.0
    gathering = Gathering(experiment, parts)
    if progress is not None:
        progress(gathering.n_done, gathering.n_runs)
    with (
        connected(scheduler) as client,
        closing(play_missing([gathering], n_threads, client)) as finished,
    ):
        for block, played in finished:
            for seconds in played.seconds:
                seconds_of_runs += seconds
                if timing is not None:
                    timing(block.label, seconds)
            if progress is not None:
                progress(gathering.n_done, gathering.n_runs)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return gathering.results(wall, cpu if scheduler is None else seconds_of_runs)


def thread_count(n_threads: int | None, scheduler: object) -> int:
    """Return the number of threads, by default one for each core."""
    if n_threads is None:
        return os.cpu_count() or 1
    if n_threads < 1:
        raise InvalidInput.of("n_threads", "at least 1", n_threads)
    if scheduler is not None:
        rule = "left out with `scheduler`, whose workers have their own threads"
        raise InvalidInput.of("n_threads", rule, n_threads)
    return n_threads


def note_plain_python(experiment: Experiment) -> None:
    """Warn of policies and environments that run slowly."""
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
