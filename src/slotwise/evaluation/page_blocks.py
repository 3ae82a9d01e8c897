"""Intervals by resampling blocks of pages.

Not valid for a log whose policy learned while it logged, nor when a log is looked at again and
again; narrower than a confidence sequence for both reasons. Used by `candidate_track`.
"""

from __future__ import annotations

import numpy as np

from slotwise.arrays import Floats

N_DRAWS = 500


class PageBlocks:
    """Sums of page values over blocks of consecutive pages."""

    def __init__(self, pages_a_block: int) -> None:
        self._size = max(1, pages_a_block)
        self._n_pages = 0
        self._blocks = np.zeros((3, 0))

    def add(self, values: Floats) -> None:
        """Record the values of the next pages: clicks first, then revenue."""
        n_pages = values.shape[1]
        if n_pages == 0:
            return
        places = (self._n_pages + np.arange(n_pages)) // self._size
        first, n_new = int(places[0]), int(places[-1]) + 1
        room = n_new - self._blocks.shape[1]
        if room > 0:
            self._blocks = np.pad(self._blocks, ((0, 0), (0, max(room, self._blocks.shape[1]))))
        for row, column in enumerate((np.ones(n_pages), *values)):
            self._blocks[row, first:n_new] += np.bincount(places - first, weights=column)
        self._n_pages += n_pages

    def interval(self, alpha: float, rng: np.random.Generator) -> Floats:
        """Return low and high (columns) of clicks and revenue (rows), each by itself."""
        used = self._blocks[:, self._blocks[0] > 0]
        counts = rng.multinomial(
            used.shape[1], np.full(used.shape[1], 1.0 / used.shape[1]), size=N_DRAWS
        )
        n_pages, *levels = used @ counts.T
        means = np.array(levels) / n_pages
        return np.quantile(means, [alpha / 2, 1 - alpha / 2], axis=1).T
