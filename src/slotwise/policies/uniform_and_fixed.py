"""Uniform play and a fixed mix: policies that learn nothing, for comparison.

Found by the registry in `policies`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from slotwise.compile import hot
from slotwise.errors import InvalidInput
from slotwise.policies.policy import (
    Choose,
    CountingPolicy,
    Counts,
    Learn,
    LinkFeedback,
    OtherLinks,
    Visitor,
    new_counts,
)
from slotwise.problem import Problem
from slotwise.selection.mix import INTEGRAL, N_TIED, TIED_SLOTS, Mix, new_mix, set_probabilities


class UniformState(NamedTuple):
    """Counts, for reports, and a mix in which all links tie."""

    counts: Counts
    mix: Mix


@hot
def choose(state: UniformState, visitor: Visitor, rng: np.random.Generator) -> None:
    """Leave the mix as it is: all links share the page."""


@hot
def learn(state: UniformState, visitor: Visitor, level: int, feedback: LinkFeedback) -> None:
    """Count."""
    links, views, outcomes = feedback.links, feedback.views, feedback.outcomes
    for k in range(len(links)):
        state.counts.views[level, links[k]] += views[k]
        state.counts.sums[level, links[k]] += outcomes[k]


@dataclass(frozen=True)
class Uniform(CountingPolicy):
    """Show every link with probability L / K, regardless of feedback.

    >>> from slotwise.problem import Problem
    >>> Uniform().start(Problem(n_links=4, n_slots=2)).mix.sizes.tolist()
    [0, 0, 4, 2]
    """

    name: ClassVar[str] = "uniform"
    choose: ClassVar[Choose] = staticmethod(choose)
    learn: ClassVar[Learn] = staticmethod(learn)
    keeps_floor: ClassVar[bool] = False

    def start(self, problem: Problem) -> UniformState:
        """Return a mix of all links."""
        mix = new_mix(problem.n_links)
        mix.tied[:] = np.arange(problem.n_links)
        mix.sizes[N_TIED] = problem.n_links
        mix.sizes[TIED_SLOTS] = problem.n_slots
        return UniformState(new_counts(problem), mix)


@dataclass(frozen=True)
class FixedMix(CountingPolicy):
    """Show link i with probability `probabilities[i]`, regardless of feedback.

    With the solution of the floor program on the true rates this is the oracle x*.

    >>> from slotwise.problem import Problem
    >>> policy = FixedMix(probabilities=(1.0, 0.25, 0.75))
    >>> policy.start(Problem(n_links=3, n_slots=2)).mix.sizes.tolist()
    [1, 2, 0, 0]
    """

    probabilities: Sequence[float]

    name: ClassVar[str] = "fixed-mix"
    choose: ClassVar[Choose] = staticmethod(choose)
    learn: ClassVar[Learn] = staticmethod(learn)
    keeps_floor: ClassVar[bool] = False

    def __post_init__(self) -> None:
        given = np.asarray(self.probabilities, dtype=np.float64)
        if given.ndim != 1 or not np.all((given >= -INTEGRAL) & (given <= 1 + INTEGRAL)):
            raise InvalidInput.of("probabilities", "numbers in [0, 1]", self.probabilities)
        object.__setattr__(self, "probabilities", tuple(given.clip(0.0, 1.0).tolist()))

    def start(self, problem: Problem) -> UniformState:
        """Return the mix, after checking that it fits the page."""
        probabilities = np.array(self.probabilities)
        if len(probabilities) != problem.n_links:
            rule = f"one number for each of the {problem.n_links} links"
            raise OtherLinks.of("probabilities", rule, len(probabilities))
        if abs(probabilities.sum() - problem.n_slots) > 1e-6:
            rule = f"numbers that sum to n_slots ({problem.n_slots})"
            raise InvalidInput.of("probabilities", rule, float(probabilities.sum()))
        mix = new_mix(problem.n_links)
        set_probabilities(mix, probabilities)
        return UniformState(new_counts(problem), mix)
