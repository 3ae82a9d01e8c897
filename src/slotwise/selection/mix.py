"""The mix: the inclusion probabilities of a page, without the links that cannot be on it.

A page has few sure links, fewer open ones and sometimes a large group that ties exactly. With three
separate parts, the cost of a page view grows with the page, not with the pool. Used by most of
`selection`, and by `player`, `policies`, `service` and `simulation`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.arrays import Floats, Links, Whole
from slotwise.compile import hot, nan_check
from slotwise.compile.decorators import WINDOW

INTEGRAL = 1e-9
"""Probabilities this close to 0 or 1 are 0 or 1."""

SUM_TOLERANCE = 1e-6
"""How far the sum of a page's probabilities may be from the number of slots."""

N_SURE, N_OPEN, N_TIED, TIED_SLOTS = 0, 1, 2, 3

Part = tuple[Links, Floats | float]
"""Places in the pool, with the probability of each or one for all of them."""


class Mix(NamedTuple):
    """Inclusion probabilities of a page in three parts, whose lengths are in `sizes`.

    `sure[:n]` are on the page; `open[:n]` with probability `probabilities[:n]` each; `tied[:n]`
    share `sizes[TIED_SLOTS]` slots equally. The three expected sizes add up to `n_slots`.
    `places` and `sums` are buffers for drawing a page.
    """

    sure: Links
    open: Links
    probabilities: Floats
    tied: Links
    places: Whole
    sums: Floats
    sizes: Whole


def new_places(n_links: int) -> Links:
    """Return the buffer `places` for `n_links` open or tied links, with one extra entry."""
    return np.zeros(n_links + 1, np.int64)


def new_sums(n_links: int) -> Floats:
    """Return the buffer `sums` for `n_links` open links; a search reads a window beyond them."""
    return np.zeros(n_links + 1 + WINDOW)


def new_mix(n_links: int) -> Mix:
    """Return an empty mix for a pool of `n_links` links."""
    return Mix(
        sure=np.zeros(n_links, np.int64),
        open=np.zeros(n_links, np.int64),
        probabilities=np.zeros(n_links),
        tied=np.zeros(n_links, np.int64),
        places=new_places(n_links),
        sums=new_sums(n_links),
        sizes=np.zeros(4, np.int64),
    )


@nan_check
def set_probabilities(mix: Mix, probabilities: Floats) -> None:
    """Set the probability of link i to `probabilities[i]`; they sum to the slots.

    The simplest way for a policy to write its page; its cost grows with the pool.

    >>> mix = new_mix(3)
    >>> set_probabilities(mix, np.array([0.25, 1.0, 0.75]))
    >>> dense_probabilities(mix).tolist()
    [0.25, 1.0, 0.75]
    """
    write_mix(mix, probabilities, INTEGRAL)


@nan_check
def write_mix(mix: Mix, probabilities: Floats, integral: float) -> None:
    """Do as `set_probabilities`, where probabilities within `integral` of 0 or 1 are 0 or 1."""
    n_sure = 0
    n_open = 0
    for link in range(len(probabilities)):
        if probabilities[link] >= 1.0 - integral:
            mix.sure[n_sure] = link
            n_sure += 1
        elif not probabilities[link] <= integral:  # also NaN, which `is_lawful` refuses
            mix.open[n_open] = link
            mix.probabilities[n_open] = probabilities[link]
            n_open += 1
    mix.sizes[N_SURE] = n_sure
    mix.sizes[N_OPEN] = n_open
    mix.sizes[N_TIED] = 0
    mix.sizes[TIED_SLOTS] = 0


@nan_check
def is_lawful(mix: Mix, n_slots: int) -> bool:
    """Return whether probabilities are in [0, 1] and sum to `n_slots`, of links of the pool.

    Each link may be listed once. The buffer `places` is written.
    """
    n_links = len(mix.sure)
    n_sure, n_open, n_tied = mix.sizes[N_SURE], mix.sizes[N_OPEN], mix.sizes[N_TIED]
    n_picks = mix.sizes[TIED_SLOTS]
    if min(n_sure, n_open, n_tied, n_picks) < 0 or n_picks > n_tied:
        return False
    if n_sure + n_open + n_tied > n_links:
        return False
    total, parts = (
        float(n_sure + n_picks),
        ((mix.sure, n_sure), (mix.open, n_open), (mix.tied, n_tied)),
    )
    for k in range(n_open):
        if not -INTEGRAL <= mix.probabilities[k] <= 1.0 + INTEGRAL:
            return False
        total += mix.probabilities[k]
    n_listed = 0
    for links, n_of_part in parts:
        for k in range(n_of_part):
            if not 0 <= links[k] < n_links:
                return False
            mix.places[links[k]] = n_listed + k
        n_listed += n_of_part
    for links, n_of_part in parts[::-1]:  # of a link that is listed twice only one place remains
        n_listed -= n_of_part
        for k in range(n_of_part):
            if mix.places[links[k]] != n_listed + k:
                return False
    # Probabilities up to `INTEGRAL` may have been left out. NaN is not below anything.
    return abs(total - n_slots) <= SUM_TOLERANCE + INTEGRAL * n_links


@hot
def add_page(mix: Mix, share: float, probabilities: Floats) -> None:
    """Add a page, weighted by this share of page views, to the probabilities of links."""
    for k in range(mix.sizes[N_SURE]):
        probabilities[mix.sure[k]] += share
    for k in range(mix.sizes[N_OPEN]):
        probabilities[mix.open[k]] += share * mix.probabilities[k]
    for k in range(mix.sizes[N_TIED]):
        tied = mix.sizes[TIED_SLOTS] / mix.sizes[N_TIED]
        probabilities[mix.tied[k]] += share * tied


def parts_of(mix: Mix) -> list[Part]:
    """Return copies of the parts of a mix that are not empty."""
    n_sure, n_open, n_tied, tied_slots = mix.sizes.tolist()
    parts: list[Part] = []
    if n_sure:
        parts.append((mix.sure[:n_sure].copy(), 1.0))
    if n_open:
        parts.append((mix.open[:n_open].copy(), mix.probabilities[:n_open].copy()))
    if n_tied:
        parts.append((mix.tied[:n_tied].copy(), tied_slots / n_tied))
    return parts


def dense_probabilities(mix: Mix) -> Floats:
    """Return the probability of every link of the pool.

    >>> mix = new_mix(5)
    >>> mix.sure[0], mix.open[:2], mix.probabilities[:2] = 4, (0, 2), (0.25, 0.75)
    >>> mix.sizes[:] = 1, 2, 0, 0
    >>> dense_probabilities(mix).tolist()
    [0.25, 0.0, 0.75, 0.0, 1.0]
    """
    # not `add_page`: numpy checks the bounds of what a policy of another package wrote
    probabilities = np.zeros(len(mix.sure))
    for links, part in parts_of(mix):
        probabilities[links] = part
    return probabilities


def explored(
    probabilities: Floats, explore: float, is_free: NDArray[np.bool_] | None = None
) -> Floats:
    """Return the probabilities with exploration among the free links, all of them by default.

        p_i = (1 - explore) x_i + explore n_slots / n_links

    x is what the policy chose; pinned links keep 1 and excluded ones 0, and n_slots and n_links are
    those of the rest of the page. The sum stays the number of slots, and one dependent rounding
    draws the page, so p is exact. It costs `explore` times the difference of the policy's page and
    a random page, in revenue and in clicks: on average explore * n_slots links of a page are
    random.

    >>> explored(np.array([1.0, 1.0, 0.0, 0.0]), 0.1).round(6).tolist()
    [0.95, 0.95, 0.05, 0.05]
    """
    free = np.ones(len(probabilities), bool) if is_free is None else is_free
    mixed = probabilities.copy()
    n_free = int(free.sum())
    if explore and n_free:
        mean = float(probabilities[free].sum()) / n_free
        mixed[free] = (1.0 - explore) * probabilities[free] + explore * mean
    return mixed
