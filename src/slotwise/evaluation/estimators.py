"""The estimators: four ways to add up the pages of a log, with one target.

The target is V = mean over pages of sum_i x_ti E[r_ti], what the candidate with inclusion
probabilities x would have earned per page view. The log shows link i on page t with inclusion
probability p_ti, and w = x / p for a link shown. A page's revenue is a sum over its links, so
weights are per link and never a product over the page. All of them assume that logged
probabilities are those of the whole mechanism, that the outcome of a link does not depend on the
other links, and that it is shown in the slots that the log gave it (a candidate by slot does not
need the last one).

    ips       1/n sum_t sum_shown w r
              unbiased where p > 0 whenever x > 0 (Horvitz and Thompson 1952)
    sn        L sum w r / sum w
              self-normalised: biased by O(1/n), bounded by L max r (Swaminathan and Joachims 2015)
    dr        1/n sum_t [ sum_i x g + sum_shown w (r - g) ],  g fitted to pages before t only
              unbiased like ips, with less variance where g is good (Dudik et al. 2014)
    clipped   1/n sum_t sum_shown min(w, c) r
              too low by what the clipped weights carry, and never far off (Bottou et al. 2013)

Used by `candidate_track` and `evaluate`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slotwise.arrays import Floats, Whole
from slotwise.compile import compiled
from slotwise.evaluation.log_reader import Pages

CLICKS, REVENUE = 0, 1


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
def add_up(
    pages: Pages,
    rows_of_sheet: Whole,
    logged: Floats,
    probabilities: Floats,
    models: Floats,
    clip: float,
) -> PageSums:
    """Add up the links of every page, which were shown with the `logged` probabilities."""
    starts, n_pages = pages.starts, len(pages.starts) - 1
    weights, squared, largest = np.zeros(n_pages), np.zeros(n_pages), np.zeros(n_pages)
    outcomes, predictions = np.zeros((2, n_pages)), np.zeros((2, n_pages))
    clipped = np.zeros((2, n_pages))
    for page in range(n_pages):
        for row in range(starts[page], starts[page + 1]):
            place, link = rows_of_sheet[row], pages.links[row]
            weight = probabilities[place, link] / logged[row]
            if weight == 0.0:
                continue
            weights[page] += weight
            squared[page] += weight * weight
            largest[page] = max(largest[page], weight)
            for level in range(2):
                outcome = pages.clicks[row] if level == CLICKS else pages.revenue[row]
                outcomes[level, page] += weight * outcome
                predictions[level, page] += weight * models[level, place, link]
                clipped[level, page] += min(weight, clip) * outcome
    return PageSums(weights, squared, largest, outcomes, predictions, clipped)


ESTIMATORS = ("dr", "ips", "sn", "clipped")
"""The names of the estimators; the module's docstring has their formulas."""


class EstimateTotals:
    """Sums over pages; arrays have clicks first, then revenue.

    `most` is the sum of the candidate's page, L for a full page.
    """

    def __init__(self) -> None:
        self.n_pages = 0
        self.most = self.weights = self.squared_weights = self.squared_page_weights = 0.0
        self.largest_weight = 0.0
        self.outcomes = self.corrections = self.clipped_outcomes = np.zeros(2)

    def add(self, sums: PageSums, most: Floats, corrections: Floats) -> None:
        """Record some pages."""
        self.n_pages += len(most)
        self.most += float(most.sum())
        self.weights += float(sums.weights.sum())
        self.squared_weights += float(sums.squared_weights.sum())
        self.squared_page_weights += float(((sums.weights - most) ** 2).sum())
        self.largest_weight = max(self.largest_weight, float(sums.largest_weights.max(initial=0.0)))
        self.outcomes = self.outcomes + sums.outcomes.sum(axis=1)
        self.corrections = self.corrections + corrections.sum(axis=1)
        self.clipped_outcomes = self.clipped_outcomes + sums.clipped_outcomes.sum(axis=1)

    def estimate(self, estimator: str) -> Floats:
        """Return clicks and revenue a page view by one of `ESTIMATORS`."""
        if estimator == "sn":
            scale = self.most / self.weights if self.weights > 0 else 0.0
            return self.outcomes * scale / self.n_pages
        if estimator == "clipped":
            return self.clipped_outcomes / self.n_pages
        if estimator == "ips":
            return self.outcomes / self.n_pages
        return (self.outcomes - self.corrections) / self.n_pages

    @property
    def effective_sample_size(self) -> float:
        """Kish's (sum w)^2 / sum w^2, over links, in page views: so many pages of the candidate."""
        if self.squared_weights == 0:
            return 0.0
        n_links = self.weights**2 / self.squared_weights
        return n_links / (self.most / self.n_pages)

    @property
    def covered(self) -> tuple[float, float]:
        """The mean of sum w as a share of L, which is 1 in expectation, and its standard error."""
        scale = self.most / self.n_pages
        error = np.sqrt(self.squared_page_weights) / self.n_pages
        return self.weights / self.most, float(error / scale)
