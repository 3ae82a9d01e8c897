"""Sums over the links of each page: what every estimator is made of."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.evaluation.logs.log_reader import Pages
from slotwise.selection.compiled import compiled

__all__ = ["CLICKS", "REVENUE", "PageSums", "Sheet", "page_sums"]

Floats = NDArray[np.float64]
CLICKS, REVENUE = 0, 1


class Sheet(NamedTuple):
    """A candidate and the models of one block of the log, by segment (or slot) and link.

    `probabilities` are the candidate's inclusion probabilities; `models` the predicted clicks
    and revenue, 0 for links not seen since the pool changed.
    """

    probabilities: Floats
    models: Floats


class PageSums(NamedTuple):
    """One entry for each page; arrays with two rows have clicks first, then revenue.

    With w = candidate's probability / logged probability and r the outcome of a link shown:

        weights          sum of w          squared_weights   sum of w^2
        outcomes         sum of w r
        predictions      sum of w g, g the model's prediction
        clipped_outcomes sum of min(w, clip) r
    """

    weights: Floats
    squared_weights: Floats
    largest_weights: Floats
    outcomes: Floats
    predictions: Floats
    clipped_outcomes: Floats


@compiled
def _add_up(
    starts: NDArray[np.int64],
    rows_of_sheet: NDArray[np.int64],
    links: NDArray[np.int64],
    logged: Floats,
    clicks: Floats,
    revenue: Floats,
    probabilities: Floats,
    models: Floats,
    clip: float,
) -> tuple[Floats, Floats, Floats, Floats, Floats, Floats]:
    n_pages = len(starts) - 1
    weights, squared, largest = np.zeros(n_pages), np.zeros(n_pages), np.zeros(n_pages)
    outcomes, predictions = np.zeros((2, n_pages)), np.zeros((2, n_pages))
    clipped = np.zeros((2, n_pages))
    for page in range(n_pages):
        for row in range(starts[page], starts[page + 1]):
            place, link = rows_of_sheet[row], links[row]
            weight = probabilities[place, link] / logged[row]
            if weight == 0.0:
                continue
            weights[page] += weight
            squared[page] += weight * weight
            largest[page] = max(largest[page], weight)
            for level in range(2):
                outcome = clicks[row] if level == CLICKS else revenue[row]
                outcomes[level, page] += weight * outcome
                predictions[level, page] += weight * models[level, place, link]
                clipped[level, page] += min(weight, clip) * outcome
    return weights, squared, largest, outcomes, predictions, clipped


def page_sums(pages: Pages, sheet: Sheet, by_slot: bool, clip: float) -> PageSums:
    """Add up the links of every page. By slot, the sheet has a row a slot and not a segment."""
    if by_slot:
        rows_of_sheet, logged = pages.slots - 1, pages.slot_probabilities
    else:
        rows_of_sheet = np.repeat(pages.segments, np.diff(pages.starts))
        logged = pages.probabilities
    sums = _add_up(
        pages.starts,
        rows_of_sheet,
        pages.links,
        logged,
        pages.clicks,
        pages.revenue,
        sheet.probabilities,
        sheet.models,
        clip,
    )
    return PageSums(*sums)
