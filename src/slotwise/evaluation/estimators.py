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

Used by `evaluate`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.arrays import Floats, Whole
from slotwise.compile import compiled, compiled_first
from slotwise.evaluation.candidates import Candidate, Known
from slotwise.evaluation.confidence_sequence import Bets, PageValues, add_pages, new_bets
from slotwise.evaluation.log_reader import Pages
from slotwise.evaluation.page_blocks import PageBlocks

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
def _add_up(
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


class Track:
    """What a candidate would have earned on the pages so far.

    `prepare` is called before some pages and `add` with them: what the candidate and the models
    know is always older than the pages they are used on.
    """

    def __init__(self, candidate: Candidate, clip: float, pages_a_block: int) -> None:
        self.candidate = candidate
        self.totals = EstimateTotals()
        self.bets = (new_bets(), new_bets())
        self.blocks = PageBlocks(pages_a_block)
        self.n_skipped = 0
        self.is_full_support = True
        """Whether every page so far says that each link of the pool could be shown."""
        self._clip = clip
        self.unknown = 0.0
        """The candidate's page, summed over pages, on links that the pool did not have."""
        self._claimed = np.zeros(0)
        self.table: Floats | None = None
        """The candidate's probabilities on the last pages, by segment (or slot) and link."""
        self._models = np.zeros((2, 0, 0))
        """Predicted clicks and revenue, 0 for links not seen since the pool changed."""

    def prepare(self, known: Known, is_seen: NDArray[np.bool_], refit: bool) -> None:
        """Look at the log so far; a refit lets the candidate choose again."""
        if self.table is None or refit:
            table = self.candidate.probabilities(known)
        else:
            table = self.candidate.extended(self.table, known)
        self.table = np.ascontiguousarray(table)
        rates = known.rates[:, : len(table), : len(is_seen)]
        self._models = np.zeros((2, *table.shape))
        self._models[:, : rates.shape[1], : rates.shape[2]] = rates * is_seen[: rates.shape[2]]

    def add(self, pages: Pages) -> None:
        """Record the next pages."""
        table, models, n_links = self.table, self._models, np.diff(pages.starts)
        assert table is not None
        of_row = np.array([table.sum(axis=1), *(table * models).sum(axis=2)])
        if self.candidate.by_slot:  # the table has a row a slot and not a segment
            places, logged = pages.slots - 1, pages.slot_probabilities
            rows, least = np.zeros(pages.n_pages, np.int64), np.zeros(pages.n_pages)
            of_row = of_row.sum(axis=1, keepdims=True)
        else:
            places, logged = np.repeat(pages.segments, n_links), pages.probabilities
            rows, least = pages.segments, pages.min_probabilities
        add_up = compiled_first(_add_up)
        sums = add_up(pages, places, logged, table, models, self._clip)
        most, *expected = of_row[:, rows]
        corrections = sums.predictions - np.array(expected)
        self.totals.add(sums, most, corrections)
        self.blocks.add(sums.outcomes - corrections)
        self.is_full_support &= bool((pages.min_probabilities > 0).all())
        is_covered = least > 0
        factor = np.divide(1.0, least, out=np.ones(len(least)), where=is_covered)
        peak = _largest_sums(table, n_links)[rows, n_links]
        # the candidate's page over pages that claim to show any link of the pool
        self._claimed = np.pad(self._claimed, (0, table.shape[1] - len(self._claimed)))
        self._claimed += np.bincount(rows[is_covered], minlength=len(table)) @ table
        for level in range(2):
            part = _largest_sums(table * models[level], n_links)[rows, n_links]
            values = PageValues(
                plain=sums.outcomes[level],
                corrections=corrections[level],
                complements=sums.weights - sums.outcomes[level],
                expected=expected[level],
                most=most,
                peak=np.where(is_covered, peak * factor, np.inf),
                predicted_peak=np.where(is_covered, part * factor, np.inf),
            )
            add_pages(self.bets[level], values)

    def close_pool(self, shown: NDArray[np.bool_]) -> None:
        """Record which links were shown while the pool was the same.

        A link that was not shown may not have been in the pool, so its outcome is unknown. Looking
        back is sound here: the pool is not random, and a link of the pool that was never shown adds
        nothing to any sum.
        """
        is_known = np.zeros(len(self._claimed), bool)
        is_known[: len(shown)] = shown[: len(is_known)]
        self.unknown += float(self._claimed[~is_known].sum())
        self._claimed[:] = 0.0


def _largest_sums(table: Floats, n_links: Whole) -> Floats:
    """Return, for each row, the sum of its k largest entries, k from 0 to the longest page."""
    longest = int(n_links.max(initial=0))
    in_order = -np.sort(-table, axis=1)[:, :longest]
    sums = np.zeros((len(table), longest + 1))
    sums[:, 1 : in_order.shape[1] + 1] = np.cumsum(in_order, axis=1)
    sums[:, in_order.shape[1] + 1 :] = sums[:, in_order.shape[1], None]
    return sums


def add_logged(bets: tuple[Bets, Bets], pages: Pages) -> None:
    """Add the outcomes of the log's own pages: every weight is 1."""
    n_links = np.diff(pages.starts).astype(np.float64)
    nothing = np.zeros(pages.n_pages)
    for level, outcomes in enumerate((pages.clicks, pages.revenue)):
        brought = np.add.reduceat(outcomes, pages.starts[:-1])
        values = PageValues(
            plain=brought,
            corrections=nothing,
            complements=n_links - brought,
            expected=nothing,
            most=n_links,
            peak=n_links,
            predicted_peak=nothing,
        )
        add_pages(bets[level], values)
