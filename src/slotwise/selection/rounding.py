"""Dependent rounding: probabilities in, exactly `n_slots` links out.

While two entries are open, p = min(1 - x_i, x_j), q = min(x_i, 1 - x_j); with probability
q / (p + q) the pair becomes (x_i + p, x_j - p), else (x_i - q, x_j + q). Marginals are exact and
links are negatively correlated (Gandhi, Khuller, Parthasarathy and Srinivasan, 2006).

Taken in order with one open index, the pairs inside a stretch whose mass stays below 1 only
pass the mass on: entry j ends up holding it with probability x_j over the stretch's mass. So
one draw settles a stretch, and a page costs about two draws a slot instead of one a link.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotwise.errors import InvalidInput
from slotwise.selection.compiled import hot, inner, int64
from slotwise.selection.mix import INTEGRAL, N_OPEN, N_SURE, N_TIED, TIED_SLOTS, Mix

__all__ = ["INTEGRAL", "dependent_rounding", "draw_page", "take_sure_page"]


@inner
def _settle_stretch(
    entries: NDArray[np.float64], start: int, end: int, held: int, held_mass: float, pick: float
) -> int:
    """Return which entry of a stretch holds its mass: `held`, or one of start..end-1."""
    left = pick - held_mass
    if held >= 0 and left < 0.0:
        return held
    holder = held
    for i in range(start, end):
        if entries[i] > INTEGRAL:
            holder = i
            left -= entries[i]
            if left < 0.0:
                break
    return holder


@inner
def round_entries(
    entries: NDArray[np.float64],
    n_entries: int,
    rng: np.random.Generator,
    shown: NDArray[np.int64],
    n_shown: int,
) -> int:
    """Append to `shown` the entries that dependent rounding takes; return how many there are."""
    held = int64(-1)
    held_mass = 0.0
    start = int64(0)
    mass = 0.0
    for i in range(n_entries):
        probability = entries[i]
        if probability <= INTEGRAL:
            continue
        if probability >= 1.0 - INTEGRAL:
            shown[n_shown] = i
            n_shown += 1
            # a sure entry must not look like part of the stretch around it
            if i > start and mass > 0.0:
                held = _settle_stretch(entries, start, i, held, held_mass, rng.random() * mass)
                held_mass = mass
            start = i + 1
            continue
        if mass + probability < 1.0 - INTEGRAL:
            mass += probability
            continue
        holder = held
        if mass > 0.0:
            holder = _settle_stretch(entries, start, i, held, held_mass, rng.random() * mass)
        rest = mass + probability - 1.0
        if holder < 0 or rng.random() * (2.0 - mass - probability) >= 1.0 - probability:
            shown[n_shown] = i
            held = holder
        else:
            shown[n_shown] = holder
            held = i
        n_shown += 1
        start = i + 1
        mass = held_mass = rest
        if rest <= INTEGRAL:
            held = -1
            mass = held_mass = 0.0
    if mass > 0.5:
        holder = _settle_stretch(entries, start, n_entries, held, held_mass, rng.random() * mass)
        shown[n_shown] = holder
        n_shown += 1
    return n_shown


@hot
def _round_all(
    entries: NDArray[np.float64], rng: np.random.Generator, shown: NDArray[np.int64]
) -> int:
    """Write into `shown` the entries that dependent rounding takes; return how many there are."""
    return round_entries(entries, len(entries), rng, shown, int64(0))


@hot
def draw_page(
    mix: Mix,
    rng: np.random.Generator,
    shown: NDArray[np.int64],
    probabilities: NDArray[np.float64],
) -> None:
    """Draw a page from `mix`: the links shown and the probability that each of them had.

    The tied part is drawn as a random subset, which has the same marginals and negative
    correlation at the price of the slots instead of the links. `mix` is as before afterwards.
    """
    n_sure, n_open, n_tied = mix.sizes[N_SURE], mix.sizes[N_OPEN], mix.sizes[N_TIED]
    for k in range(n_sure):
        shown[k] = mix.sure[k]
        probabilities[k] = 1.0
    n_shown = round_entries(mix.probabilities, n_open, rng, shown, n_sure)
    for k in range(n_sure, n_shown):
        entry = shown[k]
        shown[k] = mix.open[entry]
        probabilities[k] = mix.probabilities[entry]
    tied, swaps = mix.tied, mix.swaps
    n_picks = mix.sizes[TIED_SLOTS]
    for k in range(n_picks):
        pick = k + int(rng.random() * (n_tied - k))
        swaps[k] = pick
        shown[n_shown + k] = tied[pick]
        probabilities[n_shown + k] = n_picks / n_tied
        tied[pick] = tied[k]
        tied[k] = shown[n_shown + k]
    for k in range(n_picks - 1, -1, -1):
        pick = swaps[k]
        link = tied[k]
        tied[k] = tied[pick]
        tied[pick] = link


def take_sure_page(mix: Mix, shown: NDArray[np.int64], probabilities: NDArray[np.float64]) -> bool:
    """Write the page of `draw_page` if nothing is left to chance; return whether that is so.

    From Python this takes a fraction of the time, since no random generator is unpacked.
    """
    n_sure, n_open, _, tied_slots = mix.sizes.tolist()
    if n_sure != len(shown) or n_open or tied_slots:
        return False
    shown[:] = mix.sure[: len(shown)]
    probabilities[:] = 1.0
    return True


def dependent_rounding(probabilities: ArrayLike, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the links of one page whose inclusion probabilities are `probabilities`.

    They must lie in [0, 1] and sum to a whole number, the size of the page.

    >>> dependent_rounding([1.0, 0.0, 0.5, 0.5], np.random.default_rng(4)).tolist()
    [0, 3]
    """
    entries = np.ascontiguousarray(probabilities, dtype=np.float64)
    if entries.ndim != 1 or not np.all((entries >= 0) & (entries <= 1)):
        raise InvalidInput.of("probabilities", "numbers in [0, 1]", probabilities)
    total = float(entries.sum())
    n_slots = round(total)
    if abs(total - n_slots) > 1e-6:
        raise InvalidInput.of("probabilities", "a sum that is a whole number", total)
    shown = np.empty(len(entries), np.int64)
    return shown[: _round_all(entries, rng, shown)]
