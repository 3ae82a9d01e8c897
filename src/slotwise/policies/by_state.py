"""Two kinds of state for one policy: compiled code picks the function when it is compiled.

A policy is one pair of functions, `choose` and `learn`. Where it keeps one kind of state for the
usual problem and another for the general one, each pair of functions becomes one here, and
picking costs nothing when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numba.extending import overload

__all__ = ["choose_by_state", "learn_by_state"]

Cases = Mapping[type, Callable[..., None]]


def choose_by_state(cases: Cases) -> Callable[..., None]:
    """Return the `choose` that is the case of its state's class."""

    def choose(state: Any, rng: Any) -> None:
        cases[type(state)](state, rng)

    def pick(state: Any, rng: Any) -> Callable[..., None]:
        case = cases[state.instance_class]

        def chosen(state: Any, rng: Any) -> None:
            case(state, rng)

        return chosen

    register: Any = overload(choose, inline="always")
    register(pick)
    return choose


def learn_by_state(cases: Cases) -> Callable[..., None]:
    """Return the `learn` that is the case of its state's class."""

    def learn(
        state: Any, level: Any, links: Any, probabilities: Any, views: Any, outcomes: Any
    ) -> None:
        cases[type(state)](state, level, links, probabilities, views, outcomes)

    def pick(
        state: Any, level: Any, links: Any, probabilities: Any, views: Any, outcomes: Any
    ) -> Callable[..., None]:
        case = cases[state.instance_class]

        def chosen(
            state: Any, level: Any, links: Any, probabilities: Any, views: Any, outcomes: Any
        ) -> None:
            case(state, level, links, probabilities, views, outcomes)

        return chosen

    register: Any = overload(learn, inline="always")
    register(pick)
    return learn
