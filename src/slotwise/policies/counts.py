"""Views and outcomes per level and link: all that most policies need to know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.policies.contract import NO_SLOTS, NOBODY, Floats, Knowledge, Links, Policy, State
from slotwise.problem import Problem
from slotwise.selection.compiled import hot

__all__ = ["CountingPolicy", "Counts", "add_counts", "moved_counts", "new_counts"]


class Counts(NamedTuple):
    """Settled views and sums of outcomes, each of shape (n_levels, n_links)."""

    views: Floats
    sums: Floats


def new_counts(problem: Problem) -> Counts:
    """Return counts of nothing."""
    shape = (problem.n_levels, problem.n_links)
    return Counts(views=np.zeros(shape), sums=np.zeros(shape))


@hot
def add_counts(counts: Counts, level: int, links: Links, views: Floats, outcomes: Floats) -> None:
    """Count views and outcomes of links at one level."""
    for k in range(len(links)):
        counts.views[level, links[k]] += views[k]
        counts.sums[level, links[k]] += outcomes[k]


def moved_counts(counts: Counts, problem: Problem, kept: NDArray[np.int64]) -> Counts:
    """Return the counts of the links of another pool; `kept` has their old places, -1 for new."""
    moved = new_counts(problem)
    stays = kept >= 0
    moved.views[:, stays] = counts.views[:, kept[stays]]
    moved.sums[:, stays] = counts.sums[:, kept[stays]]
    return moved


class CountingPolicy(Policy):
    """A policy whose knowledge is its counts: restoring replays them as one large batch."""

    per_link: ClassVar[frozenset[str]] = frozenset({"views", "sums"})

    def knowledge(self, state: Any) -> Knowledge:
        """Return the counts of the state."""
        return {"views": state.counts.views.copy(), "sums": state.counts.sums.copy()}

    def restore(self, problem: Problem, knowledge: Mapping[str, Floats]) -> State:
        """Return a state that has seen exactly these counts."""
        state = self.start(problem)
        links = np.arange(problem.n_links)
        certain = np.ones(problem.n_links)
        for level in range(problem.n_levels):
            views = np.ascontiguousarray(knowledge["views"][level])
            sums = np.ascontiguousarray(knowledge["sums"][level])
            type(self).learn(state, NOBODY, level, links, NO_SLOTS, certain, views, sums)
        return state
