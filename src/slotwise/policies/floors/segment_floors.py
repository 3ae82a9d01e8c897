"""Floors for segments: a paced queue for each, which only pages of its visitors move.

    Q_s <- the paced queue of `floors.queue`, over page views of visitors of segment s
    price of a click for visitor x = price of the floor for all + sum of prices of x's segments

A floor on the average page view may starve a small segment; a floor of its own cannot be bought
off with clicks of other visitors.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from slotwise.policies.contract import Floats, Links, Visitor
from slotwise.policies.floors.queue import Queues, new_queues, paced_length
from slotwise.problem import Problem
from slotwise.selection.compiled import hot

__all__ = [
    "OF_SEGMENTS",
    "SegmentFloors",
    "floor_price",
    "moved_segment_floors",
    "new_segment_floors",
    "price_clicks",
    "queue_clicks",
    "segment_knowledge",
]

OF_SEGMENTS = ("segment_queue", "segment_owed", "segment_rounds")
"""What is known of the floors of segments, as it is saved."""


class SegmentFloors(NamedTuple):
    """A queue for each floor, the feature value it belongs to, and that value's settled pages."""

    queues: Queues
    places: Links
    rounds: Floats


def new_segment_floors(problem: Problem, patience: float) -> SegmentFloors:
    """Return empty queues, one for each floor of a segment."""
    floors = problem.value_floors
    queues = new_queues(problem, patience=patience)._replace(
        lengths=np.zeros(len(floors)),
        owed=np.zeros(len(floors)),
        levels=np.zeros(len(floors), np.int64),
        least=np.array([least for _, least in floors], np.float64),
        rates=np.zeros(len(floors)),
    )
    places = np.array([place for place, _ in floors], np.int64)
    return SegmentFloors(queues, places, np.zeros(len(floors)))


def segment_knowledge(floors: SegmentFloors) -> dict[str, Floats]:
    """Return what is known of the floors, by the names under which it is saved."""
    arrays = (floors.queues.lengths, floors.queues.owed, floors.rounds)
    return dict(zip(OF_SEGMENTS, arrays, strict=True))


def moved_segment_floors(before: SegmentFloors, problem: Problem, patience: float) -> SegmentFloors:
    """Return the queues of a changed problem; a value that still has a floor keeps its queue."""
    after = new_segment_floors(problem, patience)
    for new, place in enumerate(after.places.tolist()):
        for old in np.flatnonzero(before.places == place).tolist():
            after.queues.lengths[new] = before.queues.lengths[old]
            after.queues.owed[new] = before.queues.owed[old]
            after.rounds[new] = before.rounds[old]
    return after


@hot
def _belongs(visitor: Visitor, place: int) -> bool:
    found = False
    for k in range(len(visitor)):
        found |= visitor[k] == place
    return found


@hot
def queue_clicks(floors: SegmentFloors, visitor: Visitor, views: Floats, outcomes: Floats) -> None:
    """Let the queues of a visitor's segments grow by what is owed and shrink by the clicks."""
    if len(floors.places) == 0:
        return
    n_views = 0.0
    clicks = 0.0
    for k in range(len(views)):
        n_views += views[k]
        clicks += outcomes[k]
    pages = n_views / floors.queues.n_slots
    if pages <= 0.0:
        return
    for floor in range(len(floors.places)):
        if _belongs(visitor, floors.places[floor]):
            floors.rounds[floor] += pages
            missing = floors.queues.least[floor] * pages - clicks
            floors.queues.lengths[floor] = paced_length(
                floors.queues, floor, missing, pages, floors.rounds[floor]
            )


@hot
def floor_price(floors: SegmentFloors, floor: int) -> float:
    """Return what a click of a visitor of its segment is worth for one floor."""
    promised = floors.queues.least[floor] * (floors.rounds[floor] + 1.0)
    return floors.queues.lengths[floor] / (floors.queues.patience * math.sqrt(promised))


@hot
def price_clicks(floors: SegmentFloors, visitor: Visitor) -> float:
    """Return what a click is worth for the floors of a visitor's segments."""
    price = 0.0
    for floor in range(len(floors.places)):
        if _belongs(visitor, floors.places[floor]):
            price += floor_price(floors, floor)
    return price
