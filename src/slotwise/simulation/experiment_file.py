"""Experiments as TOML files; every error names the file and the key. Used by `series`."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, get_args

import pydantic

from slotwise.environments import Environment
from slotwise.environments.datasets import Dataset, Loader, LookAlike, find_dataset, load_dataset
from slotwise.errors import InvalidConfig, InvalidInput, MissingData, SlotwiseError, did_you_mean
from slotwise.player.link_pool import LinkPool
from slotwise.player.rules_in_force import check_links
from slotwise.policies import FixedMix, Policy, make_policy, policy_class, setting_names
from slotwise.problem import Problem
from slotwise.simulation.experiment import Experiment
from slotwise.simulation.experiment_sections import (
    Bernoulli,
    Beta,
    Drifting,
    FixedPrice,
    IntervalTable,
    Late,
    Logistic,
    Section,
    Segments,
    Slots,
)
from slotwise.simulation.promised_runs import OwnPagePlan, own_page_plan

EnvironmentSection = Annotated[
    Bernoulli | Beta | FixedPrice | IntervalTable | Late | Drifting | Slots | Segments | Logistic,
    pydantic.Field(discriminator="kind"),
]


ORACLE = "oracle"


def _number(value: object) -> object:
    """Read "1/72" as a number, so that files can state fractions as the paper does."""
    if isinstance(value, str) and "/" in value:
        try:
            return float(Fraction(value))
        except (ValueError, ZeroDivisionError):
            raise ValueError("a number, or a fraction such as 1/72") from None
    return value


class PolicySection(Section):
    """One policy of an experiment; "oracle" means the best fixed mix."""

    name: str
    label: str | None = None
    settings: dict[str, Annotated[Any, pydantic.BeforeValidator(_number)]] = pydantic.Field({})
    own_page: list[int] | None = None
    keep: float | None = None


class ExperimentFile(Section):
    """The keys of an experiment's TOML file.

    `original` names the loader of the original files, used instead of `dataset` when a folder
    with them is given. `data` is the file or folder of the data set, relative to the experiment
    file; a path that is given to `experiment` replaces it.

    `n_slots`, `click_floor` and `failure_probability` are those of the data set unless they are
    given here. `floors`, `rate_floors` and `rewards` are those of `Problem`, by the levels of the
    data set; a floor on the first level replaces its click floor.
    `knows_visitors` says whether policies see the visitor, `slot_weights` what they know of
    slots: "learn", the weights, or nothing. `segment_floors` has click floors by feature and value.
    `rules` are those of `Problem`, whose links are numbered from 0 on in the order of the data set.
    `own_page` and `keep` are those of a `Selector`, for all policies or for one of them; a policy
    with an empty `own_page` has none.
    """

    title: str
    dataset: str
    original: str | None = None
    data: str | None = None
    options: dict[str, Any] = pydantic.Field({})
    n_slots: int | None = None
    click_floor: float | None = None
    failure_probability: float | None = None
    floors: dict[str, float] = pydantic.Field({})
    rate_floors: dict[str, float] = pydantic.Field({})
    rewards: dict[str, float] = pydantic.Field({})
    knows_visitors: bool = True
    slot_weights: str | list[float] | None = None
    segment_floors: dict[str, dict[str, float]] = pydantic.Field({})
    rules: list[dict[str, Any]] = pydantic.Field([])
    own_page: list[int] | None = None
    keep: float | None = None
    n_rounds: int = pydantic.Field(50_000, ge=1)
    n_runs: int = pydantic.Field(200, ge=1)
    seed: int = pydantic.Field(1, ge=0)
    environment: EnvironmentSection = Bernoulli()
    policies: list[PolicySection] = pydantic.Field(min_length=1)

    _path: Path = pydantic.PrivateAttr(Path("experiment"))

    def experiment(self, directory: Path | None = None) -> Experiment:
        """Return the experiment, on the original data if `directory` holds it.

        It may be a folder or a file, and replaces the path that the experiment file names.
        """
        if directory is None and self.data is not None:
            directory = self._path.parent / self.data
            if not directory.exists():
                raise InvalidConfig(f"{self._path}: `data`: no file or folder at {directory}")
        elif directory is not None and not directory.exists():
            raise InvalidInput.of("data", "a file or folder that exists", str(directory))
        with self._blaming("dataset"):
            data = self._load(directory)
        with self._blaming("environment"):
            environment = self.environment.environment(data)
        with self._blaming():
            problem = self._problem(data, environment)
            policies = self._policies(problem, data.failure_probability)
            experiment = Experiment(
                environment,
                problem,
                policies,
                self.n_runs,
                self.seed,
                title=self.title,
                failure_probability=data.failure_probability,
                dataset={**data.description, "original": self.original or data.name},
                own_pages=self._own_pages(policies, problem),
            )
        for place, (label, entry) in enumerate(zip(policies, self.policies, strict=True)):
            if entry.name == ORACLE:
                with self._blaming(f"policies.{place}"):
                    policies[label] = FixedMix(tuple(experiment.optimum().probabilities.tolist()))
        return experiment

    def _load(self, directory: Path | None) -> Dataset:
        # a table has no page size of its own and needs one
        options = self.options | self._page
        if self.original is not None and directory is not None:
            try:
                return self._with_page(load_dataset(self.original, directory))
            except MissingData as missing:
                note = f"look-alike used instead of {self.original}: {missing}"
                return self._with_page(load_dataset(self.dataset, **options), note)
        entry = find_dataset(self.dataset)
        if isinstance(entry, Loader) and directory is None:
            rule = f"the path of {entry.origin}"
            raise InvalidInput.of("data", rule, None, "name it in this file or with --data")
        files = None if isinstance(entry, LookAlike) else directory
        return self._with_page(load_dataset(self.dataset, files, **options))

    @property
    def _page(self) -> dict[str, Any]:
        """The page as the file describes it; the data set has the rest."""
        names = ("n_slots", "click_floor", "failure_probability")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def _with_page(self, data: Dataset, note: str | None = None) -> Dataset:
        changes = self._page
        if note is not None:
            changes["notes"] = (*data.notes, note)
        return dataclasses.replace(data, **changes) if changes else data

    def _problem(self, data: Dataset, environment: Environment) -> Problem:
        is_replaced = self.click_floor is None and data.levels[0] in self.floors
        problem = Problem(
            data.n_links,
            data.n_slots,
            0.0 if is_replaced else data.click_floor,
            levels=data.levels,
            horizon=self.n_rounds,
            floors=self.floors,
            rate_floors=self.rate_floors,
            rewards=self.rewards,
            features=environment.features if self.knows_visitors else {},
            slot_weights=self.slot_weights,  # type: ignore[arg-type]
            segment_floors=self.segment_floors,
            rules=self.rules,  # type: ignore[arg-type]
        )
        with self._blaming("rules"):
            check_links(problem.rules, LinkPool(range(data.n_links)))
        return problem

    def _policies(self, problem: Problem, failure_probability: float) -> dict[str, Policy]:
        """Return the policies by label; the oracle's mix comes with the optimum of all."""
        policies: dict[str, Policy] = {}
        for place, entry in enumerate(self.policies):
            with self._blaming(f"policies.{place}"):
                is_oracle = entry.name == ORACLE
                label = entry.label or (ORACLE if is_oracle else policy_class(entry.name).name)
                if label in policies:
                    raise InvalidConfig(f"`label` must be different for each, got {label!r}")
                if is_oracle:
                    policies[label] = FixedMix(())  # filled in by `experiment`
                    continue
                settings = dict(entry.settings)
                if "failure_probability" in setting_names(policy_class(entry.name)):
                    settings.setdefault("failure_probability", failure_probability)
                policy = make_policy(entry.name, settings)
                policy.for_problem(problem).start(problem)  # fail now instead of after an hour
            policies[label] = policy
        return policies

    def _own_pages(
        self, policies: Mapping[str, Policy], problem: Problem
    ) -> dict[str, OwnPagePlan]:
        """Return the own pages of the policies that have one."""
        plans = {}
        for place, (label, entry) in enumerate(zip(policies, self.policies, strict=True)):
            order = self.own_page if entry.own_page is None else entry.own_page or None
            keep = self.keep if entry.keep is None else entry.keep
            if order is None and entry.own_page is not None:
                keep = entry.keep
            with self._blaming(f"policies.{place}"):
                plan = own_page_plan(order, keep)
                if plan is not None:
                    plan.page(problem)
                    plans[label] = plan
        return plans

    @contextmanager
    def _blaming(self, key: str | None = None) -> Iterator[None]:
        """Name the file and the key in an error, except for missing data files."""
        try:
            yield
        except (MissingData, _Blamed):
            raise
        except (SlotwiseError, TypeError, ValueError) as error:
            where = f"{self._path}: `{key}`" if key else f"{self._path}"
            raise _Blamed(f"{where}: {error}") from error


class _Blamed(InvalidConfig):
    """An error that already names its file and key."""


def load_experiment(
    path: str | Path, changes: Mapping[str, object] | None = None
) -> ExperimentFile:
    """Read an experiment file; `changes` replace keys, as command-line options do."""
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
    except RecursionError:
        raise InvalidConfig(f"{path}: values are nested too deeply") from None
    try:
        file = ExperimentFile.model_validate({**keys, **(changes or {})})
    except pydantic.ValidationError as error:
        raise InvalidConfig(f"{path}: {_first_problem(error)}") from error
    file._path = path
    return file


_RULES = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a table",
    "greater_than_equal": "at least {ge}",
    "too_short": "a list of at least {min_length}",
    "value_error": "{error}",
}
"""The rules that pydantic checks, by its names of errors."""
_KINDS: dict[str, type[Section]] = {
    get_args(one.model_fields["kind"].annotation)[0]: one
    for one in get_args(get_args(EnvironmentSection)[0])
}


def _first_problem(error: pydantic.ValidationError) -> str:
    """Return what is wrong with the first wrong key, in one sentence."""
    found = error.errors()
    # a misspelt key first: it is also why another one is missing
    first = next((one for one in found if one["type"] == "extra_forbidden"), found[0])
    kind, parts = first["type"], [str(part) for part in first["loc"]]
    section: type[Section] = PolicySection if parts[0] == "policies" else ExperimentFile
    if parts[0] == "environment" and len(parts) > 1:
        section = _KINDS[parts.pop(1)]  # pydantic names the kind, which is no part of the key
    key = ".".join(parts)
    if kind.startswith("union_tag"):
        given = str(first.get("ctx", {}).get("tag", ""))
        return f"`{key}.kind` must be a kind of environment, got {given!r}; " + did_you_mean(
            given, _KINDS, "'"
        )
    if kind == "missing":
        return f"`{key}` is missing"
    if kind == "extra_forbidden":
        advice = did_you_mean(parts[-1], section.model_fields)
        own = "; settings of the policy go into `settings`" if section is PolicySection else ""
        return f"`{key}` is not a known key; {advice}{own}"
    rule = _RULES[kind].format(**first.get("ctx", {})) if kind in _RULES else first["msg"]
    return f"`{key}` must be {rule}, got {first['input']!r}"
