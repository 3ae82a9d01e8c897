"""Dependent rounding, pair by pair as it is defined, and stretch by stretch in exact numbers."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

INTEGRAL = 1e-9


def _is_open(chance: float) -> bool:
    return INTEGRAL < chance < 1 - INTEGRAL


def _outcomes(x: tuple[float, ...], i: int, j: int) -> list[tuple[float, tuple[float, ...]]]:
    """Return the two ways in which a pair is rounded, each with its probability."""
    p = min(1 - x[i], x[j])
    q = min(x[i], 1 - x[j])
    up, down = list(x), list(x)
    up[i], up[j] = x[i] + p, x[j] - p
    down[i], down[j] = x[i] - q, x[j] + q
    return [(q / (p + q), tuple(up)), (p / (p + q), tuple(down))]


def _open_pair(x: tuple[float, ...]) -> tuple[int, int] | None:
    """Return the first two open entries."""
    still_open = [i for i, chance in enumerate(x) if _is_open(chance)]
    return (still_open[0], still_open[1]) if len(still_open) > 1 else None


def _page(x: tuple[float, ...]) -> frozenset[int]:
    return frozenset(i for i, chance in enumerate(x) if chance > 0.5)


def round_pair_by_pair(
    probabilities: NDArray[np.float64], rng: np.random.Generator
) -> frozenset[int]:
    """Return one page."""
    x = tuple(probabilities.tolist())
    while (pair := _open_pair(x)) is not None:
        (chance, up), (_, down) = _outcomes(x, *pair)
        x = up if rng.random() < chance else down
    return _page(x)


def page_distribution(probabilities: NDArray[np.float64]) -> dict[frozenset[int], float]:
    """Return every page with its exact probability, by following both ways of every pair."""
    reached: dict[tuple[float, ...], float] = {tuple(probabilities.tolist()): 1.0}
    pages: dict[frozenset[int], float] = defaultdict(float)
    while reached:
        following: dict[tuple[float, ...], float] = defaultdict(float)
        for x, weight in reached.items():
            pair = _open_pair(x)
            if pair is None:
                pages[_page(x)] += weight
            else:
                for chance, after in _outcomes(x, *pair):
                    following[after] += weight * chance
        reached = following
    return dict(pages)


def _holder(stretch: list[tuple[int, Fraction]], share: float) -> int:
    """Return the first entry with which the mass of a stretch exceeds a share of the whole."""
    bound = Fraction(share) * sum(mass for _, mass in stretch)
    for entry, mass in stretch:
        bound -= mass
        if bound < 0:
            return entry
    raise AssertionError("a share below 1 is exceeded")


def round_by_stretches(probabilities: NDArray[np.float64], rng: np.random.Generator) -> list[int]:
    """Return one page in the order in which its entries are decided.

    One draw says who holds the mass of a stretch, a second one which of the last pair is shown. A
    sure entry ends the search for the holder, so that it costs a draw, too.
    """
    shown: list[int] = []
    stretch: list[tuple[int, Fraction]] = []
    mass, n_since = Fraction(0), 0
    for i, chance in enumerate(probabilities.tolist()):
        n_since += 1
        if chance >= 1 - INTEGRAL:
            shown.append(i)
            if n_since > 1 and mass > Fraction(INTEGRAL):
                stretch = [(_holder(stretch, rng.random()), mass)]
            n_since = 0
        elif chance > INTEGRAL:
            probability = Fraction(chance)
            if mass + probability < 1 - Fraction(INTEGRAL):
                stretch.append((i, probability))
                mass += probability
                continue
            holder = _holder(stretch, rng.random())
            is_last = Fraction(rng.random()) * (2 - mass - probability) >= 1 - probability
            shown.append(i if is_last else holder)
            mass += probability - 1
            stretch, n_since = [(holder if is_last else i, mass)], 0
    if mass > 0.5:
        shown.append(_holder(stretch, rng.random()))
    return shown
