"""Numbers drawn in compiled code are those that numpy's generator gives one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.compile import compiled_first, hot
from slotwise.selection.uniforms import draw_levels

pytestmark = pytest.mark.compiled

ALL_ONES = 2**128 - 1


@compiled_first
@hot
def draw(rng: np.random.Generator, draws: NDArray[np.float64]) -> None:
    """Draw in compiled code."""
    draw_levels(rng, draws)


def one_by_one(rng: np.random.Generator, n_levels: int, n_slots: int) -> NDArray[np.float64]:
    """Return what numpy itself draws, slot by slot."""
    return rng.random((n_slots, n_levels)).T


def assert_same(bits: Any, n_levels: int, n_slots: int) -> None:
    """Compare numbers, what is drawn after them, and the state at the end."""
    state = bits.state
    draws = np.full((n_levels, n_slots), np.nan)
    rng = np.random.Generator(bits)
    draw(rng, draws)
    after, state_after = rng.random(), bits.state
    bits.state = state
    assert np.array_equal(draws, one_by_one(rng, n_levels, n_slots))
    assert after == rng.random()
    assert str(state_after) == str(bits.state)


def test_same_numbers() -> None:
    for n_levels in (1, 2, 3):
        for n_slots in (0, 1, 2, 7, 8, 9, 15, 16, 17, 60, 257):
            for seed in range(20):
                assert_same(np.random.PCG64(seed), n_levels, n_slots)


def test_states_at_the_limits() -> None:
    for state in (0, 1, 2**64 - 1, 2**64, 2**127, ALL_ONES):
        for inc in (1, 2**64 - 1, 2**64 + 1, ALL_ONES):
            bits = np.random.PCG64(1)
            bits.state = {**bits.state, "state": {"state": state, "inc": inc}}
            assert_same(bits, 2, 33)


def test_half_a_number_left_over_stays() -> None:
    bits = np.random.PCG64(3)
    np.random.Generator(bits).integers(0, 9, dtype=np.uint32)
    assert bits.state["has_uint32"] == 1
    assert_same(bits, 2, 15)


@pytest.mark.parametrize("kind", ["MT19937", "Philox", "SFC64", "PCG64DXSM"])
def test_other_generators(kind: str) -> None:
    for n_slots in (1, 8, 15):
        assert_same(getattr(np.random, kind)(5), 2, n_slots)
