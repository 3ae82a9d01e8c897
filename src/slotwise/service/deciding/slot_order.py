"""Pages whose slots differ: the links worth most go to the best slots, or all stand at random."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from slotwise.selection.page_order import share_in_random_order
from slotwise.service.pool import page_order_of
from slotwise.service.records import PoolSettings, ShownLink

__all__ = ["Arranged", "SlotOrder"]

MAX_KEPT = 20_000


class Arranged(NamedTuple):
    """A page in the order of its slots."""

    shown: tuple[ShownLink, ...]
    random_order: bool


class SlotOrder:
    """Puts pages into the order of a version's slot weights; one thread at a time."""

    def __init__(self, pool: PoolSettings, clicks: Sequence[float]) -> None:
        order = page_order_of(pool, clicks)
        self._ranks = {slot + 1: rank for rank, slot in enumerate(order.best_first.tolist())}
        self._share = float(share_in_random_order(order))
        self._kept: dict[tuple[int, int], tuple[ShownLink, ShownLink]] = {}

    def arrange(
        self,
        shown: tuple[ShownLink, ...],
        pinned: Iterable[int],
        rng: np.random.Generator,
        *,
        at_random: bool,
    ) -> Arranged:
        """Return a page, whose links come best first, in the order of its slots.

        Links at pinned positions stay. A page with pins is never counted as one in random order.
        """
        fixed = set(pinned)
        free = [link for link in shown if link.position not in fixed]
        positions = [link.position for link in free]
        is_random = at_random or (self._share > 0.0 and rng.random() < self._share)
        if is_random:
            positions = [positions[k] for k in rng.permutation(len(positions)).tolist()]
        else:
            # Slots beyond those that weights are known of come last.
            positions.sort(key=lambda position: self._ranks.get(position, position))
        page = list(shown)
        for link, position in zip(free, positions, strict=True):
            page[position - 1] = self._at(link, position)
        return Arranged(tuple(page), is_random and not fixed)

    def _at(self, link: ShownLink, position: int) -> ShownLink:
        """Return a link at a position; the same object for the same link, which callers keep."""
        if link.position == position:
            return link
        kept = self._kept.get((id(link), position))
        if kept is not None:
            return kept[1]
        moved = ShownLink(link.link_id, position, link.propensity)
        if len(self._kept) < MAX_KEPT:
            self._kept[id(link), position] = (link, moved)  # the first keeps its id in use
        return moved
