"""A fixed mix: play given probabilities. With the best ones it is the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from slotwise.errors import InvalidInput
from slotwise.policies.counts import CountingPolicy, new_counts
from slotwise.policies.uniform import UniformState, choose, learn
from slotwise.problem import Problem
from slotwise.selection.mix import INTEGRAL, new_mix, set_probabilities

__all__ = ["FixedMix"]


@dataclass(frozen=True)
class FixedMix(CountingPolicy):
    """Show link i with probability `probabilities[i]`, whatever happens.

    With the solution of the floor program on the true rates this is the oracle x*.

    >>> from slotwise.problem import Problem
    >>> policy = FixedMix(probabilities=(1.0, 0.25, 0.75))
    >>> policy.start(Problem(n_links=3, n_slots=2)).mix.sizes.tolist()
    [1, 2, 0, 0]
    """

    probabilities: Sequence[float]

    name: ClassVar[str] = "fixed-mix"
    choose: ClassVar[Any] = staticmethod(choose)
    learn: ClassVar[Any] = staticmethod(learn)
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
            raise InvalidInput.of("probabilities", rule, len(probabilities))
        if abs(probabilities.sum() - problem.n_slots) > 1e-6:
            rule = f"numbers that sum to n_slots ({problem.n_slots})"
            raise InvalidInput.of("probabilities", rule, float(probabilities.sum()))
        mix = new_mix(problem.n_links)
        set_probabilities(mix, probabilities)
        return UniformState(new_counts(problem), mix)
