"""The prices of a version's next rounds, for visitors that differ.

The queues go on as if every page brought the clicks that are expected of it, with the visitors of
the last minutes. `pages` is a `VisitorPages`, whose policy plays the rounds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.policies.contract import Floats
from slotwise.policies.floors.queue import Queues, queue_outcomes
from slotwise.policies.floors.segment_floors import SegmentFloors, queue_clicks
from slotwise.selection.compiled import hot

__all__ = ["Open", "grouped_prices", "prices_ahead"]

N_PRICES = 16
"""Prices of a version: the means of as many parts of the rounds ahead, in order of price."""


class Open(NamedTuple):
    """Views whose feedback is open, by level and link, and by level, feature value and link."""

    links: Floats
    values: NDArray[np.float32]


@hot
def _settle_open(queues: Queues, views: Floats, clicks: Floats, rounds: Floats) -> None:
    """Let the queues settle open views that are expected to bring these clicks."""
    queue_outcomes(queues, 0, views, clicks, rounds)


def copied_queues(queues: Queues) -> Queues:
    """Return queues that go on by themselves."""
    return queues._replace(
        lengths=queues.lengths.copy(), owed=queues.owed.copy(), worth=queues.worth.copy()
    )


def grouped_prices(prices: Floats) -> Floats:
    """Return the means of `N_PRICES` parts of the prices, in order of price; one if all agree."""
    if len(prices) < N_PRICES:
        return prices
    means: Floats = np.sort(prices).reshape(N_PRICES, -1).mean(axis=1)
    return means[:1] if means[0] == means[-1] else means


def _settle_segments(
    floors: SegmentFloors, pages: Any, visitors: NDArray[np.int64], open_views: Open
) -> None:
    """Let the queues of segments settle open views, given by value and link.

    The last of these visitors who belongs to a segment stands for all of it.
    """
    for place in floors.places:
        members = visitors[(visitors == place).any(axis=1)]
        pages.look_at(members[-1] if len(members) else visitors[0])
        shown = open_views.values[0, place].astype(np.float64)
        views, clicks = np.array([shown.sum()]), np.array([shown @ pages.rate[0]])
        queue_clicks(floors, np.array([place]), views, clicks)


def prices_ahead(
    state: Any,
    pages: Any,
    visitors: NDArray[np.int64],
    open_views: Open,
    click_rates: Floats,
    n_rounds: int,
) -> Floats:
    """Return the prices of the next rounds with these visitors, grouped to a few.

    With floors of segments they are not grouped: a row for each round, a column for each floor.
    Views that are still open are first expected to bring their links' `click_rates`.
    """
    queues, held = copied_queues(state.queues), state.segment_floors
    floors = held._replace(queues=copied_queues(held.queues), rounds=held.rounds.copy())
    rounds = state.evidence.rounds.copy()
    shown = open_views.links[0]
    if shown.any():
        rounds[0] += shown.sum() / queues.n_slots
        brought = np.array([shown @ click_rates])
        _settle_open(queues, np.array([shown.sum()]), brought, rounds)
        _settle_segments(floors, pages, visitors, open_views)
    n_rounds = max(n_rounds, N_PRICES) // N_PRICES * N_PRICES
    prices = np.zeros((n_rounds, 1 + len(floors.places)))
    ahead = (queues, floors, rounds, visitors, pages.links, pages.room, prices)
    pages.play_ahead(*ahead)
    return prices if len(floors.places) else grouped_prices(prices[:, 0])
