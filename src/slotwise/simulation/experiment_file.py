"""Experiments as TOML files: read, checked, every mistake named by file and key."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from slotwise.environments import (
    BernoulliLinks,
    BetaRevenueLinks,
    Environment,
    IntervalLinks,
    LateFeedback,
    drift_towards,
)
from slotwise.environments.datasets import Dataset, load_dataset
from slotwise.errors import InvalidConfig, MissingData, SlotwiseError
from slotwise.policies import Policy, make_policy
from slotwise.problem import Problem
from slotwise.simulation.experiment import Experiment, oracle

__all__ = ["ExperimentFile", "load_experiment"]


def _number(value: Any) -> Any:
    """Read "1/72" as a number, so that files can say what the paper says."""
    if isinstance(value, str) and "/" in value:
        return float(Fraction(value))
    return value


class _Section(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class PolicyEntry(_Section):
    """One policy of an experiment; "oracle" stands for the best fixed mix."""

    name: str
    label: str | None = None
    settings: dict[str, Annotated[Any, pydantic.BeforeValidator(_number)]] = {}


class EnvironmentEntry(_Section):
    """How the rates of the data set turn into feedback."""

    kind: Literal["bernoulli", "beta", "interval", "late", "drifting"] = "bernoulli"
    concentration: float = 4.0
    views_per_round: int = 100
    click_delay: int = 0
    revenue_delay: int = 0
    drift_seed: int = 1
    drift_strength: float = 0.5


class ExperimentFile(_Section):
    """The keys of an experiment's TOML file.

    `original` names the loader of the original files, used instead of `dataset` when a folder
    with them is given.
    """

    title: str
    dataset: str
    original: str | None = None
    options: dict[str, Any] = {}
    n_slots: int | None = None
    click_floor: float | None = None
    failure_probability: float | None = None
    n_rounds: int = 50_000
    n_runs: int = 200
    seed: int = 1
    environment: EnvironmentEntry = EnvironmentEntry()
    policies: list[PolicyEntry]

    def experiment(self, directory: Path | None = None) -> Experiment:
        """Return the experiment, on the original data where `directory` holds it."""
        data = self._load(directory)
        return self._of(data)

    def _load(self, directory: Path | None) -> Dataset:
        if self.original is not None and directory is not None:
            try:
                return self._with_page(load_dataset(self.original, directory))
            except MissingData as missing:
                data = load_dataset(self.dataset, None, **self.options)
                note = f"look-alike used instead of {self.original}: {missing}"
                return self._with_page(data, note)
        return self._with_page(load_dataset(self.dataset, directory, **self.options))

    def _with_page(self, data: Dataset, note: str | None = None) -> Dataset:
        changes: dict[str, Any] = {
            name: value
            for name in ("n_slots", "click_floor", "failure_probability")
            if (value := getattr(self, name)) is not None
        }
        if note is not None:
            changes["notes"] = (*data.notes, note)
        return dataclasses.replace(data, **changes) if changes else data

    def _of(self, data: Dataset) -> Experiment:
        environment = _environment(self.environment, data)
        problem = Problem(data.n_links, data.n_slots, data.click_floor, horizon=self.n_rounds)
        return Experiment(
            environment,
            problem,
            _policies(self.policies, environment, problem, data.failure_probability),
            self.n_runs,
            self.seed,
            title=self.title,
            failure_probability=data.failure_probability,
            dataset={
                "name": data.name,
                "title": data.title,
                "look_alike": data.look_alike,
                "source": data.source,
                "notes": list(data.notes),
            },
        )


def _environment(entry: EnvironmentEntry, data: Dataset) -> Environment:
    rates = (data.click_rate, data.revenue_per_click)
    if entry.kind == "beta":
        return BetaRevenueLinks(*rates, concentration=entry.concentration)
    if entry.kind == "interval":
        return IntervalLinks(*rates, views_per_round=entry.views_per_round)
    links = BernoulliLinks(*rates)
    if entry.kind == "late":
        return LateFeedback(links, entry.click_delay, entry.revenue_delay)
    if entry.kind == "drifting":
        return drift_towards(links, entry.drift_seed, strength=entry.drift_strength)
    return links


def _policies(
    entries: list[PolicyEntry],
    environment: Environment,
    problem: Problem,
    failure_probability: float,
) -> Mapping[str, Policy]:
    policies: dict[str, Policy] = {}
    for entry in entries:
        label = entry.label or entry.name
        if label in policies:
            raise InvalidConfig(f"policies: `label` must be different for each, got {label!r}")
        if entry.name == "oracle":
            n_rounds = problem.horizon or 0
            policies[label] = oracle(environment, problem.n_slots, problem.click_floor, n_rounds)
            continue
        settings = dict(entry.settings)
        if entry.name == "con-ucb":
            settings.setdefault("failure_probability", failure_probability)
        policies[label] = make_policy(entry.name, settings)
    return policies


def load_experiment(path: str | Path, changes: Mapping[str, Any] | None = None) -> ExperimentFile:
    """Read an experiment's TOML file; `changes` replace keys, as command-line options do."""
    path = Path(path)
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise MissingData(f"no experiment file at {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidConfig(f"{path}: not a text file") from error
    try:
        keys = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidConfig(f"{path}: {error}") from error
    try:
        return ExperimentFile.model_validate({**keys, **(changes or {})})
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        got = "" if first["type"] == "missing" else f", got {first['input']!r}"
        raise InvalidConfig(f"{path}: `{key}`: {first['msg']}{got}") from error
    except SlotwiseError as error:
        raise InvalidConfig(f"{path}: {error}") from error
