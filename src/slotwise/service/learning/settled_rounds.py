"""The settled pages of a pool in the order in which policies are fed with them.

The sequence depends on the stored rows alone, so a run that stops anywhere and continues later, or
starts over, learns exactly the same. Used by `learner` and `pool_run`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from slotwise.service.counting.attribution import (
    FOLD_START,
    LEVELS,
    FoldPosition,
    Level,
    View,
    fold_position,
)
from slotwise.service.learning.pool_player import RoundPosition
from slotwise.service.storage.contract import Store

_PAGE = 500
_AFTER_EVERY_ID = "~"
"""Sorts after every id, since no id contains this character or a later one."""


class Round(NamedTuple):
    """One settled outcome: a view at one level."""

    position: RoundPosition
    view: View


def settled_rounds(
    store: Store, pool_id: str, starts: Mapping[Level, FoldPosition], until_us: int
) -> Iterator[Round]:
    """Yield the outcomes that closed by `until_us`, those of each level after its start."""
    return heapq.merge(
        *(_of_level(store, pool_id, level, starts[level], until_us) for level in LEVELS),
        key=lambda item: item.position,
    )


def starts_after(position: RoundPosition) -> dict[Level, FoldPosition]:
    """Return the position of each level from which the sequence continues."""
    starts = {}
    for level in LEVELS:
        if level == position.level:
            decision_id = position.decision_id
        else:
            decision_id = _AFTER_EVERY_ID if level < position.level else ""
        starts[level] = FoldPosition(closes_us=position.closes_us, decision_id=decision_id)
    return starts


def latest_round(positions: Mapping[Level, FoldPosition]) -> RoundPosition:
    """Return the last outcome of the sequence up to these positions of the levels."""
    return max(
        (
            RoundPosition(position.closes_us, level, position.decision_id)
            for level, position in positions.items()
            if position != FOLD_START
        ),
        default=RoundPosition(),
    )


def _of_level(
    store: Store, pool_id: str, level: Level, after: FoldPosition, until_us: int
) -> Iterator[Round]:
    while True:
        with store.reading() as reader:
            views = reader.closed_views(pool_id, level, after, until_us, _PAGE)
        for view in views:
            after = fold_position(view, level)
            yield Round(RoundPosition(after.closes_us, level, after.decision_id), view)
        if len(views) < _PAGE:
            return
