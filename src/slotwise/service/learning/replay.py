"""The settled outcomes of a pool, one view and level at a time, in one fixed order.

Policies that learn from rounds are fed this sequence. It depends on the stored rows alone, so
a run that stops anywhere and goes on later, or starts over, learns exactly the same.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

from slotwise.service.counting.views import CLICKS, LEVELS, Level, View
from slotwise.service.storage.commands import FoldPosition
from slotwise.service.storage.contract import Store
from slotwise.service.storage.verify import fold_position

__all__ = ["RoundPosition", "settled_rounds"]

_PAGE = 1_000
_AFTER_EVERY_ID = "~"
"""Sorts after every id: no id has a character as late as this one."""


class RoundPosition(NamedTuple):
    """A place in the sequence: time of closing, then level, then decision id."""

    closes_us: int = 0
    level: Level = CLICKS
    decision_id: str = ""


def settled_rounds(
    store: Store, pool_id: str, after: RoundPosition, until_us: int
) -> Iterator[tuple[RoundPosition, View]]:
    """Go through the outcomes after a place that closed by `until_us`."""
    return heapq.merge(
        *(_of_level(store, pool_id, level, after, until_us) for level in LEVELS),
        key=lambda item: item[0],
    )


def _of_level(
    store: Store, pool_id: str, level: Level, after: RoundPosition, until_us: int
) -> Iterator[tuple[RoundPosition, View]]:
    if level == after.level:
        start_id = after.decision_id
    else:
        start_id = _AFTER_EVERY_ID if level < after.level else ""
    position = FoldPosition(closes_us=after.closes_us, decision_id=start_id)
    while True:
        with store.reading() as reader:
            views = reader.closed_views(pool_id, level, position, until_us, _PAGE)
        for view in views:
            position = fold_position(view, level)
            yield RoundPosition(position.closes_us, level, position.decision_id), view
        if len(views) < _PAGE:
            return
