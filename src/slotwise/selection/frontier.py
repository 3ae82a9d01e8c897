"""The frontier: the best value for every floor, as a chain of exact pieces.

Used by `solve_kinds`, `cli`, `evaluation`, `selector` and `service`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from slotwise.arrays import Floats
from slotwise.compile import switching
from slotwise.selection.page_rules import PageRules
from slotwise.selection.page_search import Entries, Objective, new_search
from slotwise.selection.page_within_rules import best_within
from slotwise.selection.rules import SlotRule, settle_rules
from slotwise.selection.solve import check_kinds, check_page, check_rates
from slotwise.selection.top_page import TIE, top_page


class Frontier(NamedTuple):
    """Best value against floor: breakpoints from the best page to the most clicked one.

    Between breakpoints i and i + 1 value falls by `shadow_prices[i]` for each further click. Below
    the first breakpoint the floor costs nothing; above the last it is infeasible.
    """

    floors: Floats
    values: Floats
    shadow_prices: Floats

    def value_at(self, floor: float) -> float:
        """Return the best value that keeps `floor`; NaN if no page can."""
        if floor > self.floors[-1]:
            return float("nan")
        return float(np.interp(floor, self.floors, self.values))

    def shadow_price_at(self, floor: float) -> float:
        """Return the value given up for a further click at `floor`."""
        if floor > self.floors[-1]:
            return float("inf")
        if floor <= self.floors[0]:
            return 0.0
        return float(self.shadow_prices[np.searchsorted(self.floors, floor) - 1])


def frontier(
    value: ArrayLike,
    clicks: ArrayLike,
    n_slots: int,
    shares: ArrayLike | None = None,
    rules: Sequence[SlotRule] | PageRules = (),
    slot_weights: ArrayLike | None = None,
) -> Frontier:
    """Return the whole curve of best value against click floor, with the price of each piece.

    Two neighbouring pages are equal at a price; a page that is better at that price splits the
    piece, otherwise the piece is final. So every breakpoint costs two pages.

    >>> curve = frontier(value=[0.9, 0.6, 0.1], clicks=[0.1, 0.5, 0.9], n_slots=1)
    >>> curve.floors.tolist(), curve.values.tolist()
    ([0.1, 0.5, 0.9], [0.9, 0.6, 0.1])
    >>> round(curve.value_at(0.3), 6), round(curve.shadow_price_at(0.3), 6)
    (0.75, 0.75)

    Where visitors are of several kinds, `value` and `clicks` have a row for each kind, and `shares`
    has each kind's share of the page views: the curve is that of the average page view. `rules` are
    those of `slotwise.selection.solve_rules`, or settled ones; they hold for every kind. With
    `slot_weights`, the links worth most at each price are in the slots with most clicks.
    """
    weights = None if slot_weights is None else -np.sort(-np.asarray(slot_weights, np.float64))
    n_links = np.shape(value)[-1] if np.ndim(value) else 0

    def within() -> PageRules | None:
        if isinstance(rules, PageRules):
            return rules
        return settle_rules(rules, n_links, n_slots).rules if len(rules) else None

    if shares is not None or np.ndim(value) == 2:
        rows, click_rows, parts = check_kinds(value, clicks, n_slots, shares)
        ruled = within()
        of_kinds = [
            (share, _frontier(v, c, n_slots, ruled, weights))
            for share, v, c in zip(parts.tolist(), rows, click_rows, strict=True)
        ]
        return _average_frontier(of_kinds)
    value = check_rates("value", value)
    clicks = check_rates("clicks", clicks)
    check_page(value, clicks, n_slots)
    return _frontier(value, clicks, n_slots, within(), weights)


def _frontier(
    value: Floats, clicks: Floats, n_slots: int, within: PageRules | None, weights: Floats | None
) -> Frontier:
    """Return the frontier of visitors of one kind."""
    search, entries = new_search(len(value)), Entries(value, clicks, len(value))

    def page(value_weight: float, click_weight: float) -> tuple[float, float]:
        if within is None and weights is None:
            found = top_page(entries, n_slots, Objective(value_weight, click_weight), search)
            return found[1], found[0]
        score = value_weight * value + click_weight * clicks
        second = clicks if value_weight > 0.0 else value
        order = np.lexsort((-second, -score))[: None if within is not None else n_slots]
        if within is None:
            exposure = np.ones(len(order))
        else:
            switching(best_within)(within, score, second)
            exposure = within.probabilities[order]
        if weights is not None:
            exposure = slot_weight_of(exposure, weights)
        return float(exposure @ clicks[order]), float(exposure @ value[order])

    corners, prices = corners_of(page)
    floors, values = np.array(corners).T
    return Frontier(floors.copy(), values.copy(), np.array(prices))


AnyPage = TypeVar("AnyPage", bound=tuple[Any, ...])
"""A page: its clicks, its value, and other data of the caller."""


def corners_of(page: Callable[[float, float], AnyPage]) -> tuple[list[AnyPage], list[float]]:
    """Return the pages at the corners of a frontier, fewest clicks first, and prices between them.

    `page` returns the best page at weights of value and of clicks. Two pages are equal at a price;
    if the best page at that price is better than both, it is between them.
    """
    corners, ahead, prices = [page(1.0, 0.0)], [page(0.0, 1.0)], []
    while ahead:
        few, many = corners[-1], ahead[-1]
        more_clicks = many[0] - few[0]
        if more_clicks <= TIE * many[0]:
            ahead.pop()
            continue
        price = max(0.0, (few[1] - many[1]) / more_clicks)
        between = page(1.0, price)
        gain = between[1] - few[1] + price * (between[0] - few[0])
        if few[0] < between[0] < many[0] and gain > TIE * (few[1] + price * few[0]):
            ahead.append(between)
        else:
            corners.append(ahead.pop())
            prices.append(price)
    return corners, prices


def slot_weight_of(parts: Floats, weights: Floats) -> Floats:
    """Return the slot weight of each link, given the parts of a slot that links have in order.

    The first link has the slots with the largest weights; each has the slots after the one before.
    """
    ends, filled = np.cumsum([0.0, *parts]), np.cumsum([0.0, *weights])
    return np.diff(np.interp(ends, np.arange(len(filled)), filled))


def _average_frontier(of_kinds: Sequence[tuple[float, Frontier]]) -> Frontier:
    """Return the frontier of the average visitor, given the share and the frontier of each kind.

    All kinds have one price, so a rising floor adds clicks where they are cheapest: the pieces of
    the kinds' own frontiers, in the order of their prices.
    """
    prices = np.concatenate([curve.shadow_prices for _, curve in of_kinds])
    more_clicks = np.concatenate([share * np.diff(curve.floors) for share, curve in of_kinds])
    order = np.argsort(prices, kind="stable")
    order = order[more_clicks[order] > 0.0]
    first_clicks = sum(share * curve.floors[0] for share, curve in of_kinds)
    first_value = sum(share * curve.values[0] for share, curve in of_kinds)
    floors = first_clicks + np.concatenate([[0.0], np.cumsum(more_clicks[order])])
    paid = np.cumsum(prices[order] * more_clicks[order])
    return Frontier(floors, first_value - np.concatenate([[0.0], paid]), prices[order])
