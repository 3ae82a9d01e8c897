"""A policy whose choice depends on its generator must declare that it samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from slotwise.policies import Policy
from slotwise.policies.policy import Visitor
from slotwise.problem import Problem
from slotwise.testing import PolicyContract
from tests.service.sampling_policy import SamplingPolicy

ONE_SLOT = Problem(n_links=5, n_slots=1)
OF_ITS_OWN = np.random.default_rng(1)


def choose_by_own_chance(state: Any, visitor: Visitor, rng: np.random.Generator) -> None:
    SamplingPolicy.choose(state, visitor, OF_ITS_OWN)


@dataclass(frozen=True)
class Undeclared(SamplingPolicy):
    choose: ClassVar[Any] = staticmethod(choose_by_own_chance)
    samples: ClassVar[bool] = False


@dataclass(frozen=True)
class Contract(PolicyContract):
    policy: Policy

    def make_policy(self, problem: Problem) -> Policy:
        return self.policy


def test_a_class_that_uses_its_generator_without_declaring_it_is_refused() -> None:
    with pytest.raises(TypeError, match="declare `samples: ClassVar"):
        type("Hidden", (SamplingPolicy,), {"samples": False})


def test_the_contract_refuses_chance_that_is_not_declared() -> None:
    with pytest.raises(AssertionError, match="set `samples = True`"):
        Contract(Undeclared()).test_a_choice_that_depends_on_chance_is_declared(ONE_SLOT)


def test_the_contract_accepts_chance_that_is_declared() -> None:
    Contract(SamplingPolicy()).test_a_choice_that_depends_on_chance_is_declared(ONE_SLOT)
