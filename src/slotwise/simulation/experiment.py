"""An experiment: policies, environment, number of rounds and number of runs.

Used by most of `simulation`.
"""

from __future__ import annotations

import hashlib
import secrets
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from slotwise.arrays import Links
from slotwise.compile.fingerprint import COMPILER, LENGTH, digest_of_modules, digest_of_sources
from slotwise.environments import Environment
from slotwise.errors import InvalidInput
from slotwise.policies import (
    Policy,
    make_policy,
    policy_class,
    policy_settings,
    setting_names,
)
from slotwise.problem import Problem, whole_number
from slotwise.simulation.optimum import Optimum, find_optimum
from slotwise.simulation.promised_runs import OwnPagePlan
from slotwise.version import __version__

DECIDING = (
    "slotwise.compile.decorators",
    *COMPILER,
    "slotwise.compile.vector_code",
    "slotwise.environments.bernoulli",
    "slotwise.environments.drifting",
    "slotwise.environments.environment",
    "slotwise.environments.late_feedback",
    "slotwise.environments.revenue_amounts",
    "slotwise.environments.visitor_shops",
    "slotwise.features",
    "slotwise.frequent_words",
    "slotwise.player.link_pool",
    "slotwise.player.own_page",
    "slotwise.player.pages",
    "slotwise.player.rules_in_force",
    "slotwise.policies",
    "slotwise.problem",
    "slotwise.rounds",
    "slotwise.selection",
    "slotwise.simulation.engine",
    "slotwise.simulation.experiment",
    "slotwise.simulation.optimum",
    "slotwise.simulation.promised_runs",
    "slotwise.simulation.results",
)
"""The modules whose code can change a number of a run; packages with all their modules.

The rates of a data set are part of the fingerprint of its environment, so its loader is not.
"""


def code_fingerprint() -> str:
    """Return a digest of the code that determines numbers, without docstrings and comments."""
    return digest_of_modules(DECIDING)


def environment_fingerprint(environment: Environment, n_rounds: int) -> str:
    """Return a digest of everything that determines the outcomes of an environment.

    >>> from slotwise.environments import BernoulliLinks, LateFeedback
    >>> links = BernoulliLinks([0.5, 0.2], [0.1, 0.9])
    >>> late, later = LateFeedback(links, 1, 2), LateFeedback(links, 1, 3)
    >>> environment_fingerprint(late, 100) == environment_fingerprint(later, 100)
    False
    >>> drawn = LateFeedback(links, 1, 2, spread=0.5)
    >>> environment_fingerprint(late, 100) == environment_fingerprint(drawn, 100)
    False
    """
    digest = hashlib.sha256()
    serving = environment.serving
    digest.update(sources_fingerprint(*_with_inner(environment), serving).encode())
    for name in (serving.__module__, serving.__qualname__, *environment.levels):
        digest.update(f"{name};".encode())
    world = environment.world(n_rounds)
    numbers = (environment.views_per_round, environment.delays, environment.rates(n_rounds))
    if environment.delay_spread:
        digest.update(f"spread {environment.delay_spread!r};".encode())
    for value in _leaves((world, numbers)):
        array = np.asarray(value)
        digest.update(f"{array.dtype.str}{array.shape};".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:LENGTH]


def sources_fingerprint(*parts: object) -> str:
    """Return a digest of the sources of classes and functions that are not slotwise's own.

    It covers every file that can be reached from theirs. Where one is not in a file, as in a
    notebook, the digest is never the same, so that no results of an earlier text are used.
    """
    return digest_of_sources(parts) or secrets.token_hex(LENGTH)


def _with_inner(environment: Environment) -> list[type]:
    """Return the classes of an environment and of those that it is made of."""
    inner = [one for one in vars(environment).values() if isinstance(one, Environment)]
    return [type(environment), *(kind for one in inner for kind in _with_inner(one))]


def _leaves(value: object) -> Iterable[object]:
    """Yield the arrays and numbers inside tuples of tuples."""
    if isinstance(value, tuple):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


N_CHECKPOINTS = 240

NO_SETTINGS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Experiment:
    """Everything that determines the numbers of an experiment, and its title.

    `dataset` describes the origin of the links for reports: name, title, look_alike, source and
    notes.
    """

    environment: Environment
    problem: Problem
    policies: Mapping[str, Policy]
    n_runs: int
    seed: int
    title: str = ""
    dataset: Mapping[str, Any] = field(default_factory=dict)
    failure_probability: float = 0.01
    own_pages: Mapping[str, OwnPagePlan] = field(default_factory=dict)
    """The own page of policies that have one, by label."""

    def __post_init__(self) -> None:
        whole_number("n_runs", self.n_runs, at_least=1)
        whole_number("seed", self.seed, at_least=0)
        if self.problem.horizon is None or self.problem.horizon < 1:
            raise InvalidInput.of("n_rounds", "at least 1", self.problem.horizon)
        if not self.policies:
            raise InvalidInput.of("policies", "at least one policy", [])
        for plan in self.own_pages.values():
            plan.page(self.problem)

    @property
    def n_rounds(self) -> int:
        """The number of rounds of a run."""
        return self.problem.horizon or 0

    @property
    def checkpoints(self) -> Links:
        """The rounds at which totals are recorded: evenly spaced, with additional early rounds."""
        n_rounds = self.n_rounds
        even = np.linspace(0, n_rounds, N_CHECKPOINTS + 1)[1:]
        early = np.geomspace(1, n_rounds, N_CHECKPOINTS // 4)
        return np.unique(np.ceil(np.concatenate([even, early])).astype(np.int64))

    def optimum(self) -> Optimum:
        """Return the solution of the floor program on the true mean rates: the best fixed mix."""
        return self._optimum

    @cached_property
    def _optimum(self) -> Optimum:
        return find_optimum(self.environment, self.problem, self.n_rounds)

    @cached_property
    def _sources(self) -> dict[str, str]:
        return {label: sources_fingerprint(type(policy)) for label, policy in self.policies.items()}

    @cached_property
    def _environment_fingerprint(self) -> str:
        return environment_fingerprint(self.environment, self.n_rounds)

    def _by_value(self, best: Optimum) -> dict[str, object]:
        """Return what the best mixes bring to visitors with each feature value, by its label."""
        pairs = zip(self.environment.segment_labels, best.by_place, strict=False)
        return {"by_value": {label: list(pair) for label, pair in pairs}} if best.by_place else {}

    def _promised(self, label: str) -> dict[str, Any]:
        """Return the own page of a policy and its expected revenue per view, if it has one."""
        plan = self.own_pages.get(label)
        if plan is None:
            return {}
        rates = self.environment.rates(self.n_rounds)
        levels, rewards = self.problem.levels, self.problem.rewards
        links = plan.page(self.problem)
        reward = sum(rewards.get(one, 0.0) * rates[k][links].sum() for k, one in enumerate(levels))
        return {"own_page": {**asdict(plan), "revenue": float(reward)}}

    def config(self) -> dict[str, object]:
        """Return the settings as results files keep them."""
        problem, best = self.problem, self.optimum()
        rates = self.environment.rates(self.n_rounds)
        attainable = float(np.sort(rates[0])[-problem.n_slots :].sum())
        config = {
            "experiment": self.title,
            "dataset": {
                "name": "custom",
                "title": self.title or "custom links",
                "look_alike": False,
                "source": "",
                "notes": [],
                **self.dataset,
            },
            "environment": type(self.environment).__name__,
            "environment_fingerprint": self._environment_fingerprint,
            "views_per_round": self.environment.views_per_round,
            "delays": list(self.environment.delays),
            "n_links": problem.n_links,
            "n_slots": problem.n_slots,
            "click_floor": problem.click_floor,
            "floors": dict(problem.floors),
            "rate_floors": dict(problem.rate_floors),
            "rewards": dict(problem.rewards),
            "feature_sizes": list(problem.feature_sizes),
            "slot_weights": _plain({"": problem.slot_weights})[""],
            "segment_floors": [list(floor) for floor in problem.segment_floor_places],
            "failure_probability": self.failure_probability,
            "n_rounds": self.n_rounds,
            "n_runs": self.n_runs,
            "seed": self.seed,
            "version": __version__,
            "code": code_fingerprint(),
            "commit": current_commit(),
            "levels": list(problem.levels),
            "optimum": {**best.plain(), "attainable_clicks": attainable, **self._by_value(best)},
            "policies": [
                {
                    "label": label,
                    "name": policy.name,
                    "settings": _plain(policy_settings(policy)),
                    "sources": self._sources[label],
                    **self._promised(label),
                }
                for label, policy in self.policies.items()
            ],
        }
        if problem.rules:
            config["rules"] = [asdict(rule) for rule in problem.rules]
        return config


def _plain(settings: Mapping[str, object]) -> dict[str, object]:
    """Return settings as JSON types; other objects become their `repr`."""

    def plain(value: object) -> Any:
        if isinstance(value, np.ndarray | np.generic):
            return value.tolist()
        if isinstance(value, list | tuple):
            return [plain(one) for one in value]
        if isinstance(value, Mapping):
            return {str(key): plain(one) for key, one in value.items()}
        return value if isinstance(value, str | int | float | None) else repr(value)

    return {name: plain(value) for name, value in settings.items()}


@cache
def current_commit() -> str | None:
    """Return the commit of the source tree that this package runs from, or None.

    It ends in "-dirty" if the tree has uncommitted changes.
    """
    here = Path(__file__)

    def git(*command: str) -> str:
        arguments = ["git", "-C", str(here.parent), *command]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=5, check=True)
        return done.stdout.strip()

    try:
        # If the package is installed inside another project, the repository around it is not ours.
        git("ls-files", "--error-unmatch", here.name)
        return git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    except (OSError, subprocess.SubprocessError):
        return None


def label_policies(
    policies: Iterable[Policy | str] | Mapping[str, Policy | str],
    usual: Mapping[str, object] = NO_SETTINGS,
) -> dict[str, Policy]:
    """Return policies by label: the labels of a mapping, or the names of the policies.

    A policy may be given by its name, as `Selector` takes it; it gets those of the `usual` settings
    that it has.

    >>> from slotwise.policies import CUCB, Uniform
    >>> list(label_policies([CUCB(), "uniform"]))
    ['cucb', 'uniform']
    """
    if isinstance(policies, Mapping):
        return {label: _made(policy, usual) for label, policy in policies.items()}
    labelled: dict[str, Policy] = {}
    for policy in (_made(one, usual) for one in policies):
        if policy.name in labelled:
            advice = "give a mapping from label to policy"
            raise InvalidInput.of("policies", "of different names", policy.name, advice)
        labelled[policy.name] = policy
    return labelled


def _made(policy: Policy | str, usual: Mapping[str, object]) -> Policy:
    made: Policy | str = policy
    if isinstance(policy, str):
        known = setting_names(policy_class(policy))
        made = make_policy(policy, {name: usual[name] for name in usual if name in known})
    if not isinstance(made, Policy):
        raise InvalidInput.of("policies", 'policies or their names, such as "con-ucb"', policy)
    return made
