"""The estimators: four ways to add up the pages of a log, with one target.

The target is V = mean over pages of sum_i x_ti E[r_ti], what the candidate with inclusion
probabilities x would have brought a page view. The log shows link i on page t with inclusion
probability p_ti, and w = x / p for a link shown. A page's revenue is a sum over its links, so
weights are per link and never a product over the page. All of them assume that logged
probabilities are those of the whole mechanism, that a link brings the same whatever stands
beside it, and that it stands in the slots that the log gave it (a candidate by slot does not
need the last one).

    ips       1/n sum_t sum_shown w r
              unbiased where p > 0 whenever x > 0 (Horvitz and Thompson 1952)
    sn        L sum w r / sum w
              self-normalised: biased by O(1/n), bounded by L max r (Swaminathan and Joachims 2015)
    dr        1/n sum_t [ sum_i x g + sum_shown w (r - g) ],  g fitted to pages before t only
              unbiased like ips, with less variance where g is good (Dudik et al. 2014)
    clipped   1/n sum_t sum_shown min(w, c) r
              too low by what the clipped weights carry, and never far off (Bottou et al. 2013)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.evaluation.estimating.page_sums import PageSums

__all__ = ["ESTIMATORS", "Totals", "new_totals"]

Floats = NDArray[np.float64]
ESTIMATORS = ("dr", "ips", "sn", "clipped")
"""The names of the estimators; the module's docstring has their formulas."""


class Totals(NamedTuple):
    """Sums over pages; arrays have clicks first, then revenue.

    `most` is the sum of the candidate's page, L for a full page.
    """

    n_pages: int
    most: float
    weights: float
    squared_weights: float
    squared_page_weights: float
    largest_weight: float
    outcomes: Floats
    corrections: Floats
    clipped_outcomes: Floats

    def plus(self, sums: PageSums, most: Floats, corrections: Floats) -> Totals:
        """Return the totals with some pages added."""
        return Totals(
            self.n_pages + len(most),
            self.most + float(most.sum()),
            self.weights + float(sums.weights.sum()),
            self.squared_weights + float(sums.squared_weights.sum()),
            self.squared_page_weights + float(((sums.weights - most) ** 2).sum()),
            max(self.largest_weight, float(sums.largest_weights.max(initial=0.0))),
            self.outcomes + sums.outcomes.sum(axis=1),
            self.corrections + corrections.sum(axis=1),
            self.clipped_outcomes + sums.clipped_outcomes.sum(axis=1),
        )

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


def new_totals() -> Totals:
    """Return the totals of no page."""
    nothing = np.zeros(2)
    return Totals(0, 0.0, 0.0, 0.0, 0.0, 0.0, nothing, nothing, nothing)
