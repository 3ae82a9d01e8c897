"""The next numbers of a random generator, the same in compiled and in interpreted code.

Used by `page_order`, `rounding`, `environments`, `player` and `simulation`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from slotwise.arrays import Floats
from slotwise.compile import inner, vector_pass


class Bits(NamedTuple):
    """Where a generator stores its state, and its function that returns a number."""

    state: int
    next_double: int


class Chance(Bits):
    """A generator for functions that Python calls; it only draws uniform numbers.

    Compiled code takes the two addresses instead of the generator, whose parts numba would look up
    in every call: that takes longer than drawing a page. Interpreted code calls `random`.
    """

    random: Callable[[], float]
    generator: np.random.Generator = np.random.default_rng(0)
    """For a compiler without the interface to call addresses."""


def chance_of(rng: np.random.Generator) -> Any:
    """Return a generator as compiled functions take it; both draw from the same stream."""
    interface = rng.bit_generator.ctypes
    address = ctypes.cast(interface.next_double, ctypes.c_void_p).value
    chance = Chance(interface.state_address, address or 0)
    chance.random, chance.generator = rng.random, rng
    return chance


@vector_pass
def next_uniform(rng: np.random.Generator) -> float:
    """Return the next number of a generator, which may be a `Chance`."""
    return rng.random()


@inner
def draw_levels(rng: np.random.Generator, draws: Floats) -> None:
    """Fill `draws[level, slot]` with the next numbers of a generator, slot by slot."""
    n_levels, n_slots = draws.shape
    for slot in range(n_slots):
        for level in range(n_levels):
            draws[level, slot] = next_uniform(rng)
