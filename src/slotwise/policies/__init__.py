"""The policies and their registry.

Each policy has a file with its formula, settings, state, `choose` and `learn`: `con_ucb`, `lexp`,
`cucb` and `exp3m` of the paper, `uniform_and_fixed`, and the default `paced_bayes` with the files
it is made of. `policy` has the contract. Player and engine call them. They may import `selection`
and the layers below.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from slotwise.compile import compiled
from slotwise.errors import InvalidInput, UnknownName, did_you_mean
from slotwise.plugins import entry_point_names, find_outside
from slotwise.policies.con_ucb import ConUCB
from slotwise.policies.cucb import CUCB
from slotwise.policies.exp3m import Exp3M
from slotwise.policies.lexp import LExp
from slotwise.policies.paced_bayes import PacedBayes
from slotwise.policies.policy import (
    NO_SLOTS,
    NOBODY,
    CountingPolicy,
    Counts,
    Estimates,
    Feedback,
    LinkFeedback,
    OtherLinks,
    Policy,
    ReadsVisitors,
    State,
    new_counts,
)
from slotwise.policies.uniform_and_fixed import FixedMix, Uniform
from slotwise.problem import Problem
from slotwise.selection.mix import Mix, new_mix
from slotwise.selection.page_search import Search, new_search
from slotwise.selection.share_slots import take_top_links

__all__ = [
    "CUCB",
    "ENTRY_POINTS",
    "NOBODY",
    "NO_SLOTS",
    "POLICIES",
    "ConUCB",
    "CountingPolicy",
    "Counts",
    "Estimates",
    "Exp3M",
    "Feedback",
    "FixedMix",
    "LExp",
    "LinkFeedback",
    "Mix",
    "OtherLinks",
    "PacedBayes",
    "Policy",
    "Problem",
    "ReadsVisitors",
    "Search",
    "State",
    "Uniform",
    "compiled",
    "default_policy",
    "make_policy",
    "new_counts",
    "new_mix",
    "new_search",
    "policy_class",
    "policy_reference",
    "policy_settings",
    "setting_names",
    "take_top_links",
]

POLICIES: dict[str, type[Policy]] = {
    policy.name: policy
    for policy in (
        ConUCB,
        PacedBayes,
        LExp,
        CUCB,
        Exp3M,
        Uniform,
        FixedMix,
    )
}
"""Every policy by its name, in the order in which commands list them."""


MOVED = {"queue-ts": "it is a package of its own: install examples/queue_ts of the source"}
"""What to do about policies that were part of slotwise, by their name."""

ENTRY_POINTS = "slotwise.policies"
"""The entry point group for policies of other packages."""


def default_policy(horizon: int | None = None) -> Policy:
    """Return the policy to use when none is named: no tuning, keeps the floor.

    It needs no horizon, and uses one that is given.

    docs/leaderboard.md shows how it performs.

    >>> default_policy().name
    'paced-bayes'
    """
    return PacedBayes(horizon=horizon)


def policy_settings(policy: Policy) -> dict[str, object]:
    """Return the settings of a policy by name, as plain values.

    >>> policy_settings(LExp(horizon=100))
    {'horizon': 100, 'parameters': 'closed-form'}
    """
    return dataclasses.asdict(policy) if dataclasses.is_dataclass(policy) else {}


def policy_class(name: str) -> type[Policy]:
    """Return the class of the policy called `name`: registered, of an entry point or a module."""
    if name in POLICIES:
        return POLICIES[name]
    found = find_outside(ENTRY_POINTS, name)
    if found is None:
        advice = MOVED.get(name)
        if advice is None:
            advice = did_you_mean(name, [*POLICIES, *entry_point_names(ENTRY_POINTS)], "'")
        raise UnknownName(f"no policy is called {name!r}; {advice}")
    if not (isinstance(found, type) and issubclass(found, Policy)):
        raise UnknownName(f"{name!r} must be a class of policies, got {found!r}")
    return found


def policy_reference(policy: Policy) -> str:
    """Return the name under which `make_policy` finds the class of a policy."""
    kind = type(policy)
    names = [policy.name, f"{kind.__module__}:{kind.__qualname__}"]
    for name in names:
        try:
            if policy_class(name) is kind:
                return name
        except UnknownName:
            continue
    advice = "define it in a module that can be imported"
    raise InvalidInput.of("policy", "a policy that can be found by name", policy.name, advice)


def setting_names(policy: type[Policy]) -> list[str]:
    """Return the names of a policy's settings."""
    if not dataclasses.is_dataclass(policy):
        return []
    return [field.name for field in dataclasses.fields(policy) if field.init]


def make_policy(name: str, settings: Mapping[str, object] | None = None) -> Policy:
    """Return the policy called `name` with these settings.

    A name is that of a registered policy, that of an entry point `slotwise.policies` of an
    installed package, or "module:Class".

    >>> make_policy("con-ucb", {"horizon": 1000}).gamma_scale
    1.0
    >>> make_policy("con-ubc")
    Traceback (most recent call last):
    slotwise.errors.UnknownName: no policy is called 'con-ubc'; did you mean 'con-ucb'?
    """
    policy = policy_class(name)
    known = setting_names(policy)
    for setting in settings or {}:
        if setting not in known:
            advice = did_you_mean(setting, known) if known else "it has none"
            raise InvalidInput(f"`{setting}` is not a setting of {name}; {advice}", "settings")
    return policy(**(settings or {}))
