"""`simulate` and the runs of experiment files: one queue, and finished results are reused.

Used by `simulated_log` and `cli`.
"""

from __future__ import annotations

import json
import math
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from slotwise.arrays import Floats
from slotwise.compile import compiles
from slotwise.environments import BernoulliLinks, Environment
from slotwise.environments.datasets import Dataset, load_dataset
from slotwise.errors import InvalidInput, MissingData, UnsupportedState
from slotwise.policies import Policy
from slotwise.problem import Problem, Rule, whole_number
from slotwise.selector.arguments import refuse_unknown
from slotwise.simulation.cluster import connected
from slotwise.simulation.compile_ahead import compile_ahead
from slotwise.simulation.engine import is_machine_code
from slotwise.simulation.experiment import Experiment, label_policies
from slotwise.simulation.experiment_file import ExperimentFile, load_experiment
from slotwise.simulation.gathering import Gathering, Parts, Shard, play_missing
from slotwise.simulation.promised_runs import own_page_plan
from slotwise.simulation.results import Results
from slotwise.simulation.shipped_experiments import shipped_experiments

if TYPE_CHECKING:
    from distributed import Client


NO_FLOORS: Mapping[str, float] = MappingProxyType({})
NO_SEGMENTS: Mapping[str, Mapping[Any, float]] = MappingProxyType({})

Progress = Callable[[int, int], None]
"""Called with the number of finished runs and the number of all runs."""

Timing = Callable[[str, float], None]
"""Called with the label of a policy and the processor seconds of a run that just finished."""


class PlainPythonNote(UserWarning):
    """A policy or environment is plain Python, so it runs slowly."""


def simulate(  # noqa: PLR0913
    links: Environment | Dataset | str,
    policies: Policy | str | Iterable[Policy | str] | Mapping[str, Policy | str],
    n_slots: int | None = None,
    click_floor: float | None = None,
    n_rounds: int = 50_000,
    n_runs: int = 20,
    seed: int = 1,
    *,
    floors: Mapping[str, float] = NO_FLOORS,
    rate_floors: Mapping[str, float] = NO_FLOORS,
    rewards: Mapping[str, float] = NO_FLOORS,
    slot_weights: Sequence[float] | str | None = None,
    segment_floors: Mapping[str, Mapping[Any, float]] = NO_SEGMENTS,
    rules: Sequence[Rule] = (),
    own_page: Sequence[int] | None = None,
    keep: float | None = None,
    n_threads: int | None = None,
    scheduler: str | Client | None = None,
    parts: str | Path | None = None,
    progress: Progress | None = None,
    **unknown: object,
) -> Results:
    """Run every policy on the same visitors and return the results.

    `links` are an environment, a data set or the name of a built-in data set. The slots and the
    floor of a data set are used unless others are given, and its failure probability for policies
    that are given by name.

    A policy is given with its settings or by its name. Policies that need a horizon and have none
    get `n_rounds`. The numbers depend on the seed alone, not on the number of threads or on the
    other policies. `parts` is a folder for finished runs: after Ctrl-C the same call continues from
    there. `floors`, `rate_floors` and `rewards` are those of `Problem`, for links with more than
    two levels. `slot_weights` is what policies know of slots that differ: "learn", the weights
    themselves, or None to treat all slots alike. `segment_floors` are click floors of segments, as
    in `Selector`. `rules` are those of a `Selector`, with links numbered from 0 on; regret is then
    measured against the best mix within the rules. `own_page` and `keep` are those of a `Selector`,
    for all policies, with links numbered from 0 on. `scheduler` is a client of a Dask cluster, or
    the address of its scheduler; its workers then play the runs.

    >>> import slotwise
    >>> links = slotwise.BernoulliLinks([0.3, 0.2, 0.1], [0.1, 0.5, 0.9])
    >>> results = simulate(links, [slotwise.CUCB()], n_slots=1, n_rounds=100, n_runs=3)
    >>> results.final("cucb", "reward").shape
    (3,)
    >>> simulate("ads-like", "uniform", n_rounds=10, n_runs=2).config["click_floor"]
    10.0
    """
    refuse_unknown(unknown, simulate)
    n_rounds = whole_number("n_rounds", n_rounds, at_least=1)
    n_runs = whole_number("n_runs", n_runs, at_least=1)
    data = load_dataset(links) if isinstance(links, str) else links
    described: dict[str, Any] = {}
    usual: dict[str, Any] = {}
    if isinstance(data, Dataset):
        n_slots = data.n_slots if n_slots is None else n_slots
        click_floor = data.click_floor if click_floor is None else click_floor
        usual = {"failure_probability": data.failure_probability}
        described, links = {"dataset": data.description, **usual}, data.links
    if not isinstance(links, Environment):
        rule = (
            "an environment such as BernoulliLinks(click_rate, revenue_per_click), a data set or "
            "the name of one"
        )
        raise InvalidInput.of("links", rule, links)
    if n_slots is None:
        raise InvalidInput.of("n_slots", "given with an environment", None)
    problem = Problem(
        links.n_links,
        n_slots,
        0.0 if click_floor is None else click_floor,
        levels=links.levels,
        horizon=n_rounds,
        floors=floors,
        rate_floors=rate_floors,
        rewards=rewards,
        features=links.features,
        slot_weights=slot_weights,  # type: ignore[arg-type]
        segment_floors=segment_floors,
        rules=rules,  # type: ignore[arg-type]
    )
    if isinstance(policies, str | Policy):
        policies = [policies]
    labelled = label_policies(policies, usual)
    plan = own_page_plan(own_page, keep)
    own_pages = {} if plan is None else dict.fromkeys(labelled, plan)
    experiment = Experiment(
        links, problem, labelled, n_runs, seed, own_pages=own_pages, **described
    )
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
    if not compiles():
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


SeriesProgress = Callable[[float, str], None]
"""Called with the share of the work that is done, and the title of the experiment that is run."""

Finished = Callable[[Results], object]
"""Called with the results of an experiment when its file is written."""


@dataclass(frozen=True)
class Planned:
    """An experiment and the path of its results file."""

    experiment: Experiment
    path: Path

    @property
    def n_runs(self) -> int:
        """The number of runs of all policies."""
        return self.experiment.n_runs * len(self.experiment.policies)

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
        series.write_finished()
        if client is None:
            compile_ahead((one.experiment for one in series.unfinished.values()), threads)
        playing = play_missing(list(series.unfinished.values()), threads, client)
        with closing(playing) as blocks:
            for _, played in blocks:
                series.write_finished(None if client is None else sum(played.seconds))
    for planned in plan:
        Parts(parts, planned.experiment.config()).discard()
    return [series.results[place] for place in range(len(plan))]


class _Series:
    """A plan that is being run: what is finished, and who is notified."""

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

    def write_finished(self, seconds_of_workers: float | None = None) -> None:
        """Write the results of experiments that are complete by now, and report progress."""
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
        """Return the seconds of both clocks since the last call; those of workers, if any."""
        before, self._clocks = self._clocks, (time.perf_counter(), time.process_time())
        wall, cpu = (now - then for now, then in zip(self._clocks, before, strict=True))
        if self._seconds_of_workers is not None:
            cpu, self._seconds_of_workers = self._seconds_of_workers, 0.0
        return wall, cpu

    def _tell(self) -> None:
        """Report the share of the work that is done, and the first unfinished experiment."""
        if self._progress is None:
            return
        left = sum(
            self._plan[place].work * (1.0 - gathering.n_done / gathering.n_runs)
            for place, gathering in self.unfinished.items()
        )
        place = min(self.unfinished, default=len(self._plan) - 1)
        whole = sum(planned.work for planned in self._plan)
        self._progress(1.0 - left / whole, self._plan[place].experiment.title)


def run_shard(
    plan: Sequence[Planned],
    parts: Path,
    text: str,
    *,
    n_threads: int | None = None,
    progress: SeriesProgress | None = None,
) -> int:
    """Play the runs of one shard, such as 3/16, into the folder `parts`; return their number.

    `run_series` with the same folder finds them there and plays those that are missing.
    """
    shard, threads = Shard.parse(text), thread_count(n_threads, None)
    gatherings = [Gathering(planned.experiment, parts, shard) for planned in plan]
    n_runs = sum(gathering.n_runs for gathering in gatherings)
    if not n_runs:
        most = max(planned.experiment.n_runs for planned in plan)
        raise InvalidInput.of("shard", f"of at most as many parts as runs ({most})", text)

    def tell() -> None:
        if progress is not None:
            progress(sum(one.n_done for one in gatherings) / n_runs, f"shard {text}")

    tell()
    with closing(play_missing(gatherings, threads, None)) as blocks:
        for _ in blocks:
            tell()
    return n_runs


def results_in(path: Path) -> Results | None:
    """Return the results in a file; None where it has none that this version can read."""
    try:
        return Results.load(path)
    except (MissingData, UnsupportedState):
        return None


def finished_results(planned: Planned) -> Results | None:
    """Return the results in the file if they are of exactly this experiment, else None."""
    found = results_in(planned.path)
    if found is None:
        return None
    wanted = json.loads(json.dumps(planned.experiment.config()))
    told_apart = {*wanted, *found.config} - {"commit", "seconds"}
    is_same = all(found.config.get(key) == wanted.get(key) for key in told_apart)
    return found if is_same and found.n_runs == planned.experiment.n_runs else None


def refuse_to_shrink(plan: Iterable[Planned]) -> None:
    """Raise `InvalidInput` if results of more runs or rounds would be replaced by smaller ones."""
    for planned in plan:
        found = results_in(planned.path)
        n_runs, n_rounds = planned.experiment.n_runs, planned.experiment.n_rounds
        if found and (found.n_runs > n_runs or found.n_rounds > n_rounds):
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
        else Parts(parts, planned.experiment.config()).count(range(planned.experiment.n_runs))
        for planned in plan
    )


def notes_of(plan: Iterable[Planned]) -> list[str]:
    """Return the notes on the data sets of a plan, each once."""
    notes = (note for planned in plan for note in planned.experiment.dataset.get("notes", ()))
    return list(dict.fromkeys(notes))


FIGURES = ("figure-1-coupon", "figure-2-ads", "figure-2-ads-binding", "figure-3-edx")
SWEEPS = (
    "gamma-sweep-coupon",
    "gamma-sweep-ads",
    "gamma-sweep-ads-binding",
    "gamma-sweep-edx",
)

QUICK = {"n_rounds": 2_000, "n_runs": 6}
"""Sizes for a first look: about a minute instead of hours of processor time."""


def plan_paper(
    out: Path,
    data: Path | None = None,
    *,
    n_runs: int | None = None,
    n_rounds: int | None = None,
    is_quick: bool = False,
) -> list[Planned]:
    """Return the experiments of the paper's figures, then the sweeps over γ, with their files.

    Results files lie in `out/results`. `n_runs` and `n_rounds` replace those of the experiment
    files; a sweep never has more runs than its own file says. `data` is the directory with the
    original data sets; look-alikes are used where it does not have them. An experiment whose floor
    no page reaches is followed by the same one with the highest round floor that can be kept.
    """
    given = {"n_runs": n_runs, "n_rounds": n_rounds}
    changes: dict[str, Any] = dict(QUICK) if is_quick else {}
    changes |= {key: value for key, value in given.items() if value is not None}
    shipped = shipped_experiments()
    plan = []
    for name in (*FIGURES, *SWEEPS):
        file = load_experiment(shipped[name], changes)
        if name in SWEEPS:
            max_runs = load_experiment(shipped[name]).n_runs
            file = file.model_copy(update={"n_runs": min(file.n_runs, max_runs)})
        experiment = file.experiment(data)
        plan.append(Planned(experiment, out / "results" / f"{name}.parquet"))
        if experiment.optimum().status == "infeasible":
            lower = with_feasible_floor(file, experiment, data)
            floor = lower.problem.click_floor
            plan.append(Planned(lower, out / "results" / f"{name}-floor-{floor:g}.parquet"))
    return plan


def with_feasible_floor(
    file: ExperimentFile, experiment: Experiment, data: Path | None
) -> Experiment:
    """Return the experiment of `file` with the highest round floor that a page can keep."""
    given, most = experiment.problem.click_floor, experiment.optimum().clicks
    floor = highest_round_number(most)
    note = (
        f"no page of {experiment.dataset['title']} reaches the floor of {given:g}: the most "
        f"clicked one has {most:.4g} clicks; also run with a floor of {floor:g}"
    )
    changes = {"click_floor": floor, "title": f"{file.title}, floor {floor:g}"}
    lower = file.model_copy(update=changes).experiment(data)
    dataset = {**lower.dataset, "instead_of_floor": given}
    return replace(lower, dataset={**dataset, "notes": [*lower.dataset["notes"], note]})


def highest_round_number(limit: float) -> float:
    """Return the largest whole number up to `limit`; below 1, the largest with one digit.

    >>> highest_round_number(9.28), highest_round_number(0.0347)
    (9.0, 0.03)
    """
    if limit >= 1 or limit <= 0:
        return float(math.floor(limit))
    unit = 10.0 ** math.floor(math.log10(limit))
    return round(math.floor(limit / unit) * unit, 12)


class FittedCounts(NamedTuple):
    """Views, clicks and revenue of each link; revenue is at most 1 a click."""

    views: Floats
    clicks: Floats
    revenue: Floats


def simulate_fitted(
    counts: FittedCounts, policy: Policy, problem: Problem, n_runs: int = 20, seed: int = 1
) -> Floats:
    """Return clicks and revenue a page view of each run of `policy`, on rates drawn anew.

        click rate ~ Beta(1 + clicks, 1 + views - clicks)
        revenue per click ~ Beta(1 + revenue, 1 + clicks - revenue)

    Slots, floor and rounds are those of `problem`. The policy starts from scratch in every run. So
    the spread over runs has the chance of the visitors and what the counts leave open in it. It has
    nothing of drift, of links that influence each other, or of visitors that differ.
    """
    views, clicks, revenue = counts
    n_rounds = whole_number("horizon", problem.horizon, at_least=1)
    rng = np.random.default_rng(seed)
    brought = []
    for run in range(n_runs):
        click_rates = rng.beta(1 + clicks, 1 + np.maximum(views - clicks, 0))
        per_click = rng.beta(1 + revenue, 1 + np.maximum(clicks - revenue, 0))
        results = simulate(
            BernoulliLinks(click_rates, per_click),
            {"policy": policy},
            problem.n_slots,
            problem.click_floor,
            n_rounds,
            n_runs=1,
            seed=seed + run,
            n_threads=1,
        )
        totals = results.totals["policy"]
        brought.append([totals[name][0, -1] for name in ("clicks", "reward")])
    return np.array(brought).T / n_rounds
