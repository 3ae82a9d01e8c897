"""Small results against those that are kept in tests/golden."""

from __future__ import annotations

import json

import pytest

from tests.simulation.pin_results import EXPERIMENTS, PINNED, Pin, agrees, pins_of, small_results

pytestmark = pytest.mark.compiled


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_small_results_are_those_that_are_kept(name: str) -> None:
    kept = {key: Pin(*values) for key, values in json.loads(PINNED.read_text())[name].items()}
    found = pins_of(small_results(name))
    assert found.keys() == kept.keys()
    strayed = {key: (found[key], kept[key]) for key in kept if not agrees(found[key], kept[key])}
    assert not strayed


def test_a_changed_policy_would_be_seen() -> None:
    assert agrees(Pin(100.0, 10.0), Pin(110.0, 10.0))
    assert not agrees(Pin(100.0, 10.0), Pin(140.0, 10.0))
    assert not agrees(Pin(100.0, 90.0), Pin(140.0, 10.0)), "a wide spread hides nothing"
