"""Follow one candidate through the log: its sheet, its totals, its confidence sequences."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.evaluation.candidates import Candidate, Known
from slotwise.evaluation.estimating.bootstrap import PageBlocks
from slotwise.evaluation.estimating.confidence_sequence import Bets, PageValues, add_pages, new_bets
from slotwise.evaluation.estimating.estimators import new_totals
from slotwise.evaluation.estimating.page_sums import Sheet, page_sums
from slotwise.evaluation.logs.log_reader import Pages

__all__ = ["Track", "add_logged"]

Floats = NDArray[np.float64]


class Track:
    """What a candidate would have brought on the pages so far.

    `prepare` is called before some pages and `add` with them: what the candidate and the models
    know is always older than the pages they are used on.
    """

    def __init__(self, candidate: Candidate, clip: float, pages_a_block: int) -> None:
        self.candidate = candidate
        self.totals = new_totals()
        self.bets = (new_bets(), new_bets())
        self.blocks = PageBlocks(pages_a_block)
        self.n_skipped = 0
        self.is_full_support = True
        """Whether every page so far says that each link of the pool could be shown."""
        self._clip = clip
        self.unknown = 0.0
        """The candidate's page, summed over pages, on links that the pool did not have."""
        self._claimed = np.zeros(0)
        self._table: Floats | None = None
        self._sheet: Sheet | None = None

    @property
    def table(self) -> Floats | None:
        """The candidate's probabilities on the last pages, by segment (or slot) and link."""
        return self._table

    def prepare(self, known: Known, is_seen: NDArray[np.bool_], refit: bool) -> None:
        """Look at the log so far; a refit lets the candidate choose again."""
        if self._table is None or refit:
            self._table = self.candidate.probabilities(known)
        else:
            self._table = self.candidate.extended(self._table, known)
        n_rows, n_links = self._table.shape
        models = np.zeros((2, n_rows, n_links))
        rates = known.rates[:, :n_rows, : len(is_seen)]
        models[:, : rates.shape[1], : rates.shape[2]] = rates * is_seen[: rates.shape[2]]
        self._sheet = Sheet(np.ascontiguousarray(self._table), models)

    def skip(self, pages: Pages) -> None:
        """Count pages that only serve to fit the candidate."""
        self.n_skipped += pages.n_pages

    def add(self, pages: Pages) -> None:
        """Take in the next pages."""
        sheet = self._sheet
        assert sheet is not None
        by_slot = self.candidate.by_slot
        sums = page_sums(pages, sheet, by_slot, self._clip)
        of_row = _row_sums(sheet)
        if by_slot:
            rows = np.zeros(pages.n_pages, np.int64)
            of_row = of_row.sum(axis=1, keepdims=True)
        else:
            rows = pages.segments
        most, *expected = of_row[:, rows]
        corrections = sums.predictions - np.array(expected)
        self.totals = self.totals.plus(sums, most, corrections)
        self.blocks.add(sums.outcomes - corrections)
        self.is_full_support &= bool((pages.min_probabilities > 0).all())
        n_links = np.diff(pages.starts)
        least = np.zeros(pages.n_pages) if by_slot else pages.min_probabilities
        with np.errstate(divide="ignore"):
            factor = np.where(least > 0, 1.0 / least, np.inf)
        peak = _largest_sums(sheet.probabilities, n_links)[rows, n_links]
        self._count_claimed(sheet.probabilities, rows[least > 0])
        for level in range(2):
            part = _largest_sums(sheet.probabilities * sheet.models[level], n_links)
            values = PageValues(
                plain=sums.outcomes[level],
                corrections=corrections[level],
                complements=sums.weights - sums.outcomes[level],
                expected=expected[level],
                most=most,
                peak=_times(peak, factor),
                predicted_peak=_times(part[rows, n_links], factor),
            )
            add_pages(self.bets[level], values)

    def _count_claimed(self, table: Floats, rows: NDArray[np.int64]) -> None:
        """Add up the candidate's page over pages that claim to show any link of the pool."""
        self._claimed = np.pad(self._claimed, (0, table.shape[1] - len(self._claimed)))
        self._claimed += np.bincount(rows, minlength=len(table)) @ table

    def close_pool(self, shown: NDArray[np.bool_]) -> None:
        """Take in which links were shown while the pool was the same.

        A link that was not may not have been in the pool: it may have brought anything. Looking
        back is sound here, since the pool is no matter of chance, and a link of the pool that was
        never shown adds nothing to any sum.
        """
        is_known = np.zeros(len(self._claimed), bool)
        is_known[: len(shown)] = shown[: len(is_known)]
        self.unknown += float(self._claimed[~is_known].sum())
        self._claimed[:] = 0.0


def _row_sums(sheet: Sheet) -> Floats:
    """Return, for each row of the sheet, the page and its expected outcomes."""
    table = sheet.probabilities
    return np.array(
        [
            table.sum(axis=1),
            *(table * sheet.models).sum(axis=2),
        ]
    )


def _largest_sums(table: Floats, n_links: NDArray[np.int64]) -> Floats:
    """Return, for each row, the sum of its k largest entries, k from 0 to the longest page."""
    longest = int(n_links.max(initial=0))
    in_order = -np.sort(-table, axis=1)[:, :longest]
    sums = np.zeros((len(table), longest + 1))
    sums[:, 1 : in_order.shape[1] + 1] = np.cumsum(in_order, axis=1)
    sums[:, in_order.shape[1] + 1 :] = sums[:, in_order.shape[1], None]
    return sums


def _times(bound: Floats, factor: Floats) -> Floats:
    """Return the product, infinite where the factor is."""
    return np.where(np.isfinite(factor), bound * np.where(np.isfinite(factor), factor, 0.0), np.inf)


def add_logged(bets: tuple[Bets, Bets], pages: Pages) -> None:
    """Take in what the pages of the log themselves brought: every weight is 1."""
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
