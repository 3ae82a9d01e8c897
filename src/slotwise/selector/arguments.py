"""The arguments of a Selector that need more than one check.

Used by `accounting`, `cli`, `selector` and `simulation`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from slotwise.errors import InvalidFeedback, InvalidInput, did_you_mean
from slotwise.policies import Policy, default_policy, make_policy
from slotwise.problem import (
    EQUAL,
    LEARN,
    TWO_LEVELS,
    is_finite_number,
    normal_slot_weights,
    whole_number,
)

NOT_LEVELS = ("self", "page", "views", "click_floor", "shown")
"""Arguments of `update`, `update_batch` and `set_floor`, so no level can have their names."""


def refuse_unknown(unknown: Iterable[str], function: Callable[..., object]) -> None:
    """Raise `TypeError` for an argument that a function does not have, with the likely one.

    >>> def select(links, *, click_floor=0.0, **unknown): refuse_unknown(unknown, select)
    >>> select(["sale"], floor=0.3)
    Traceback (most recent call last):
    TypeError: `select` has no argument `floor`; did you mean `click_floor`?
    """
    for name in unknown:
        parameters = inspect.signature(function).parameters.values()
        known = [
            one.name for one in parameters if one.name != "self" and one.kind != one.VAR_KEYWORD
        ]
        advice = did_you_mean(name.replace("links_per_page", "n_slots"), known)
        called = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
        owner = getattr(function, "__globals__", {}).get(called)
        if callable(getattr(owner, name, None)):
            advice = f"it is a method: make the {called} and call its `{name}`"
        raise TypeError(f"`{called}` has no argument `{name}`; {advice}")


def checked_policy(policy: Policy | str | None) -> Policy:
    """Return the policy itself, the one of this name, or the default."""
    policy = default_policy() if policy is None else policy
    policy = make_policy(policy) if isinstance(policy, str) else policy
    if not isinstance(policy, Policy):
        rule = "a policy with its settings, such as ConUCB(horizon=50_000)"
        raise InvalidInput.of("policy", rule, policy)
    return policy


def checked_money(max_revenue: Any) -> float:
    """Return the most that a click can earn."""
    if not (is_finite_number(max_revenue) and max_revenue > 0):
        raise InvalidInput.of("max_revenue", "a positive finite number", max_revenue)
    return float(max_revenue)


def checked_share(name: str, share: Any) -> float:
    """Return a number from 0 to 1."""
    if not (is_finite_number(share) and 0 <= share <= 1):
        raise InvalidInput.of(name, "from 0 to 1", share)
    return float(share)


def checked_levels(levels: Sequence[str] | None) -> Any:
    """Return the levels of feedback, by default those of the paper.

    `Problem` checks the rest.
    """
    for level in levels if isinstance(levels, Sequence) else ():
        if level in NOT_LEVELS:
            raise InvalidInput.of("levels", f"other names than {', '.join(NOT_LEVELS)}", level)
    return TWO_LEVELS if levels is None else levels


def checked_slot_weights(weights: Any, n_slots: int) -> Any:
    """Return the slot weights for a problem: "learn" for None, "equal" for equal numbers.

    An empty tuple means pages without an order, as in selectors of earlier files.
    """
    if weights is None or isinstance(weights, str):
        return LEARN if weights is None else weights
    n_slots = whole_number("n_slots", n_slots, at_least=1)
    normal = normal_slot_weights(weights, n_slots)
    return EQUAL if not normal and len(weights) else normal


def by_level(
    names: Sequence[str], clicks: object, revenue: object, levels: Mapping[str, object]
) -> dict[int, object]:
    """Return the feedback that was given, by the number of its level."""
    given = {"clicks": clicks, "revenue": revenue, **levels}
    for name, outcome in given.items():
        if outcome is not None and name not in names:
            raise InvalidFeedback(f"unknown feedback `{name}`; levels are {', '.join(names)}")
    return {j: given[name] for j, name in enumerate(names) if given.get(name) is not None}
