"""The ledger of open views: pages that were shown and whose feedback is not known yet.

A page is issued when it is shown, and settled, level by level, when its feedback is learned. Counts
are absolute and never negative. A view is also counted for the segments of its visitor that have a
floor of their own. `Player` owns a ledger and shares its arrays with the state of the policy, so a
restored or moved state has the same open views. Used by `con_ucb`, `con_ucb_floors`,
`floor_prices`, `link_rates`, `paced_bayes`, `player`, `visitor_learning` and
`visitor_rates`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.arrays import Floats, Links, Whole
from slotwise.compile import hot
from slotwise.problem import Problem

EVERYBODY = -1
"""The place of a floor that counts the pages of all visitors."""


class OpenLedger(NamedTuple):
    """Open views by level and link, and open pages by level.

    `of_segments` and `segment_pages` have the open clicks of visitors with the feature values
    `places`, which are those with a floor, and `of_values` those of visitors with each value, where
    the visitors of open views are known. `is_changed` marks links whose counts have changed since
    the policy last looked. A page with fewer links than slots, for example after others have left
    the pool, is a part of a page.
    """

    views: Floats
    pages: Floats
    of_segments: Floats
    segment_pages: Floats
    of_values: Floats
    places: Whole
    is_changed: NDArray[np.bool_]
    n_slots: int


def new_open_views(problem: Problem) -> OpenLedger:
    """Return a ledger without any page."""
    n_levels, n_links = problem.n_levels, problem.n_links
    places = [place for place, _ in problem.segment_floor_places]
    return OpenLedger(
        views=np.zeros((n_levels, n_links)),
        pages=np.zeros(n_levels),
        of_segments=np.zeros((len(places), n_links)),
        segment_pages=np.zeros(len(places)),
        of_values=np.zeros((sum(problem.feature_sizes), n_links)),
        places=np.array(places, np.int64),
        is_changed=np.ones(n_links, np.bool_),
        n_slots=problem.n_slots,
    )


@hot
def belongs(visitor: Links, place: int) -> bool:
    """Return whether a visitor has a feature value; every visitor belongs to `EVERYBODY`."""
    found = place < 0
    for k in range(len(visitor)):
        found |= visitor[k] == place
    return found


@hot
def count_open(
    open_views: OpenLedger, visitor: Links, level: int, links: Links, n_views: float
) -> None:
    """Issue `n_views` page views with these links at a level; a negative number settles them."""
    n_pages = n_views * len(links) / open_views.n_slots
    open_views.pages[level] = max(0.0, open_views.pages[level] + n_pages)
    for k in range(len(links)):
        link = links[k]
        open_views.views[level, link] = max(0.0, open_views.views[level, link] + n_views)
        open_views.is_changed[link] = True
    for f in range(len(visitor) if level == 0 else 0):
        views = open_views.of_values[visitor[f]]
        for k in range(len(links)):
            views[links[k]] = max(0.0, views[links[k]] + n_views)
    for row in range(len(open_views.places) if level == 0 else 0):
        if belongs(visitor, open_views.places[row]):
            pages = open_views.segment_pages[row] + n_pages
            open_views.segment_pages[row] = max(0.0, pages)
            views = open_views.of_segments[row]
            for k in range(len(links)):
                views[links[k]] = max(0.0, views[links[k]] + n_views)


@hot
def has_open_pages(open_views: OpenLedger) -> bool:
    """Return whether any page is open."""
    is_any = False
    for level in range(len(open_views.pages)):
        is_any |= open_views.pages[level] > 0.0
    return is_any


def take_counts(open_views: OpenLedger, other: OpenLedger, kept: Links) -> None:
    """Copy the counts of another ledger, whose link `kept[i]` is link i here; -1 for a new link.

    Segments are matched by their places; a segment that had no floor starts without open views, and
    so do all values where there are more or fewer than before.
    """
    stays = kept >= 0
    open_views.views[:, stays] = other.views[:, kept[stays]]
    if len(open_views.of_values) == len(other.of_values):
        open_views.of_values[:, stays] = other.of_values[:, kept[stays]]
    for row, place in enumerate(open_views.places.tolist()):
        for old in np.flatnonzero(other.places == place).tolist():
            open_views.of_segments[row, stays] = other.of_segments[old, kept[stays]]
    set_pages(open_views)


def set_pages(open_views: OpenLedger) -> None:
    """Derive the open pages from the open views, and mark all links as changed."""
    n_slots = open_views.n_slots
    open_views.pages[:] = open_views.views.sum(axis=1) / n_slots
    open_views.segment_pages[:] = open_views.of_segments.sum(axis=1) / n_slots
    open_views.is_changed[:] = True


def copied_counts(open_views: OpenLedger) -> OpenLedger:
    """Return a ledger with the same counts and arrays of its own."""
    return open_views._replace(
        views=open_views.views.copy(),
        pages=open_views.pages.copy(),
        of_segments=open_views.of_segments.copy(),
        segment_pages=open_views.segment_pages.copy(),
        of_values=open_views.of_values.copy(),
        is_changed=np.ones_like(open_views.is_changed),
    )


def merge_values(open_views: OpenLedger, value: int, into: int) -> None:
    """Count the open views of visitors with one value for another one of the same feature."""
    open_views.of_values[into] += open_views.of_values[value]
    open_views.of_values[value] = 0.0


def has_counts(open_views: OpenLedger) -> bool:
    """Return whether any view is open."""
    return bool(open_views.views.any())
