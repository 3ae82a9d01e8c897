"""Read a log of page views once, in batches of whole pages, and check every row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slotwise.errors import InvalidInput, InvalidLog
from slotwise.evaluation.logs.log_checks import LogChecks
from slotwise.evaluation.logs.log_files import Source, find_files
from slotwise.evaluation.logs.page_hashes import page_hashes
from slotwise.evaluation.logs.vocabulary import Vocabulary
from slotwise.page_log import REQUIRED_COLUMNS, VISITOR_PREFIX
from slotwise.problem import is_finite_number

__all__ = ["LogReader", "Pages"]

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Rows = dict[str, Any]


class Pages(NamedTuple):
    """Whole pages: the rows of page t are those from `starts[t]` to `starts[t + 1]`.

    Clicks and revenue are in [0, 1]. `min_probabilities` is 0 where the log does not say that
    every link could be shown; `pool_changes` grows when links join or leave the pool.
    """

    starts: Whole
    segments: Whole
    min_probabilities: Floats
    pool_changes: Whole
    links: Whole
    slots: Whole
    probabilities: Floats
    slot_probabilities: Floats
    clicks: Floats
    revenue: Floats

    @property
    def n_pages(self) -> int:
        """How many pages there are."""
        return len(self.segments)

    def part(self, begin: int, end: int) -> Pages:
        """Return the pages from `begin` to `end`."""
        pages, rows = slice(begin, end), slice(self.starts[begin], self.starts[end])
        return Pages(
            starts=self.starts[begin : end + 1] - self.starts[begin],
            segments=self.segments[pages],
            min_probabilities=self.min_probabilities[pages],
            pool_changes=self.pool_changes[pages],
            links=self.links[rows],
            slots=self.slots[rows],
            probabilities=self.probabilities[rows],
            slot_probabilities=self.slot_probabilities[rows],
            clicks=self.clicks[rows],
            revenue=self.revenue[rows],
        )


class LogReader:
    """The pages of a log, read once and in order; counts what it leaves out.

    `features` are the features of visitors that make a segment: `segments` lists the values of
    each, by the codes in `Pages.segments`. Revenue is divided by `max_revenue`, or by what the
    log's metadata says; without either it must lie in [0, 1].
    """

    def __init__(
        self,
        source: Source,
        features: Sequence[str] = (),
        max_revenue: float | None = None,
    ) -> None:
        self._files = find_files(source)
        for feature in features:
            if feature not in self._files.features:
                known = ", ".join(self._files.features) or "none"
                raise InvalidInput.of("features", f"features of the log ({known})", feature)
        if max_revenue is not None and not (is_finite_number(max_revenue) and max_revenue > 0):
            raise InvalidInput.of("max_revenue", "a positive finite number", max_revenue)
        self._features = tuple(features)
        scale = self._files.max_revenue if max_revenue is None else float(max_revenue)
        self._checks = LogChecks(self._files.name, scale)
        self._max_revenue = 1.0 if scale is None else scale
        self._links = Vocabulary()
        self._segments = Vocabulary()
        self._values = [Vocabulary() for _ in features]
        self._hashes: list[NDArray[np.uint64]] = []
        self._has_slot_probabilities = "slot_probability" in self._files.columns
        self.n_rows = self._files.n_rows
        self.n_pages = 0
        self.n_unsettled = 0
        self.n_slots = 0
        """The most links on one page so far."""

    @property
    def links(self) -> Vocabulary:
        """The links seen so far."""
        return self._links

    @property
    def name(self) -> str:
        """What messages call the log."""
        return self._files.name

    @property
    def n_clipped(self) -> int:
        """Rows whose revenue was above `max_revenue` and counted as that."""
        return self._checks.n_clipped

    @property
    def currency(self) -> str | None:
        """The currency of the revenue, where the log has one."""
        return self._checks.currency

    @property
    def max_revenue(self) -> float:
        """The revenue of one row that counts as 1."""
        return self._max_revenue

    @property
    def has_slot_probabilities(self) -> bool:
        """Whether the log says how likely each link was in its very slot."""
        return self._has_slot_probabilities

    @property
    def segments(self) -> list[tuple[str, ...]]:
        """The values of the features of each segment seen so far, by its code."""
        if not self._features:
            return [()] * min(1, self.n_pages)
        return [
            tuple(
                values.values[int(code)]
                for values, code in zip(self._values, key.split(), strict=True)
            )
            for key in self._segments.values
        ]

    def __iter__(self) -> Iterator[Pages]:
        """Yield all pages; at the end the log is checked as a whole."""
        carried: Rows = {}
        n_before = 0
        for batch in self._files.batches(self._columns()):
            rows, hashes, lengths = self._take_in(batch, n_before)
            n_before += batch.num_rows
            if carried:
                rows, hashes, lengths = _join(carried, rows, hashes, lengths)
            n_kept = len(rows["link"]) - int(lengths[-1])
            carried = {name: column[n_kept:] for name, column in rows.items()}
            carried["hash"] = hashes[-1:]
            whole = {name: column[:n_kept] for name, column in rows.items()}
            if n_kept:
                yield self._pages(whole, hashes[:-1], lengths[:-1])
        last = carried.pop("hash")
        yield self._pages(carried, last, np.array([len(carried["link"])]))
        self._checks.at_the_end(np.concatenate(self._hashes))
        if not self.n_pages:
            raise InvalidLog(f"{self.name}: a log must have a settled page, got none")

    def _columns(self) -> list[str]:
        optional = ("min_probability", "pool_changes", "slot_probability", "currency", "settled")
        return [
            *REQUIRED_COLUMNS,
            *(name for name in optional if name in self._files.columns),
            *(VISITOR_PREFIX + feature for feature in self._features),
        ]

    def _take_in(self, batch: pa.RecordBatch, n_before: int) -> tuple[Rows, Any, Whole]:
        """Return the columns of a batch as arrays, and the hash and length of each page."""
        columns = {name: batch.column(name) for name in batch.schema.names}
        rows = self._checks.checked(columns, n_before)
        rows["link"] = self._links.encode(columns["link"])
        rows["segment"] = self._segment_codes(columns, batch.num_rows)
        page_ids = columns["page_id"]
        if pa.types.is_dictionary(page_ids.type):
            page_ids = page_ids.dictionary_decode()
        runs = pc.run_end_encode(page_ids)
        ends = np.asarray(runs.run_ends.to_numpy(zero_copy_only=False)).astype(np.int64)
        return rows, page_hashes(runs.values), np.diff(ends, prepend=0)

    def _segment_codes(self, columns: Rows, n_rows: int) -> Whole:
        if not self._features:
            return np.zeros(n_rows, np.int64)
        codes = [
            values.encode(columns[VISITOR_PREFIX + feature])
            for values, feature in zip(self._values, self._features, strict=True)
        ]
        together, places = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)
        known = [self._segments.code(" ".join(map(str, row))) for row in together.tolist()]
        return np.array(known, np.int64)[places.reshape(-1)]

    def _pages(self, rows: Rows, hashes: NDArray[np.uint64], lengths: Whole) -> Pages:
        """Return the settled ones of whole pages."""
        starts = np.concatenate([[0], np.cumsum(lengths)])
        self._checks.check_pages(rows, starts)
        self._hashes.append(hashes)
        is_settled = np.logical_and.reduceat(rows["settled"], starts[:-1])
        if not is_settled.all():
            self.n_unsettled += int((~is_settled).sum())
            kept = np.repeat(is_settled, lengths)
            rows = {name: column[kept] for name, column in rows.items()}
            starts = np.concatenate([[0], np.cumsum(lengths[is_settled])])
        first = starts[:-1]
        self.n_pages += len(first)
        self.n_slots = max(self.n_slots, int(np.diff(starts).max(initial=0)))
        return Pages(
            starts=starts,
            segments=rows["segment"][first],
            min_probabilities=rows["min_probability"][first],
            pool_changes=rows["pool_changes"][first],
            links=rows["link"],
            slots=rows["slot"],
            probabilities=rows["probability"],
            slot_probabilities=rows["slot_probability"],
            clicks=rows["clicked"],
            revenue=rows["revenue"],
        )


def _join(
    carried: Rows, rows: Rows, hashes: NDArray[np.uint64], lengths: Whole
) -> tuple[Rows, NDArray[np.uint64], Whole]:
    """Put the last page of the batch before in front: the next rows may belong to it."""
    before = carried.pop("hash")
    n_carried = len(carried["link"])
    rows = {name: np.concatenate([carried[name], column]) for name, column in rows.items()}
    if before[0] == hashes[0]:
        lengths = lengths.copy()
        lengths[0] += n_carried
    else:
        hashes = np.concatenate([before, hashes])
        lengths = np.concatenate([[n_carried], lengths])
    return rows, hashes, lengths
