"""Every policy under random calls of the Selector, at small and at real sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from slotwise.policies import POLICIES
from tests.combinations.selector_machine import Kind, machine_of

SMALL = Kind(features=[{}, {"device": ("phone", "desktop")}, {"country": str}])
SEGMENTS = Kind(
    features=[{"device": ("phone", "desktop")}, {"country": str}, {"is_new": bool, "days": (1, 7)}],
    has_segment_floors=True,
)
OPEN_LISTS = Kind(features=[{"country": str, "source": str, "page": str}], n_links=(20, 20))
WIDE = Kind(
    features=[{f"feature_{k}": tuple(f"v{v}" for v in range(8)) for k in range(8)}],
    n_links=(450, 450),
    n_slots=(5, 5),
)
"""So many values and links that pairs of values no longer fit."""


CROSSING = replace(SMALL, n_links=(6, 12), n_slots=(2, 3), rules_cross=True)
FORGETTING = Kind(
    features=[{}],
    n_links=(5, 8),
    n_slots=(2, 2),
    max_open_pages=(1, 2),
    counts_while_forgetting=True,
)
"""Counts come to a selector that forgets open pages."""

SAME_AFTER_LOADING = ("con-ucb", "lexp", "exp3-m", "uniform")
"""Policies that go on page for page from a file within rules that cross.

The others are in `test_ties_within_crossing_rules_fall_the_same_way_after_loading`.
"""


def play(policy: str, kind: Kind, n_examples: int, n_steps: int) -> None:
    run_state_machine_as_test(
        machine_of(policy, kind),
        settings=settings(
            max_examples=n_examples,
            stateful_step_count=n_steps,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_any_calls_in_any_order(policy: str) -> None:
    play(policy, SMALL, n_examples=20 if policy == "paced-bayes" else 10, n_steps=30)


@pytest.mark.parametrize("policy", SAME_AFTER_LOADING)
def test_any_calls_within_crossing_rules(policy: str) -> None:
    play(policy, CROSSING, n_examples=8, n_steps=30)


@pytest.mark.parametrize(
    ("kind", "n_examples", "n_steps"),
    [
        pytest.param(SEGMENTS, 15, 30, id="segment floors"),
        pytest.param(OPEN_LISTS, 3, 15, id="several open lists"),
        pytest.param(WIDE, 1, 8, id="too many pairs"),
    ],
)
def test_any_calls_of_the_default(kind: Kind, n_examples: int, n_steps: int) -> None:
    play("paced-bayes", kind, n_examples, n_steps)


def test_counts_that_come_while_pages_are_forgotten() -> None:
    play("paced-bayes", FORGETTING, n_examples=12, n_steps=30)


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("policy", POLICIES)
def test_any_calls_in_any_order_for_long(policy: str) -> None:
    play(policy, SMALL, n_examples=150, n_steps=60)


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(SEGMENTS, id="segment floors"),
        pytest.param(OPEN_LISTS, id="several open lists"),
        pytest.param(WIDE, id="too many pairs"),
    ],
)
def test_any_calls_of_the_default_for_long(kind: Kind) -> None:
    play("paced-bayes", kind, n_examples=60, n_steps=60)
