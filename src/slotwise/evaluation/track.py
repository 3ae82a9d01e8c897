"""Follow one candidate through the log: its sheet, its totals, its confidence sequences."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.evaluation.bootstrap import PageBlocks
from slotwise.evaluation.candidates import Candidate, Known
from slotwise.evaluation.confidence_sequence import PageValues, add_pages, new_bets
from slotwise.evaluation.estimators import new_totals
from slotwise.evaluation.log_reader import Pages
from slotwise.evaluation.page_sums import PageSums, Sheet, page_sums

__all__ = ["Track"]

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
        seen = np.zeros(n_links, bool)
        seen[: len(is_seen)] = is_seen
        models = np.zeros((2, n_rows, n_links))
        rates = known.rates[:, :n_rows, :]
        models[:, : rates.shape[1], : rates.shape[2]] = rates
        models *= seen
        self._sheet = Sheet(np.ascontiguousarray(self._table), models, seen)

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
        most, unseen, *expected = of_row[:, rows]
        corrections = sums.predictions - np.array(expected)
        self.totals = self.totals.plus(sums, most, corrections)
        self.blocks.add(sums.outcomes - corrections)
        self.is_full_support &= bool((pages.min_probabilities > 0).all())
        least = np.zeros(pages.n_pages) if by_slot else pages.min_probabilities
        for level in range(2):
            values = _values(sums, level, corrections, expected[level], most, unseen, least)
            add_pages(self.bets[level], values)


def _row_sums(sheet: Sheet) -> Floats:
    """Return, for each row of the sheet, the page, its unseen part and its expected outcomes."""
    table = sheet.probabilities
    return np.array(
        [
            table.sum(axis=1),
            (table * ~sheet.is_seen).sum(axis=1),
            *(table * sheet.models).sum(axis=2),
        ]
    )


def _values(
    sums: PageSums,
    level: int,
    corrections: Floats,
    expected: Floats,
    most: Floats,
    unseen: Floats,
    least: Floats,
) -> PageValues:
    with np.errstate(divide="ignore"):
        factor = np.where(least > 0, 1.0 / least, np.inf)
    finite = np.isfinite(factor)
    return PageValues(
        plain=sums.outcomes[level],
        seen=sums.seen_outcomes[level],
        corrections=corrections[level],
        complements=sums.weights - sums.outcomes[level],
        expected=expected,
        most=most,
        unseen=unseen,
        peak=np.where(finite, (most - unseen) * np.where(finite, factor, 0.0), np.inf),
        predicted_peak=np.where(finite, expected * np.where(finite, factor, 0.0), np.inf),
    )
