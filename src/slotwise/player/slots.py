"""The slots of a player's pages: their order, learned weights, and reports about them.

Used by `player`, `selector` and `service`. The random process of an order is in
`slotwise.selection.page_order`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slotwise.arrays import Floats, Links
from slotwise.errors import InvalidInput
from slotwise.policies import NO_SLOTS
from slotwise.problem import EQUAL, Problem
from slotwise.rounds import Link
from slotwise.selection.page_order import (
    learn_slot_weights,
    new_page_order,
    share_in_random_order,
)

SIGMAS = 1.96
"""Standard errors on either side of a 95 % interval."""


MOSTLY = 0.5
"""A slot has a usual link if that link is there on more than this part of the pages."""


@dataclass(frozen=True)
class SlotReport:
    """How often links are clicked in a slot, relative to the average slot; 1 is the first slot.

    `low` and `high` are a 95 % interval of a learned weight. `clicks` are those on pages in random
    order, from which weights are learned. `link` is most often in the slot, on the share `share` of
    the pages that the selector would choose now; None in reports without pages.
    """

    slot: int
    weight: float
    low: float
    high: float
    clicks: int
    link: Link | None = None
    share: float = 0.0


class PageSlots:
    """The order of a problem's pages; nothing happens here where pages have no order."""

    def __init__(self, problem: Problem, clicks: Sequence[float] = ()) -> None:
        self.order = new_page_order(problem)
        self.are_alike = not problem.slot_weights
        """Whether pages have no order."""
        self.have_weights = bool(problem.slot_weights) and problem.slot_weights != EQUAL
        self._one_view, self._places = np.ones(problem.n_slots), np.arange(problem.n_slots)
        if len(clicks) and len(clicks) == len(self.order.clicks):
            learn_slot_weights(self.order, np.array(clicks, np.float64))

    def shown_in(self, slots: Sequence[int]) -> tuple[Links, Floats]:
        """Return the slots of links of one page and the weights of views there."""
        if self.are_alike:
            return NO_SLOTS, self._one_view[: len(slots)]
        whole_page = isinstance(slots, range)  # from the first slot on
        places = self._places[: len(slots)] if whole_page else np.array(slots, np.int64)
        return places, self.order.weights[places]

    def refuse_counts(self) -> None:
        """Refuse feedback as counts where slots differ: counts do not contain slots.

        Where weights are learned, counts are those of an average slot.
        """
        if self.have_weights and not self.order.is_learned:
            rule = '"learn" or "equal" for feedback as counts, which have no slots'
            weights = self.order.weights.tolist()
            raise InvalidInput.of("slot_weights", rule, weights, "give every page with `update`")

    def learn(self, clicked: Sequence[float]) -> None:
        """Learn from the clicks of a page in random order, one number a slot."""
        if len(clicked) == len(self.order.clicks):
            learn_slot_weights(self.order, np.array(clicked, np.float64))

    def restore(self, clicks: Floats) -> None:
        """Restore the clicks from a file."""
        shape = self.order.clicks.shape
        if clicks.shape != shape or not (np.isfinite(clicks) & (clicks >= 0)).all():
            raise ValueError(f"array slot_clicks must be counts of shape {shape}")
        learn_slot_weights(self.order, clicks.astype(np.float64))

    def report(self, links: Sequence[Link], pages: Iterable[Links]) -> tuple[SlotReport, ...]:
        """Return a row for every slot; none without weights. `pages` are in slot order."""
        rows = self.rows()
        if not rows:
            return ()
        drawn = np.array(list(pages))
        described = []
        for row, shown in zip(rows, drawn.T, strict=True):
            place, n_pages = Counter(shown.tolist()).most_common(1)[0]
            described.append(replace(row, link=links[place], share=n_pages / len(drawn)))
        return tuple(described)

    def rows(self) -> tuple[SlotReport, ...]:
        """Return the weight of every slot; none where all slots are alike."""
        if not self.have_weights:
            return ()
        order = self.order
        n_slots = len(order.weights)
        total = float(order.clicks.sum()) + n_slots
        rows = []
        pairs = zip(order.weights.tolist(), order.clicks.tolist(), strict=True)
        for place, (weight, clicks) in enumerate(pairs):
            error = 0.0
            if order.is_learned:
                error = SIGMAS * math.sqrt(weight * (n_slots - weight) / total)
            low, high = max(0.0, weight - error), weight + error
            rows.append(SlotReport(place + 1, weight, low, high, round(clicks)))
        return tuple(rows)


class SlotPositions:
    """Puts pages whose links come best first into slot order, without a policy's `rank`.

    The service decides from versions, which have no state to rank links by.
    """

    def __init__(self, slots: PageSlots, *, at_random: bool = False) -> None:
        best_first = slots.order.best_first.tolist()
        self._ranks = {slot + 1: rank for rank, slot in enumerate(best_first)}
        self._share = 1.0 if at_random else float(share_in_random_order(slots.order))

    def assign(
        self, positions: Sequence[int], pages: Links, rng: np.random.Generator
    ) -> tuple[Links, list[bool]]:
        """Return the links by position, one page a row, and which pages are in random order.

        Column k of the result is the link at `positions[k]`; 1 is the first position.
        """
        # Slots without a weight come last.
        ranks = [self._ranks.get(position, position) for position in positions]
        by_position = np.empty_like(pages)
        by_position[:, np.argsort(ranks, kind="stable")] = pages
        is_random = rng.random(len(pages)) < self._share
        by_position[is_random] = rng.permuted(by_position[is_random], axis=1)
        return by_position, is_random.tolist()


def slot_lines(rows: Sequence[SlotReport]) -> list[str]:
    """Return the weights and the usual link of each slot as lines; none where slots are alike."""
    if not rows:
        return []
    weights = ", ".join(
        f"{row.weight:.3g}" + (f" ({row.low:.3g} to {row.high:.3g})" if row.low < row.high else "")
        for row in rows
    )
    stand = [f"slot {row.slot} {row.link} ({row.share:.0%})" for row in rows if row.share > MOSTLY]
    return [f"slot weights: {weights}", *([f"mostly in {', '.join(stand)}"] if stand else [])]
