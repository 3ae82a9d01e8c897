"""Who plays in the leaderboard: every registered policy, and a few of them with other settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from slotwise.errors import SlotwiseError, UnknownName
from slotwise.policies import POLICIES, FixedMix, Policy, default_policy, make_policy
from slotwise.problem import Problem

__all__ = ["all_entrants", "knows_horizon", "pick_entrants", "refusal"]

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "con-ucb/72": ("con-ucb", {"gamma_scale": 1 / 72}),
    "kl-con-ucb/deficit": ("kl-con-ucb", {"deficit_feedback": True}),
}
"""Settings beside the defaults that are worth a line, by label."""

PRIORS = ("uniform", "fitted")


def all_entrants() -> dict[str, Policy]:
    """Return every registered policy by label, the default first, the fixed mix left out.

    Sampling policies play once for each prior. A policy that plans for a horizon is told it by
    the experiment.

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
    """Return the entrants of these labels, and the default, which all are compared with.

    >>> list(pick_entrants(["uniform"]))[-1]
    'uniform'
    """
    entrants = all_entrants()
    for label in labels:
        if label not in entrants:
            known = ", ".join(entrants)
            raise UnknownName(f"no entrant is called {label!r}; known are {known}")
    wanted = {default_policy().name, *labels}
    return {label: policy for label, policy in entrants.items() if label in wanted}


def refusal(policy: Policy, problem: Problem) -> str | None:
    """Return why a policy does not take a problem, or None where it does."""
    try:
        policy.start(problem)
    except SlotwiseError as error:
        return str(error)
    return None


def knows_horizon(policy: Policy) -> bool:
    """Say whether a policy makes use of the number of rounds that an experiment tells it."""
    return "horizon" in _setting_names(type(policy))


def _setting_names(policy: type[Policy]) -> set[str]:
    return {field.name for field in dataclasses.fields(policy)}  # type: ignore[arg-type]
