"""One case of the leaderboard: an environment and how much of it is played."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slotwise.environments import BernoulliLinks, Environment
from slotwise.environments.datasets import Dataset
from slotwise.policies import Policy
from slotwise.problem import Problem
from slotwise.simulation.experiment import Experiment

__all__ = [
    "AIM_RUNS",
    "LONG_RUNS",
    "OTHER_RUNS",
    "Case",
    "Effort",
    "plain_case",
    "plain_links",
]

PAPER_ROUNDS = 50_000
OTHER_ROUNDS = 20_000
"""Rounds of cases with an aim, and of the other cases unless the full suite is run."""

AIM_RUNS, OTHER_RUNS, LONG_RUNS = 20, 5, 3
"""Runs of cases with an aim, of other cases, and of cases with long runs."""


@dataclass(frozen=True)
class Case:
    """One environment of the suite, with enough rounds and runs to tell policies apart.

    `full_rounds` is the number of rounds of the full suite; `slot_weights` says what policies know
    of the slots. Where `is_drawn`, nobody has seen the pool: whether its floor can be learned in
    time is then found out by a policy that wants nothing but clicks.
    """

    name: str
    description: str
    dataset: Dataset
    links: Environment
    n_rounds: int = OTHER_ROUNDS
    n_runs: int = OTHER_RUNS
    full_rounds: int = PAPER_ROUNDS
    slot_weights: str | None = None
    is_drawn: bool = False

    def experiment(self, policies: Mapping[str, Policy], effort: Effort) -> Experiment:
        """Return the experiment in which `policies` meet this case."""
        own_rounds = self.full_rounds if effort.is_full else self.n_rounds
        n_rounds = own_rounds if effort.n_rounds is None else effort.n_rounds
        dataset = self.dataset
        return Experiment(
            environment=self.links,
            problem=Problem(
                dataset.n_links,
                dataset.n_slots,
                dataset.click_floor,
                horizon=n_rounds,
                feature_sizes=self.links.feature_sizes,
                slot_weights=self.slot_weights or (),
            ),
            policies=policies,
            n_runs=self.n_runs if effort.n_runs is None else effort.n_runs,
            seed=effort.seed,
            title=self.name,
            dataset={
                "name": dataset.name,
                "title": dataset.title,
                "look_alike": dataset.look_alike,
                "source": dataset.source,
                "notes": list(dataset.notes),
            },
            failure_probability=dataset.failure_probability,
        )


@dataclass(frozen=True)
class Effort:
    """Rounds and runs that replace those of the cases, and the seed."""

    n_rounds: int | None = None
    n_runs: int | None = None
    seed: int = 1
    is_full: bool = False


def plain_case(name: str, description: str, dataset: Dataset, n_runs: int = OTHER_RUNS) -> Case:
    """Return the case of a data set whose links are neither late nor drifting."""
    n_rounds = PAPER_ROUNDS if n_runs == AIM_RUNS else OTHER_ROUNDS
    return Case(name, description, dataset, plain_links(dataset), n_rounds, n_runs)


def plain_links(dataset: Dataset) -> BernoulliLinks:
    """Return links that are clicked and bought from at the rates of a data set."""
    return BernoulliLinks(dataset.click_rate, dataset.revenue_per_click)
