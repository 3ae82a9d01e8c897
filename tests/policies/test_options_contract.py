"""The contract again, for the options that change what a policy keeps or how it decides."""

from __future__ import annotations

from typing import Any

import pytest

from slotwise.compile import can_be_compiled
from slotwise.errors import InvalidInput
from slotwise.policies import POLICIES, ConUCB, Policy
from slotwise.policies.within_rules import choosing_within
from slotwise.problem import Problem
from slotwise.testing import PolicyContract


class TestConUCBWithDeficitFeedback(PolicyContract):
    def make_policy(self, problem: Problem) -> Policy:
        return ConUCB(gamma_scale=1 / 2000, deficit_feedback=True)


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (ConUCB, {"failure_probability": 1.0}, r"^`failure_probability` must be in \(0, 1\)"),
        (ConUCB, {"failure_probability": 0.0}, r"^`failure_probability` must be in"),
        (ConUCB, {"failure_probability": -1}, r"^`failure_probability` must be in"),
        (ConUCB, {"horizon": 0}, r"^`horizon` must be at least 1, got 0$"),
    ],
)
def test_bad_settings_are_named(kind: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        kind(**settings)


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_choosing_within_rules_can_be_compiled(name: str) -> None:
    assert can_be_compiled(choosing_within(POLICIES[name]))
