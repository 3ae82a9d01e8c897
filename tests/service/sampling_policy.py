"""A policy whose page is certain given its draw: the smallest one that samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slotwise.policies import Policy
from slotwise.policies.policy import Visitor
from slotwise.problem import Problem
from slotwise.selection.mix import N_SURE, Mix, new_mix


class SamplingState(NamedTuple):
    mix: Mix


def choose(state: SamplingState, visitor: Visitor, rng: np.random.Generator) -> None:
    """Show link i alone, with a chance in proportion to i + 1."""
    n_links = len(state.mix.sure)
    weights = np.arange(1, n_links + 1)
    state.mix.sure[0] = rng.choice(n_links, p=weights / weights.sum())
    state.mix.sizes[:] = 0
    state.mix.sizes[N_SURE] = 1


def learn(state: SamplingState, *_: object) -> None:
    """Learn nothing."""


@dataclass(frozen=True)
class SamplingPolicy(Policy):
    name: ClassVar[str] = "sampling"
    samples: ClassVar[bool] = True
    choose: ClassVar[Any] = staticmethod(choose)
    learn: ClassVar[Any] = staticmethod(learn)

    def start(self, problem: Problem) -> SamplingState:
        return SamplingState(new_mix(problem.n_links))

    def knowledge(self, state: Any) -> dict[str, Any]:
        return {}

    def restore(self, problem: Problem, knowledge: Mapping[str, Any]) -> SamplingState:
        return self.start(problem)
