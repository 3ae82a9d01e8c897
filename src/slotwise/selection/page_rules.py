"""The rules of a page as arrays, with the buffers to search for a page within them.

Used by `frontier`, `greedy_page`, `page_within_rules`, `player`, `policies`, `rules`, `service`,
`simulation` and `solve_kinds`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.arrays import Floats, Links
from slotwise.selection.page_search import NOTHING
from slotwise.selection.several_floors import FloorsProgram, new_floors_program

OF_LINKS = (
    *("value", "clicks", "score", "page", "other_page", "low", "high", "weights"),
    *("worth", "probabilities"),
)
OF_GROUPS = ("sums", "edge_first", "edge_second", "sum_low", "sum_high")
OF_LISTS = ("first", "second", "taken", "rank")
"""Buffers of `PageRules` with a number for each link, group and listed link."""


class SolvedWithin(NamedTuple):
    """The program within rules that was solved last: its input and its solution.

    `numbers` are its floor, status, price, value and clicks.
    """

    value: Floats
    clicks: Floats
    probabilities: Floats
    numbers: Floats


class PageRules(NamedTuple):
    """Rules that can all be kept, as arrays, and buffers to find a page within them.

    `links` has the links group by group, those without one in a last group that has no rules; group
    g has the places from `ends[g - 1]` to `ends[g]`, and `least`, `most`, `room` and `page` follow
    that order. Places that can have more than their least (`free`, group by group up to
    `free_ends`) are the candidates of a page: candidate k is place `candidates[k]`, with `value`,
    `clicks` and `score`, and `n_candidates` says where those of a group end. Entries from
    `starts[g]` on of `listed` are the best candidates of group g; `needed[g]` says how many there
    may be. Row 0 of `places` and `taken_of` is the last page with too few clicks for the floor, row
    1 the last with enough; `is_certain` says that nothing ties on it. `boost` multiplies what links
    earn, and `probabilities` is the page found last, both in the order of the pool. `crossing`
    has a row for each rule where groups cross, after a first one for the click floor, and no links
    otherwise. `solved` has the last program of values and clicks.
    """

    n_slots: int
    links: Links
    least: Floats
    most: Floats
    ends: Links
    group_least: Floats
    group_most: Floats
    base: Floats
    room: Floats
    free: Links
    free_ends: Links
    candidates: Links
    n_candidates: Links
    value: Floats
    clicks: Floats
    score: Floats
    needed: Links
    starts: Links
    listed: Links
    is_listed: NDArray[np.bool_]
    first: Floats
    second: Floats
    taken: Floats
    places: Links
    taken_of: Floats
    is_certain: NDArray[np.bool_]
    rank: Floats
    order: Links
    group_of: Links
    sizes: Links
    sums: Floats
    page: Floats
    other_page: Floats
    edge_first: Floats
    edge_second: Floats
    n_tied: Links
    n_partly: Links
    low: Floats
    high: Floats
    sum_low: Floats
    sum_high: Floats
    weights: Floats
    every_link: Links
    boost: Floats
    worth: Floats
    probabilities: Floats
    crossing: FloorsProgram
    solved: SolvedWithin


class Bounds(NamedTuple):
    """How many slots links and groups may and must have; the last group has no rules."""

    n_slots: int
    least: Floats
    most: Floats
    group: Links
    group_least: Floats
    group_most: Floats

    def sums(self, of_links: Floats) -> Floats:
        """Return the sums of numbers of links over the groups."""
        sums = np.zeros(len(self.group_least))
        np.add.at(sums, self.group, of_links)
        return sums


def new_page_rules(bounds: Bounds, crossing: FloorsProgram | None) -> PageRules:
    """Return rules with buffers; `crossing` is the program of groups that cross."""
    n_links, n_groups = len(bounds.least), len(bounds.group_least)
    links = np.argsort(bounds.group, kind="stable")
    base = bounds.sums(bounds.least)
    room = bounds.most - bounds.least
    left = bounds.n_slots - float(base.sum())
    needed = np.zeros(n_groups, np.int64)
    for place in range(n_groups):
        rooms = np.sort(room[(bounds.group == place) & (room > 0.0)])
        fits = min(bounds.group_most[place] - base[place], left)
        if fits > NOTHING and len(rooms):
            reached = np.searchsorted(np.cumsum(rooms), fits - NOTHING) + 1
            needed[place] = min(int(reached), len(rooms))
    starts = np.concatenate([[0], np.cumsum(needed)]).astype(np.int64)
    n_listed = int(starts[-1])
    per_link = {name: np.zeros(n_links) for name in OF_LINKS}
    per_group = {name: np.zeros(n_groups) for name in OF_GROUPS}
    listed = {name: np.zeros(n_listed) for name in OF_LISTS}
    placed_room = room[links]
    free = np.flatnonzero(placed_room > 0.0)
    ends = np.cumsum(np.bincount(bounds.group, minlength=n_groups))
    free_ends = np.searchsorted(free, ends)
    nothing = new_floors_program(np.zeros(0), np.zeros((0, 0)), np.zeros(0))
    return PageRules(
        **per_link,
        **per_group,
        **listed,
        n_slots=bounds.n_slots,
        links=links,
        least=bounds.least[links],
        most=bounds.most[links],
        ends=ends,
        room=placed_room,
        free=free,
        free_ends=free_ends,
        candidates=free.copy(),
        n_candidates=free_ends.copy(),
        group_least=bounds.group_least,
        group_most=bounds.group_most,
        base=base,
        needed=needed,
        starts=starts,
        listed=np.zeros(n_listed, np.int64),
        is_listed=np.zeros(n_links, np.bool_),
        places=np.zeros((2, n_listed), np.int64),
        taken_of=np.zeros((2, n_listed)),
        is_certain=np.zeros(2, np.bool_),
        order=np.arange(n_listed),
        group_of=np.repeat(np.arange(n_groups), needed),
        sizes=np.zeros(n_groups, np.int64),
        n_tied=np.zeros(n_groups + 1, np.int64),
        n_partly=np.zeros(n_groups + 1, np.int64),
        every_link=np.arange(n_links),
        boost=np.ones(n_links),
        crossing=nothing if crossing is None else crossing,
        solved=SolvedWithin(
            np.full(n_links, np.nan), np.zeros(n_links), np.zeros(n_links), np.zeros(5)
        ),
    )
