"""Generated floor programs of every kind that could go wrong."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.reference.floor_program import best_clicks, clicks_of_best_value

Floats = NDArray[np.float64]

RATES = ("continuous", "rare", "grid", "few values", "equal", "zeros", "capped at one", "opposed")
FLOORS = ("none", "slack", "between", "almost out of reach", "tightest", "out of reach")


class Instance(NamedTuple):
    value: Floats
    clicks: Floats
    n_slots: int
    floor: float


def make_rates(kind: str, n_links: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return (value, clicks) of one kind."""
    value, clicks = rng.random(n_links), rng.random(n_links)
    if kind == "rare":
        clicks = 0.05 * clicks**3
        value = clicks * value
    elif kind == "grid":
        value, clicks = np.round(8 * value) / 8, np.round(8 * clicks) / 8
    elif kind == "few values":
        value, clicks = rng.choice([0.0, 0.3, 1.0], n_links), rng.choice([0.1, 0.7, 1.0], n_links)
    elif kind == "equal":
        value, clicks = np.full(n_links, value[0]), np.full(n_links, clicks[0])
    elif kind == "zeros":
        value[rng.random(n_links) < 0.5] = 0.0
        clicks[rng.random(n_links) < 0.5] = 0.0
    elif kind == "capped at one":
        value, clicks = np.minimum(1.0, 1.5 * value), np.minimum(1.0, 1.5 * clicks)
    elif kind == "opposed":
        value = np.clip(1.0 - clicks + 0.01 * rng.standard_normal(n_links), 0.0, 1.0)
    return value, clicks


def make_floor(
    kind: str, value: Floats, clicks: Floats, n_slots: int, rng: np.random.Generator
) -> float:
    """Return a floor of one kind for these links."""
    free, most = clicks_of_best_value(value, clicks, n_slots), best_clicks(clicks, n_slots)
    return {
        "none": 0.0,
        "slack": free * rng.random(),
        "between": free + (most - free) * rng.random(),
        "almost out of reach": free + 0.9999 * (most - free),
        "tightest": most,
        "out of reach": most + 0.01 + rng.random(),
    }[kind]


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    """Draw a kind of rates, a kind of floor and sizes; the numbers come from a drawn seed."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_links = int(rng.integers(1, draw(st.sampled_from([12, 300])) + 1))
    most_slots = draw(st.sampled_from([n_links, 1 + n_links // 2, 1 + n_links // 10]))
    n_slots = int(rng.integers(1, min(n_links, most_slots) + 1))
    n_slots = draw(st.sampled_from([n_slots] * 7 + [n_links]))
    value, clicks = make_rates(draw(st.sampled_from(RATES)), n_links, rng)
    binding = ("between", "between", "between", "almost out of reach")
    floor = make_floor(draw(st.sampled_from(FLOORS + binding)), value, clicks, n_slots, rng)
    return Instance(value, clicks, n_slots, floor)
