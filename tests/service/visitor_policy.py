"""A policy of another package that tells visitors apart, in plain Python: the smallest one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.policies import LinkFeedback, Policy
from slotwise.policies.policy import ReadsVisitors, Visitor
from slotwise.problem import Problem
from slotwise.selection import Mix, new_mix, set_probabilities

Floats = NDArray[np.float64]

FAILING: list[int] = []
"""`learn` raises when it has learned this many more levels, if any number is listed."""


class VisitorState(NamedTuple):
    """Views and clicks of every link by value of the first feature."""

    n_features: int
    n_slots: int
    views: Floats
    clicks: Floats
    mix: Mix


def choose(state: VisitorState, visitor: Visitor, rng: np.random.Generator) -> None:
    """Show the links with the best click rates to such visitors; a tenth of the page is random."""
    check(state, visitor)
    n_links = state.views.shape[1]
    rates = (state.clicks[visitor[0]] + 1.0) / (state.views[visitor[0]] + 2.0)
    page = np.full(n_links, 0.1 * state.n_slots / n_links)
    page[np.argsort(-rates, kind="stable")[: state.n_slots]] += 0.9
    set_probabilities(state.mix, page)


def learn(state: VisitorState, visitor: Visitor, level: int, feedback: LinkFeedback) -> None:
    """Count clicks by visitor."""
    links, views, outcomes = feedback.links, feedback.views, feedback.outcomes
    check(state, visitor)
    if level == 0:
        np.add.at(state.views[visitor[0]], links, views)
        np.add.at(state.clicks[visitor[0]], links, outcomes)
    if FAILING:
        FAILING[0] -= 1
        if FAILING[0] < 0:
            raise ArithmeticError("cannot learn")


def check(state: VisitorState, visitor: Visitor) -> None:
    """Refuse a visitor with another number of features; compiled code would read beyond it."""
    if len(visitor) != state.n_features:
        raise IndexError(f"{len(visitor)} features, not {state.n_features}")


@dataclass(frozen=True)
class VisitorPolicy(Policy):
    """Counts, like a policy that learns from counts alone, but by visitor."""

    name: ClassVar[str] = "by-visitor"
    for_visitors: ClassVar[ReadsVisitors | None] = ReadsVisitors()
    choose: ClassVar[Any] = staticmethod(choose)
    learn: ClassVar[Any] = staticmethod(learn)
    per_link: ClassVar[frozenset[str]] = frozenset({"views", "clicks"})

    def start(self, problem: Problem) -> VisitorState:
        shape = (sum(problem.feature_sizes), problem.n_links)
        counts = np.zeros(shape), np.zeros(shape)
        sizes = (len(problem.feature_sizes), problem.n_slots)
        return VisitorState(*sizes, *counts, new_mix(problem.n_links))

    def knowledge(self, state: Any) -> dict[str, Any]:
        return {"views": state.views.copy(), "clicks": state.clicks.copy()}

    def restore(self, problem: Problem, knowledge: Mapping[str, Any]) -> VisitorState:
        state = self.start(problem)
        state.views[:], state.clicks[:] = knowledge["views"], knowledge["clicks"]
        return state
