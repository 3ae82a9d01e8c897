"""The entrants of the leaderboard: every registered policy, some also with other settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from slotwise.errors import SlotwiseError, UnknownName
from slotwise.outside import entry_point_names
from slotwise.policies import (
    ENTRY_POINTS,
    POLICIES,
    FixedMix,
    Policy,
    default_policy,
    make_policy,
    setting_names,
)
from slotwise.policies.checks import policy_for
from slotwise.policies.paced_bayes import PacedBayesLargePool
from slotwise.problem import Problem

__all__ = ["MostClicks", "all_entrants", "knows_horizon", "pick_entrants", "refusal"]

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "con-ucb/72": ("con-ucb", {"gamma_scale": 1 / 72}),
}
"""Settings other than the defaults that get a row of their own, by label."""

PRIORS = ("uniform", "fitted")


@dataclass(frozen=True)
class MostClicks(PacedBayesLargePool):
    """The default policy at a floor that no page can keep: it looks for clicks alone.

    A reference beside the policies. A floor that even this one misses cannot be learned in time.
    """

    name: ClassVar[str] = "most-clicks"

    def start(self, problem: Problem) -> Any:
        """Return a state in which every slot owes a click, or nearly one."""
        return super().start(Problem(problem.n_links, problem.n_slots, 0.999 * problem.n_slots))


def all_entrants() -> dict[str, Policy]:
    """Return every registered policy by label, the default first, without the fixed mix.

    Sampling policies run once for each prior. The experiment tells a policy its horizon.

    >>> entrants = all_entrants()
    >>> next(iter(entrants)) == default_policy().name, "fixed-mix" in entrants
    (True, False)
    """
    entrants: dict[str, Policy] = {default_policy().name: default_policy()}
    for name, policy in POLICIES.items():
        if policy is FixedMix:
            continue
        entrants.setdefault(name, policy())
        own_prior = getattr(entrants[name], "prior", None)
        if own_prior is not None:
            for prior in PRIORS:
                if prior != own_prior:
                    entrants[f"{name}/{prior}"] = make_policy(name, {"prior": prior})
        for label, (base, settings) in VARIANTS.items():
            if base == name and set(settings) <= _setting_names(policy):
                entrants[label] = make_policy(base, settings)
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
        policy_for(policy, problem).start(problem)
    except SlotwiseError as error:
        return str(error)
    return None


def knows_horizon(policy: Policy) -> bool:
    """Return whether a policy uses the number of rounds of an experiment."""
    return "horizon" in _setting_names(type(policy))


def _setting_names(policy: type[Policy]) -> set[str]:
    return set(setting_names(policy))
