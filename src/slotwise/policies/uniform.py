"""Uniform play: every link equally often, for honest comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slotwise.policies.contract import Floats, Links, Visitor
from slotwise.policies.counts import CountingPolicy, Counts, new_counts
from slotwise.problem import Problem
from slotwise.selection.compiled import hot
from slotwise.selection.mix import N_TIED, TIED_SLOTS, Mix, new_mix

__all__ = ["Uniform"]


class UniformState(NamedTuple):
    """Counts, kept for reports, and a mix in which all links tie."""

    counts: Counts
    mix: Mix


@hot
def choose(state: UniformState, visitor: Visitor, rng: np.random.Generator) -> None:
    """Leave the mix as it is: all links share the page."""


@hot
def learn(
    state: UniformState,
    visitor: Visitor,
    level: int,
    links: Links,
    slots: Links,
    probabilities: Floats,
    views: Floats,
    outcomes: Floats,
) -> None:
    """Count."""
    for k in range(len(links)):
        state.counts.views[level, links[k]] += views[k]
        state.counts.sums[level, links[k]] += outcomes[k]


@dataclass(frozen=True)
class Uniform(CountingPolicy):
    """Show every link with probability L / K, whatever happens.

    >>> from slotwise.problem import Problem
    >>> Uniform().start(Problem(n_links=4, n_slots=2)).mix.sizes.tolist()
    [0, 0, 4, 2]
    """

    name: ClassVar[str] = "uniform"
    choose: ClassVar[Any] = staticmethod(choose)
    learn: ClassVar[Any] = staticmethod(learn)
    keeps_floor: ClassVar[bool] = False

    def start(self, problem: Problem) -> UniformState:
        """Return a mix of all links."""
        mix = new_mix(problem.n_links)
        mix.tied[:] = np.arange(problem.n_links)
        mix.sizes[N_TIED] = problem.n_links
        mix.sizes[TIED_SLOTS] = problem.n_slots
        return UniformState(new_counts(problem), mix)
