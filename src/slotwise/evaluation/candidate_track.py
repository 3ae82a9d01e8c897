"""One candidate on the pages of a log so far: its estimates, its intervals, what was never shown.

Used by `evaluate`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.arrays import Floats, Whole
from slotwise.compile import compiled_first
from slotwise.evaluation.candidates import Candidate, Known
from slotwise.evaluation.confidence_sequence import Bets, PageValues, add_pages, new_bets
from slotwise.evaluation.estimators import EstimateTotals, add_up
from slotwise.evaluation.log_reader import Pages
from slotwise.evaluation.page_blocks import PageBlocks


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
        sums = compiled_first(add_up)(pages, places, logged, table, models, self._clip)
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
