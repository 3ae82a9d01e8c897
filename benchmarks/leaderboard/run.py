"""Run the leaderboard: every entrant on every case, resumable, with times."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from queue_ts import QueueTS

from benchmarks.leaderboard.board import CaseBoard, Leaderboard
from benchmarks.leaderboard.cases import Case, Effort
from benchmarks.leaderboard.ranking import MOST_CLICKS, ORACLE, rank_case
from benchmarks.leaderboard.suite import Suite
from slotwise.errors import SlotwiseError, UnknownName
from slotwise.plugins import entry_point_names
from slotwise.policies import (
    ENTRY_POINTS,
    POLICIES,
    FixedMix,
    Policy,
    default_policy,
    make_policy,
    setting_names,
)
from slotwise.policies.paced_bayes import PacedBayes
from slotwise.problem import Problem
from slotwise.simulation.cluster import connected
from slotwise.simulation.experiment import Experiment, current_commit
from slotwise.simulation.gathering import Parts
from slotwise.simulation.optimum import oracle
from slotwise.simulation.results import Results
from slotwise.simulation.series import Planned, finished_results, run_experiment
from slotwise.version import __version__

if TYPE_CHECKING:
    from distributed import Client

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "con-ucb/72": ("con-ucb", {"gamma_scale": 1 / 72}),
}
"""Settings other than the defaults that get a row of their own, by label."""

PRIORS = ("uniform", "fitted")


@dataclass(frozen=True)
class MostClicks(PacedBayes):
    """The default policy at a floor that no page can keep: it looks for clicks alone.

    A reference beside the policies. A floor that even this one misses cannot be learned in time.
    """

    name: ClassVar[str] = "most-clicks"

    def start(self, problem: Problem) -> Any:
        """Return a state in which every slot owes a click, or nearly one."""
        return super().start(Problem(problem.n_links, problem.n_slots, 0.999 * problem.n_slots))


def all_entrants() -> dict[str, Policy]:
    """Return registered policies and Queue-TS by label, the default first, without the fixed mix.

    Sampling policies run once for each prior. The experiment tells a policy its horizon.

    >>> entrants = all_entrants()
    >>> next(iter(entrants)) == default_policy().name, "fixed-mix" in entrants
    (True, False)
    """
    entrants: dict[str, Policy] = {default_policy().name: default_policy()}
    for name, policy in {**POLICIES, QueueTS.name: QueueTS}.items():
        if policy is FixedMix:
            continue
        entrants.setdefault(name, policy())
        own_prior = getattr(entrants[name], "prior", None)
        if own_prior is not None:
            for prior in PRIORS:
                if prior != own_prior:
                    settings: dict[str, Any] = {"prior": prior}
                    entrants[f"{name}/{prior}"] = policy(**settings)
        for label, (base, changed) in VARIANTS.items():
            if base == name and set(changed) <= _setting_names(policy):
                entrants[label] = make_policy(base, changed)
    return entrants


def pick_entrants(labels: Sequence[str]) -> dict[str, Policy]:
    """Return the entrants of these labels, and the default, with which all are compared.

    A policy of another package is named by its entry point or as "module:Class".

    >>> list(pick_entrants(["uniform"]))[-1]
    'uniform'
    """
    entrants = all_entrants()
    for label in labels:
        if ":" in label or label in entry_point_names(ENTRY_POINTS):
            entrants.setdefault(label, make_policy(label))
        if label not in entrants:
            known = ", ".join(entrants)
            raise UnknownName(f"no entrant is called {label!r}; known: {known}")
    wanted = {default_policy().name, *labels}
    return {label: policy for label, policy in entrants.items() if label in wanted}


def refusal(policy: Policy, problem: Problem) -> str | None:
    """Return why a policy rejects a problem, or None if it accepts it."""
    try:
        policy.for_problem(problem).start(problem)
    except SlotwiseError as error:
        return str(error)
    return None


def knows_horizon(policy: Policy) -> bool:
    """Return whether a policy uses the number of rounds of an experiment.

    One that plans for rounds to come, as the default can, is not told them by an experiment.

    >>> knows_horizon(default_policy()), knows_horizon(QueueTS())
    (False, True)
    """
    if getattr(policy, "horizon", None) is None and type(policy).plan_for is not Policy.plan_for:
        return False
    return "horizon" in _setting_names(type(policy))


def _setting_names(policy: type[Policy]) -> set[str]:
    return set(setting_names(policy))


Progress = Callable[[float, str], None]
"""Called with the share of the work that is done, and the name of the case that is run."""


@dataclass(frozen=True)
class PlannedCase:
    """A case, its experiment and the paths of its files."""

    case: Case
    planned: Planned
    refused: Mapping[str, str]

    @property
    def seconds_path(self) -> Path:
        """The file with the time of each run, beside the results."""
        return self.planned.path.with_suffix(".seconds.json")

    @property
    def work(self) -> float:
        """The amount of work: time is proportional to slots, plus links if there are many."""
        problem = self.planned.experiment.problem
        width = problem.n_slots + problem.n_links / 40
        return self.planned.n_runs * self.planned.experiment.n_rounds * width


def plan_leaderboard(
    suite: Suite, entrants: Mapping[str, Policy], effort: Effort, out: Path
) -> list[PlannedCase]:
    """Return the experiments of all cases, with the paths of their files in `out`."""
    return [_plan(case, entrants, effort, out) for case in suite.cases]


def _plan(case: Case, entrants: Mapping[str, Policy], effort: Effort, out: Path) -> PlannedCase:
    problem = case.experiment(entrants, effort).problem
    reasons = {label: refusal(policy, problem) for label, policy in entrants.items()}
    refused = {label: why for label, why in reasons.items() if why is not None}
    best = oracle(case.links, problem.n_slots, problem.click_floor, problem.horizon or 1)
    playing = {label: policy for label, policy in entrants.items() if label not in refused}
    references: dict[str, Policy] = {ORACLE: best}
    if case.is_drawn:
        references[MOST_CLICKS] = MostClicks()
    experiment = case.experiment(playing | references, effort)
    return PlannedCase(case, Planned(experiment, out / "results" / f"{case.name}.parquet"), refused)


def run_leaderboard(
    plan: list[PlannedCase],
    parts: Path,
    *,
    notes: tuple[str, ...] = (),
    n_threads: int | None = None,
    scheduler: str | Client | None = None,
    progress: Progress | None = None,
) -> Leaderboard:
    """Run the unfinished cases and rank the policies of all cases.

    Finished cases are results files and finished runs are in `parts`, so that the same call
    continues after Ctrl-C. `parts` is emptied at the end.
    """
    all_work = sum(one.work for one in plan)
    done = 0.0
    boards = []
    with connected(scheduler) as client:
        for one in plan:

            def tell(
                n_done: int, n_runs: int, before: float = done, one: PlannedCase = one
            ) -> None:
                if progress is not None:
                    progress((before + one.work * n_done / n_runs) / all_work, one.case.name)

            boards.append(_board(one, *_results(one, parts, n_threads, client, tell)))
            done += one.work
    for one in plan:
        Parts(parts, one.planned.experiment.config()).discard()
    return Leaderboard(
        default=default_policy().name,
        version=__version__,
        commit=current_commit(),
        seed=plan[0].planned.experiment.seed,
        notes=notes,
        cases=tuple(boards),
    )


def _results(
    one: PlannedCase,
    parts: Path,
    n_threads: int | None,
    client: Client | None,
    tell: Callable[[int, int], None],
) -> tuple[Results, dict[str, list[float]]]:
    """Return results and seconds of a case, from its files or by running it."""
    found = finished_results(one.planned)
    if found is not None:
        seconds = json.loads(one.seconds_path.read_text()) if one.seconds_path.is_file() else {}
        return found, seconds
    seconds = {label: [] for label in one.planned.experiment.policies}

    def note(label: str, spent: float) -> None:
        seconds[label].append(spent)

    results = run_experiment(
        one.planned.experiment,
        n_threads=n_threads,
        scheduler=client,
        parts=parts,
        progress=tell,
        timing=note,
    )
    results.save(one.planned.path)
    one.seconds_path.write_text(json.dumps(seconds), encoding="utf-8")
    return results, seconds


def _board(one: PlannedCase, results: Results, seconds: Mapping[str, list[float]]) -> CaseBoard:
    experiment: Experiment = one.planned.experiment
    uses = {label: knows_horizon(policy) for label, policy in experiment.policies.items()}
    ranking = rank_case(results, seconds, uses)
    problem, config = experiment.problem, results.config
    return CaseBoard(
        name=one.case.name,
        description=one.case.description,
        source=one.case.dataset.source,
        n_links=problem.n_links,
        n_slots=problem.n_slots,
        click_floor=problem.click_floor,
        floor_status=config["optimum"]["status"],
        most_clicks=config["optimum"]["attainable_clicks"],
        best_revenue=config["optimum"]["value"],
        n_rounds=results.n_rounds,
        n_runs=results.n_runs,
        refused=dict(one.refused),
        **ranking._asdict(),
    )
