"""Run experiments into results files, in one queue; finished ones are not run again."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from slotwise.errors import InvalidInput, MissingData, UnsupportedState
from slotwise.simulation.cluster import connected
from slotwise.simulation.experiment import Experiment
from slotwise.simulation.gathering import Gathering, play_missing
from slotwise.simulation.parts import Parts
from slotwise.simulation.results import Results
from slotwise.simulation.run import note_plain_python, thread_count
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

Finished = Callable[[Results], object]
"""Called with the results of an experiment when its file is written."""


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
    finished: Finished | None = None,
) -> list[Results]:
    """Run the unfinished experiments, write their results files, and return all results.

    All runs are one queue, so that no core waits for the last run of an experiment. `finished` is
    called with the results of every experiment of this call, as soon as they are written, while
    others run on. The seconds of an experiment are those since the one before it was finished.

    Experiments share the folder `parts`, and with it their common runs. It is emptied when all
    experiments are finished; until then, the same call continues after Ctrl-C.
    """
    threads = thread_count(n_threads, scheduler)
    series = _Series(plan, parts, progress, finished)
    for gathering in series.unfinished.values():
        note_plain_python(gathering.experiment)
    with connected(scheduler) as client:
        series.look_around()
        playing = play_missing(list(series.unfinished.values()), threads, client)
        with closing(playing) as blocks:
            for _, played in blocks:
                series.look_around(None if client is None else sum(played.seconds))
    for planned in plan:
        Parts(parts, planned.experiment.config()).discard()
    return [series.results[place] for place in range(len(plan))]


class _Series:
    """A plan that is being run: what is finished, and who is told."""

    def __init__(
        self,
        plan: Sequence[Planned],
        parts: Path,
        progress: SeriesProgress | None,
        finished: Finished | None,
    ) -> None:
        self._plan, self._progress, self._finished = plan, progress, finished
        self._clocks = time.perf_counter(), time.process_time()
        self._seconds_of_workers: float | None = None
        self.results: dict[int, Results] = {}
        self.unfinished: dict[int, Gathering] = {}
        for place, planned in enumerate(plan):
            found = finished_results(planned)
            if found is None:
                self.unfinished[place] = Gathering(planned.experiment, parts)
            else:
                self.results[place] = found

    def look_around(self, seconds_of_workers: float | None = None) -> None:
        """Write the results of experiments that are complete by now, and tell how far all is."""
        if seconds_of_workers is not None:
            self._seconds_of_workers = (self._seconds_of_workers or 0.0) + seconds_of_workers
        for place, gathering in list(self.unfinished.items()):
            if gathering.n_done == gathering.n_runs:
                self._tell()
                del self.unfinished[place]
                results = gathering.results(*self._since_last())
                results.save(self._plan[place].path)
                self.results[place] = results
                if self._finished is not None:
                    self._finished(results)
        self._tell()

    def _since_last(self) -> tuple[float, float]:
        """Return the seconds of both clocks since this was last asked; those of workers, if any."""
        before, self._clocks = self._clocks, (time.perf_counter(), time.process_time())
        wall, cpu = (now - then for now, then in zip(self._clocks, before, strict=True))
        if self._seconds_of_workers is not None:
            cpu, self._seconds_of_workers = self._seconds_of_workers, 0.0
        return wall, cpu

    def _tell(self) -> None:
        """Tell the share of the work that is done, and the first experiment that is not."""
        if self._progress is None:
            return
        left = sum(
            self._plan[place].work * (1.0 - gathering.n_done / gathering.n_runs)
            for place, gathering in self.unfinished.items()
        )
        place = min(self.unfinished, default=len(self._plan) - 1)
        whole = sum(planned.work for planned in self._plan)
        self._progress(1.0 - left / whole, self._plan[place].experiment.title)


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
