"""The contract again, for the options that change what a policy keeps or how it decides."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from slotwise.errors import InvalidInput
from slotwise.policies import (
    AnytimeConUCB,
    ConTS,
    ConUCB,
    Feedback,
    KLConUCB,
    Policy,
    QueueKL,
    QueueTS,
    SafeConUCB,
)
from slotwise.problem import Problem
from slotwise.testing import PolicyContract

DELTA = 0.5
"""Bounds that leave 1 within a few views, so that floors bind and get out of reach."""


class TestConUCBWithDeficitFeedback(PolicyContract):
    def make_policy(self, problem: Problem) -> Policy:
        return ConUCB(gamma_scale=1 / 2000, deficit_feedback=True)


class TestKLConUCBWithDeficitFeedback(PolicyContract):
    def make_policy(self, problem: Problem) -> Policy:
        return KLConUCB(failure_probability=DELTA, deficit_feedback=True)


class TestKLConUCBWithMemory(PolicyContract):
    def make_policy(self, problem: Problem) -> Policy:
        return KLConUCB(failure_probability=DELTA, memory=150)


class TestAnytimeConUCBWithDeficitFeedback(PolicyContract):
    def make_policy(self, problem: Problem) -> Policy:
        return AnytimeConUCB(failure_probability=DELTA, deficit_feedback=True)


class TestQueueKLWithMemory(PolicyContract):
    def make_policy(self, problem: Problem) -> Policy:
        return QueueKL(horizon=5, failure_probability=DELTA, memory=150)


class QueueKLWithoutHorizon(QueueKL):
    """Queue-KL that does not take the horizon of the problem either."""

    def start(self, problem: Problem) -> Any:
        return super().start(dataclasses.replace(problem, horizon=None))


class TestQueueKLWithoutHorizon(PolicyContract):
    def make_policy(self, problem: Problem) -> Policy:
        return QueueKLWithoutHorizon()


class TestConTSWithMemory(PolicyContract):
    def make_policy(self, problem: Problem) -> Policy:
        return ConTS(memory=150, deficit_feedback=True)


class TestConTSWithFittedPrior(PolicyContract):
    def make_policy(self, problem: Problem) -> Policy:
        return ConTS(prior="fitted")


class TestQueueTSWithFittedPriorAndMemory(PolicyContract):
    def make_policy(self, problem: Problem) -> Policy:
        return QueueTS(prior="fitted", memory=150)


class TestSafeConUCBWithDeficitFeedback(PolicyContract):
    def make_policy(self, problem: Problem) -> Policy:
        return SafeConUCB(failure_probability=DELTA, deficit_feedback=True)


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (KLConUCB, {"failure_probability": 1.0}, r"^`failure_probability` must be in \(0, 1\)"),
        (AnytimeConUCB, {"failure_probability": 0.0}, r"^`failure_probability` must be in"),
        (SafeConUCB, {"failure_probability": -1}, r"^`failure_probability` must be in"),
        (KLConUCB, {"horizon": 0}, r"^`horizon` must be at least 1, got 0$"),
        (SafeConUCB, {"horizon": 2.5}, r"^`horizon` must be a whole number, got 2.5$"),
        (KLConUCB, {"memory": 1}, r"^`memory` must be at least 2, got 1$"),
        (QueueKL, {"failure_probability": 2}, r"^`failure_probability` must be in"),
        (QueueKL, {"horizon": -1}, r"^`horizon` must be at least 1, got -1$"),
        (QueueTS, {"memory": 0}, r"^`memory` must be at least 2, got 0$"),
        (QueueTS, {"prior": "flat"}, r'^`prior` must be "uniform" or "fitted", got \'flat\'$'),
        (ConTS, {"prior": ""}, r'^`prior` must be "uniform" or "fitted"'),
        (ConTS, {"memory": 2.5}, r"^`memory` must be a whole number, got 2.5$"),
    ],
)
def test_bad_settings_are_named(kind: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        kind(**settings)


def test_with_a_memory_the_order_of_rounds_matters() -> None:
    assert KLConUCB.needs is KLConUCB().needs is Feedback.COUNTS
    assert KLConUCB(memory=1000).needs is Feedback.COUNTS_IN_ORDER
    assert KLConUCB().needs is Feedback.COUNTS


@pytest.mark.parametrize("kind", [KLConUCB, AnytimeConUCB, SafeConUCB, ConTS])
def test_floors_that_would_be_ignored_are_refused(kind: Any) -> None:
    problem = Problem(4, 2, horizon=9, levels=("click", "cart", "buy"), floors={"cart": 0.5})
    with pytest.raises(InvalidInput, match=r"^`floors` must be on 'click' only for "):
        kind().start(problem)
