"""What was seen of slots that differ: their weights, and views of links weighted by slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from slotwise.selection.page_order import PageOrder, learn_slot_weights
from slotwise.service.counting.attribution import CLICKS, LEVELS, Level, View
from slotwise.service.counting.rates import LinkCounts
from slotwise.service.pool import has_slot_weights, slots_of_pool
from slotwise.service.records import PoolSettings

Floats = NDArray[np.float64]
Links = NDArray[np.int64]


class SlotsSeen:
    """The order of a pool's pages, and the exposure of its links by level."""

    def __init__(self, order: PageOrder, counts: LinkCounts) -> None:
        self.order = order
        self.counts = counts

    @classmethod
    def of(
        cls, pool: PoolSettings, n_links: int, clicks: Sequence[float] = (), exposure: bytes = b""
    ) -> SlotsSeen | None:
        """Return what was seen of a pool's slots; None where they are alike."""
        if not has_slot_weights(pool):
            return None
        order = slots_of_pool(pool, clicks).order
        shape = (2, len(LEVELS), n_links)
        seen = np.frombuffer(exposure).reshape(shape).copy() if exposure else np.zeros(shape)
        return cls(order, LinkCounts(*seen))

    @property
    def clicks(self) -> tuple[float, ...]:
        """Clicks by slot on pages in random order."""
        return tuple(self.order.clicks.tolist())

    def exposure(self) -> bytes:
        """Return the exposure and outcomes of links, to save."""
        return np.stack(self.counts).tobytes()

    def moved(self, kept: Links) -> SlotsSeen:
        """Return the same for other links; `kept[i]` is the old place of link i or -1."""
        arrays = []
        for before in self.counts:
            after = np.zeros((len(before), len(kept)))
            after[:, kept >= 0] = before[:, kept[kept >= 0]]
            arrays.append(after)
        return SlotsSeen(self.order, LinkCounts(*arrays))

    def learn(self, view: View, level: Level, outcomes: Mapping[str, float]) -> None:
        """Learn of the slots from a page in random order, once, when its clicks settle."""
        shown = view.decision.shown
        if level == CLICKS and view.decision.random_order and len(shown) == len(self.order.clicks):
            clicks = np.zeros(len(shown))
            for link in shown:
                clicks[link.position - 1] = outcomes.get(link.link_id, 0.0)
            learn_slot_weights(self.order, clicks)

    def weights(self, positions: Sequence[int]) -> list[float]:
        """Return what a view at each position counts as; beyond the last slot, as there."""
        weights = self.order.weights
        return [float(weights[min(position, len(weights)) - 1]) for position in positions]

    def add(self, levels: Links, links: Links, views: Floats, outcomes: Floats) -> None:
        """Count views of links, weighted by slot, and what they brought."""
        np.add.at(self.counts.views, (levels, links), views)
        np.add.at(self.counts.sums, (levels, links), outcomes)
