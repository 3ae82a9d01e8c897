"""The links that tied at the end of the last page, cached from round to round.

In a large pool thousands of links have the same counts, hence the same bounds, and tie at the end
of the page, at any price. Listing them for every page costs more than everything else. While no
bound outside the page changes, the links that tied still tie; only those whose counts changed have
left. One pass over the scores proves it: as many links have the score of the group as the group has
members. The pass also finds the links above the group, which are few.

The members are `mix.tied[:size]` of the policy's mix. Used by `paced_bayes`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.compile import inner, int64
from slotwise.policies.policy import Floats, Links
from slotwise.selection.mix import N_SURE, N_TIED, TIED_SLOTS, Mix
from slotwise.selection.page_search import N_CANDIDATES, Search

LEAST_POOL = 2_000
"""In smaller pools listing the links that tie costs less than caching them."""

BLOCK = int64(64)
"""Links that are counted in one vectorised block."""


class TiedGroup(NamedTuple):
    """The size of the group, and the index of each of its links in `mix.tied`.

    `place` of a link that is not in the group is meaningless.
    """

    size: NDArray[np.int64]
    place: NDArray[np.int64]


def new_tied_group(n_links: int) -> TiedGroup:
    """Return a group without members."""
    return TiedGroup(np.zeros(1, np.int64), np.zeros(n_links, np.int64))


@inner
def forget_group(group: TiedGroup) -> None:
    """Remove all members of the group."""
    group.size[0] = 0


@inner
def keep_group(group: TiedGroup, mix: Mix) -> None:
    """Make the links that tie at the end of the page in `mix` the group."""
    group.size[0] = 0 if len(group.place) < LEAST_POOL else mix.sizes[N_TIED]
    for k in range(group.size[0]):
        group.place[mix.tied[k]] = k


@inner
def leave_group(group: TiedGroup, links: Links, mix: Mix) -> None:
    """Remove links whose bounds may change."""
    size, place, tied = group.size, group.place, mix.tied
    if size[0] == 0:
        return
    for k in range(len(links)):
        hole = place[links[k]]
        if hole < size[0] and tied[hole] == links[k]:
            size[0] -= 1
            moved = tied[size[0]]
            tied[hole] = moved
            place[moved] = hole


@inner
def find_above_group(
    group: TiedGroup, score: Floats, n_slots: int, search: Search, mix: Mix
) -> bool:
    """Put the links above the group into `search`; return whether the group fills the page."""
    size = group.size[0]
    if size < n_slots:
        return False
    of_group = score[mix.tied[0]]
    n_above = n_equal = int64(0)
    for begin in range(int64(0), len(score), BLOCK):
        some = score[begin : begin + BLOCK]
        n_higher = int64(0)
        for k in range(len(some)):
            n_higher += some[k] > of_group
            n_equal += some[k] == of_group
        if n_higher > 0:  # in few blocks, and counting runs in vectors
            for k in range(len(some)):
                search.entry[n_above] = begin + k
                n_above += some[k] > of_group
    search.sizes[N_CANDIDATES] = n_above
    return n_equal == size and n_above < n_slots


@inner
def list_from(score: Floats, least: float, listed: Links) -> int:
    """List the links whose score is at least `least`, in order; return their number."""
    n_listed = int64(0)
    for begin in range(int64(0), len(score), BLOCK):
        some = score[begin : begin + BLOCK]
        n_in_block = int64(0)
        for k in range(len(some)):
            n_in_block += some[k] >= least
        if n_in_block > 0:  # in few blocks, and counting runs in vectors
            for k in range(len(some)):
                listed[n_listed] = begin + k
                n_listed += some[k] >= least
    return n_listed


@inner
def fill_up_from_group(group: TiedGroup, n_slots: int, search: Search, mix: Mix) -> None:
    """Fill `mix` with the links that `find_above_group` found and, for the rest, the group."""
    n_above = search.sizes[N_CANDIDATES]
    for k in range(n_above):
        mix.sure[k] = search.entry[k]
    mix.sizes[:] = 0
    mix.sizes[N_SURE] = n_above
    mix.sizes[N_TIED] = group.size[0]
    mix.sizes[TIED_SLOTS] = n_slots - n_above
