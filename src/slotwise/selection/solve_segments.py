"""The best mix under a floor for all visitors and floors for some of them.

    maximise  sum_m share_m value_m . x_m
    subject to  sum_m share_m clicks_m . x_m >= floor                        for all visitors
                sum of the same over a segment's kinds >= its floor * its share    for each segment

Every floor has a price; a click of kind m is worth the sum of the prices of the floors that m
counts for. At given prices each kind has its own best page, so pages for all kinds are a column
of a small program over columns (Dantzig and Wolfe 1960): `solve_floors` finds the best mix of
the columns and the prices, and the pages at those prices are the next column. When these are worth
no more than the mix, the mix is optimal.

All floors are on clicks, so the page with the most clicks for every kind keeps every floor that can
be kept. A floor that even it misses is out of reach: the kinds that count for it get that page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.errors import InvalidInput
from slotwise.selection.several_floors import solve_floors
from slotwise.selection.solve import STATUSES, check_kinds

Floats = NDArray[np.float64]

MAX_COLUMNS = 10_000
ENOUGH = 1e-12
"""A column must be worth more than the mix by this part to be taken in."""


class SegmentsSolution(NamedTuple):
    """The best mix of every kind, and of each floor its price and the clicks of its page views.

    The first floor is that for all visitors. A floor out of reach has an infinite price.
    """

    probabilities: Floats
    shadow_prices: Floats
    status: str
    value: float
    clicks: Floats


class _Columns:
    """Pages for all kinds at once, what they bring, and the part of each floor that they keep."""

    def __init__(self, value: Floats, clicks: Floats, n_slots: int, weights: Floats) -> None:
        self.value, self.clicks, self.n_slots, self.weights = value, clicks, n_slots, weights
        self.pages: list[NDArray[np.int64]] = []
        self.values: list[float] = []
        self.kept: list[Floats] = []

    def best(self, score: Floats) -> tuple[NDArray[np.int64], float, Floats]:
        """Return the pages of the largest scores, their value and their clicks by floor."""
        pages = np.argsort(-score, axis=1, kind="stable")[:, : self.n_slots]
        of_kind = np.take_along_axis(self.clicks, pages, axis=1).sum(axis=1)
        value = float((self.weights[0] * np.take_along_axis(self.value, pages, axis=1).T).sum())
        return pages, value, self.weights @ of_kind

    def add(self, pages: NDArray[np.int64], value: float, kept: Floats) -> None:
        """Take in a column."""
        self.pages.append(pages)
        self.values.append(value)
        self.kept.append(kept)

    def mixed(self, parts: Floats) -> Floats:
        """Return the probabilities of a mix of the columns."""
        probabilities = np.zeros(self.value.shape)
        for part, pages in zip(parts.tolist(), self.pages, strict=True):
            if part > 0.0:
                np.add.at(probabilities, (np.arange(len(pages))[:, None], pages), part)
        return probabilities


def solve_segments(
    value: Floats,
    clicks: Floats,
    n_slots: int,
    shares: Floats,
    floor: float,
    segments: Sequence[tuple[NDArray[np.bool_], float]],
) -> SegmentsSolution:
    """Return the best mix; `segments` has for each further floor its kinds and its clicks a view.

    >>> best = solve_segments(np.array([[0.9, 0.1], [0.9, 0.1]]),
    ...                       np.array([[0.1, 0.5], [0.1, 0.5]]), 1, np.array([0.8, 0.2]),
    ...                       floor=0.1, segments=[(np.array([False, True]), 0.3)])
    >>> best.probabilities.round(6).tolist(), best.shadow_prices.round(6).tolist()
    ([[1.0, 0.0], [0.5, 0.5]], [0.0, 2.0])
    """
    value, clicks, shares = check_kinds(value, clicks, n_slots, shares)
    everybody = np.ones(len(shares), bool)
    rows, floors = [], []
    for kinds, least in [(everybody, floor), *segments]:
        share = float(shares[kinds].sum())
        if share <= 0.0:
            raise InvalidInput.of("segments", "of kinds that have page views", share)
        rows.append(np.where(kinds, shares, 0.0))
        floors.append(least * share)
    weights, least_clicks = np.array(rows), np.array(floors)
    columns = _Columns(value, clicks, n_slots, weights)
    most = columns.best(clicks + 1e-9 * value)
    is_missed = most[2] < least_clicks - 1e-11 * (1.0 + least_clicks)
    is_bound = np.asarray((weights[is_missed] > 0.0).any(axis=0))
    wanted = np.where(is_missed, np.minimum(least_clicks, most[2]), least_clicks)
    columns.add(*_with_most_clicks(columns, value, is_bound))
    columns.add(*most)
    for _ in range(MAX_COLUMNS):
        mix = solve_floors(columns.values, np.array(columns.kept).T / n_slots, 1, wanted / n_slots)
        prices = np.where(np.isfinite(mix.shadow_prices), mix.shadow_prices, 0.0) / n_slots
        of_kind = prices @ (weights > 0.0)
        score = value + of_kind[:, None] * clicks
        pages, worth, kept = _with_most_clicks(columns, score, is_bound)
        reached = float(np.array(columns.values) @ mix.probabilities)
        reached += float(prices @ (np.array(columns.kept).T @ mix.probabilities))
        if worth + float(prices @ kept) <= reached + ENOUGH * max(1.0, reached):
            break
        columns.add(pages, worth, kept)
    share_of = weights.sum(axis=1)
    prices = np.where(is_missed, np.inf, prices)
    status = STATUSES[2] if is_missed.any() else STATUSES[1 if (prices > 0.0).any() else 0]
    return SegmentsSolution(
        probabilities=columns.mixed(mix.probabilities),
        shadow_prices=prices,
        status=status,
        value=float(np.array(columns.values) @ mix.probabilities),
        clicks=np.array(columns.kept).T @ mix.probabilities / share_of,
    )


def _with_most_clicks(
    columns: _Columns, score: Floats, is_bound: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], float, Floats]:
    """Return the best column, in which kinds whose floor is out of reach have the most clicks."""
    if is_bound.any():
        score = np.where(is_bound[:, None], columns.clicks + 1e-9 * columns.value, score)
    return columns.best(score)
