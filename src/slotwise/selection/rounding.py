"""Dependent rounding: probabilities in, exactly `n_slots` links out.

While two entries are open, p = min(1 - x_i, x_j), q = min(x_i, 1 - x_j); with probability
q / (p + q) the pair becomes (x_i + p, x_j - p), else (x_i - q, x_j + q). Marginals are exact and
links are negatively correlated (Gandhi, Khuller, Parthasarathy and Srinivasan, 2006).

Taken in order with one open index, the pairs inside a stretch whose mass stays below 1 only pass
the mass on: entry j ends up holding it with probability x_j over the stretch's mass. So one draw
settles a stretch, and a page costs about two draws a slot instead of one a link. Used by `player`,
`policies`, `service` and `simulation`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from slotwise.arrays import Floats, Links, Whole
from slotwise.compile import hot, inner, int64, switching
from slotwise.errors import InvalidInput
from slotwise.selection.mix import (
    INTEGRAL,
    N_OPEN,
    N_SURE,
    N_TIED,
    TIED_SLOTS,
    Mix,
    new_places,
    new_sums,
)
from slotwise.selection.passes import first_above, running_sums
from slotwise.selection.uniforms import next_uniform

BELOW_ONE = 1.0 - 2.0**-52
"""A factor that makes every positive number smaller, by one or two units of its last bit."""


@inner
def _holder_of(sums: Floats, start: int, end: int, base: float, held: int, share: float) -> int:
    """Return which entry of a stretch holds its mass: `held`, or one of start..end-1.

    It is the first one with which the mass exceeds a random share of the whole.
    """
    bound = min(base + share * (sums[end] - base), sums[end] * BELOW_ONE)
    found = first_above(sums, start + 1, bound) - 1
    return held if bound < sums[start] else found


@inner
def round_entries(
    entries: Floats,
    n_entries: int,
    rng: np.random.Generator,
    shown: Links,
    n_shown: int,
    sums: Floats,
    places: Whole,
) -> int:
    """Append to `shown` the entries that dependent rounding takes; return how many there are.

    `sums` and `places` are buffers, as in a mix.
    """
    n_places = running_sums(entries, n_entries, len(shown), sums, places)
    held = int64(-1)
    start = int64(0)
    base = 0.0  # the part of the sum in the stretches before this one
    for k in range(n_places):
        i = places[k]
        mass = sums[i] - base
        if entries[i] >= 1.0 - INTEGRAL:
            shown[n_shown + k] = i
            if i > start and mass > INTEGRAL:
                held = _holder_of(sums, start, i, base, held, next_uniform(rng))
        else:
            holder = _holder_of(sums, start, i, base, held, next_uniform(rng))
            probability = sums[i + 1] - sums[i]
            is_taken = next_uniform(rng) * (2.0 - mass - probability) >= 1.0 - probability
            shown[n_shown + k] = i if is_taken else holder
            held = holder if is_taken else i
            base += 1.0
        start = i + 1
    n_shown += n_places
    if sums[n_entries] - base > 0.5:
        shown[n_shown] = _holder_of(sums, start, n_entries, base, held, next_uniform(rng))
        n_shown += 1
    return n_shown


@hot
def draw_page(mix: Mix, rng: np.random.Generator, shown: Links, probabilities: Floats) -> None:
    """Draw a page from `mix`: the links shown and the probability that each of them had.

    The tied part is drawn as a random subset, which has the same marginals and negative correlation
    at the price of the slots instead of the links. `mix` is not changed.
    """
    n_sure, n_open, n_tied = mix.sizes[N_SURE], mix.sizes[N_OPEN], mix.sizes[N_TIED]
    for k in range(n_sure):
        shown[k] = mix.sure[k]
        probabilities[k] = 1.0
    n_shown = round_entries(mix.probabilities, n_open, rng, shown, n_sure, mix.sums, mix.places)
    for k in range(n_sure, n_shown):
        entry = shown[k]
        shown[k] = mix.open[entry]
        probabilities[k] = mix.probabilities[entry]
    tied, places = mix.tied, mix.places
    n_picks = mix.sizes[TIED_SLOTS]
    for k in range(n_picks):
        pick = k + int(next_uniform(rng) * (n_tied - k))
        places[k] = pick
        shown[n_shown + k] = tied[pick]
        probabilities[n_shown + k] = n_picks / n_tied
        tied[pick] = tied[k]
        tied[k] = shown[n_shown + k]
    for k in range(n_picks - 1, -1, -1):
        pick = places[k]
        link = tied[k]
        tied[k] = tied[pick]
        tied[pick] = link


@inner
def _settle_pair(left: Floats, one: int, other: int, rng: np.random.Generator) -> int:
    """Round a pair of open entries, so that one of them is 0 or 1; return the other, or -1."""
    up = min(1.0 - left[one], left[other])
    down = min(left[one], 1.0 - left[other])
    # Selected without a branch, which could not be predicted.
    more = up if next_uniform(rng) * (up + down) < down else -down
    left[one] += more
    left[other] -= more
    is_open = INTEGRAL < left[other] < 1.0 - INTEGRAL
    rest = other if is_open else int64(-1)
    return one if INTEGRAL < left[one] < 1.0 - INTEGRAL else rest


@hot
def draw_by_groups(
    probabilities: Floats,
    links: Links,
    ends: Whole,
    left: Floats,
    rng: np.random.Generator,
    shown: Links,
    drawn_with: Floats,
) -> None:
    """Draw a page pair by pair, first inside each group, then between groups.

    So a group whose probabilities sum to s has the whole number below or above s of slots on every
    page, and inclusion probabilities are exact. Group g is `links[ends[g - 1]:ends[g]]`, and
    `left` is a buffer with a number for each link.
    """
    for link in range(len(probabilities)):
        left[link] = probabilities[link]
    between = int64(-1)
    k = int64(0)
    for group in range(len(ends)):
        held = int64(-1)
        while k < ends[group]:
            link = links[k]
            k += 1
            if INTEGRAL < left[link] < 1.0 - INTEGRAL:
                held = link if held < 0 else _settle_pair(left, held, link, rng)
        if held >= 0:
            between = held if between < 0 else _settle_pair(left, between, held, rng)
    n_shown = int64(0)
    for link in range(len(probabilities)):
        if left[link] > 0.5 and n_shown < len(shown):
            shown[n_shown] = link
            drawn_with[n_shown] = probabilities[link]
            n_shown += 1


def dependent_rounding(probabilities: ArrayLike, rng: np.random.Generator) -> Links:
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
    n_links = len(entries)
    shown = np.empty(min(n_slots + 1, n_links), np.int64)
    buffers = new_sums(n_links), new_places(n_links)
    n_shown = switching(round_entries)(entries, n_links, rng, shown, 0, *buffers)
    return shown[:n_shown]
