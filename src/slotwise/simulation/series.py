"""Run experiments into results files, one after another; finished ones are not run again."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from slotwise.errors import InvalidInput, MissingData, UnsupportedState
from slotwise.simulation.cluster import connected
from slotwise.simulation.experiment import Experiment
from slotwise.simulation.parts import Parts
from slotwise.simulation.results import Results
from slotwise.simulation.run import run_experiment
from slotwise.simulation.shards import Shard, shard_path

if TYPE_CHECKING:
    from distributed import Client

__all__ = [
    "Planned",
    "finished_results",
    "kept_runs",
    "notes_of",
    "refuse_to_shrink",
    "run_series",
    "shard_plan",
]

SeriesProgress = Callable[[float, str], None]
"""Called with the share of the work that is done, and the title of the experiment that is run."""


@dataclass(frozen=True)
class Planned:
    """An experiment and the path of its results file."""

    experiment: Experiment
    path: Path

    def shard(self, shard: Shard) -> Planned | None:
        """Return the part of a shard with a file of its own; None if no run falls to it."""
        runs = shard.runs(self.experiment.n_runs)
        if not runs:
            return None
        experiment = dataclasses.replace(self.experiment, shard_runs=runs)
        return Planned(experiment, shard_path(self.path, shard))

    @property
    def n_runs(self) -> int:
        """The number of runs of all policies."""
        return len(self.experiment.runs) * len(self.experiment.policies)

    @property
    def work(self) -> float:
        """The number of slots to fill, to which the time is roughly proportional."""
        return float(self.n_runs * self.experiment.n_rounds * self.experiment.problem.n_slots)


def run_series(
    plan: Sequence[Planned],
    parts: Path,
    *,
    n_threads: int | None = None,
    scheduler: str | Client | None = None,
    progress: SeriesProgress | None = None,
) -> list[Results]:
    """Run the unfinished experiments, write their results files, and return all results.

    Experiments share the folder `parts`, and with it their common runs. It is emptied when all
    experiments are finished; until then, the same call continues after Ctrl-C.
    """
    results = []
    all_work = sum(planned.work for planned in plan)
    work_done = 0.0
    with connected(scheduler) as client:
        for planned in plan:

            def tell(
                n_done: int, n_runs: int, before: float = work_done, planned: Planned = planned
            ) -> None:
                if progress is not None:
                    share = (before + planned.work * n_done / n_runs) / all_work
                    progress(share, planned.experiment.title)

            found = finished_results(planned)
            if found is None:
                found = run_experiment(
                    planned.experiment,
                    n_threads=n_threads,
                    scheduler=client,
                    parts=parts,
                    progress=tell,
                )
                found.save(planned.path)
            results.append(found)
            work_done += planned.work
    for planned in plan:
        Parts(parts, planned.experiment.config()).discard()
    return results


def shard_plan(plan: Sequence[Planned], text: str, out: Path) -> tuple[list[Planned], Path]:
    """Return the part of a shard of every experiment, and the folder for its finished runs.

    Shards have folders of their own, because a finished shard empties its folder.
    """
    shard = Shard.parse(text)
    parts = [part for planned in plan if (part := planned.shard(shard)) is not None]
    if not parts:
        n_runs = max(planned.experiment.n_runs for planned in plan)
        raise InvalidInput.of("shard", f"of at most as many parts as runs ({n_runs})", text)
    return parts, out / f"parts-{shard.number}-of-{shard.of}"


def finished_results(planned: Planned) -> Results | None:
    """Return the results in the file if they are of exactly this experiment, else None."""
    try:
        found = Results.load(planned.path)
    except (MissingData, UnsupportedState):
        return None
    wanted = json.loads(json.dumps(planned.experiment.config()))
    told_apart = {*wanted, *found.config} - {"commit", "seconds"}
    is_same = all(found.config.get(key) == wanted.get(key) for key in told_apart)
    return found if is_same and found.n_runs == len(planned.experiment.runs) else None


def refuse_to_shrink(plan: Iterable[Planned]) -> None:
    """Raise `InvalidInput` if results of more runs or rounds would be replaced by smaller ones."""
    for planned in plan:
        try:
            found = Results.load(planned.path)
        except (MissingData, UnsupportedState):
            continue
        n_runs, n_rounds = len(planned.experiment.runs), planned.experiment.n_rounds
        if found.n_runs > n_runs or found.n_rounds > n_rounds:
            raise InvalidInput(
                f"{planned.path} has {found.n_runs:,} runs of {found.n_rounds:,} rounds and would "
                f"be replaced by {n_runs:,} runs of {n_rounds:,}; name another folder",
                argument="out",
            )


def kept_runs(plan: Sequence[Planned], parts: Path) -> int:
    """Return the number of runs of the plan that are on disk, in results files or as parts."""
    return sum(
        planned.n_runs
        if finished_results(planned) is not None
        else Parts(parts, planned.experiment.config()).count(planned.experiment.runs)
        for planned in plan
    )


def notes_of(plan: Iterable[Planned]) -> list[str]:
    """Return the notes on the data sets of a plan, each once."""
    notes = (note for planned in plan for note in planned.experiment.dataset.get("notes", ()))
    return list(dict.fromkeys(notes))
