"""Numbers drawn in vectors are those that numpy's generator gives one by one."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.compile.decorators import hot
from slotwise.selection.vectors import uniforms
from slotwise.selection.vectors.uniforms import draw_levels, draw_uniforms

ALL_ONES = 2**128 - 1


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


@pytest.mark.parametrize("n_levels", [1, 2, 3])
@pytest.mark.parametrize("n_slots", [0, 1, 2, 7, 8, 9, 15, 16, 17, 60, 257])
def test_same_numbers(n_levels: int, n_slots: int) -> None:
    for seed in range(20):
        assert_same(np.random.PCG64(seed), n_levels, n_slots)


@hot
def draw_row(rng: np.random.Generator, draws: NDArray[np.float64], count: int) -> None:
    """Draw in compiled code."""
    draw_uniforms(rng, draws, count)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 30, 121])
@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.Philox])
def test_numbers_in_a_row_are_those_and_no_more(count: int, bits: Any) -> None:
    ours, theirs = np.random.Generator(bits(4)), np.random.Generator(bits(4))
    draws = np.full(count + 3, -1.0)
    draw_row(ours, draws, count)
    assert draws.tolist() == [*theirs.random(count).tolist(), -1.0, -1.0, -1.0]
    assert ours.random() == theirs.random()


@pytest.mark.parametrize("state", [0, 1, 2**64 - 1, 2**64, 2**127, ALL_ONES])
@pytest.mark.parametrize("inc", [1, 2**64 - 1, 2**64 + 1, ALL_ONES])
def test_states_at_the_limits(state: int, inc: int) -> None:
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


def test_the_default_generator_is_known() -> None:
    interface = np.random.default_rng(1).bit_generator.ctypes
    address = ctypes.cast(interface.next_double, ctypes.c_void_p).value
    assert uniforms._address_of_pcg64() == address


def test_a_state_kept_otherwise_is_left_to_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "string_at", lambda *_: b"something else")
    assert uniforms._address_of_pcg64() == 1


PROGRAM = """
import numpy as np
from slotwise.compile.decorators import hot
from slotwise.selection.vectors.uniforms import draw_levels

@hot
def draw(rng, draws):
    draw_levels(rng, draws)

draws = np.zeros((2, 33))
draw(np.random.default_rng(7), draws)
print(sum(draw.stats.cache_hits.values()), draws.tolist())
"""


def test_code_on_disk_finds_the_generator_of_its_process(tmp_path: Path) -> None:
    """The second process reads machine code; a processor without long vectors computes the same."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    own = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_DISABLE_JIT": "0"}
    plain = {**own, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    expected = one_by_one(np.random.default_rng(7), 2, 33).tolist()
    for settings, n_read in ((own, 0), (own, 1), (plain, 0)):
        done = subprocess.run(
            [sys.executable, program], env=settings, capture_output=True, text=True, check=True
        )
        assert done.stdout == f"{n_read} {expected}\n"
