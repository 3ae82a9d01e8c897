"""Read a log of page views once, in batches of whole pages, and check every row.

Used by `candidate_track`, `candidates`, `estimators`, `evaluate`, `fitted_links` and
`link_tallies`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slotwise.arrays import Floats, Links, Whole
from slotwise.errors import InvalidInput, InvalidLog
from slotwise.evaluation.log_checks import LogChecks
from slotwise.evaluation.log_files import Source, find_files
from slotwise.page_log import REQUIRED_COLUMNS, VISITOR_PREFIX
from slotwise.problem import is_finite_number


def page_hashes(page_ids: Any) -> NDArray[np.int64]:
    """Return a 64-bit hash of each id of a pyarrow array; numbers are their own.

    Two of a million different ids share a hash with a probability of 3e-8.
    """
    if pa.types.is_integer(page_ids.type):
        return np.asarray(page_ids.to_numpy(zero_copy_only=False)).astype(np.int64)
    return np.fromiter(map(hash, page_ids.to_pylist()), np.int64, len(page_ids))


class Vocabulary:
    """Give each value the next whole number when it is first seen."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._codes)

    @property
    def values(self) -> tuple[str, ...]:
        """All values, by code."""
        return tuple(self._codes)

    def code(self, value: str) -> int:
        """Return the code of one value."""
        return self._codes.setdefault(value, len(self._codes))

    def encode(self, column: Any) -> Links:
        """Return the codes of a pyarrow array of any type; null is the empty text."""
        encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
        dictionary = encoded.dictionary.to_pylist()
        codes = np.array(
            [*(self.code("" if value is None else str(value)) for value in dictionary), -1],
            dtype=np.int64,
        )
        if encoded.indices.null_count:
            codes[-1] = self.code("")
        places = encoded.indices.fill_null(len(dictionary))
        return codes[places.to_numpy(zero_copy_only=False).astype(np.int64)]


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
        of_pages: list[Any] = [column[pages] for column in self[1:4]]
        of_rows: list[Any] = [column[rows] for column in self[4:]]
        return Pages(self.starts[begin : end + 1] - self.starts[begin], *of_pages, *of_rows)


class LogReader:
    """The pages of a log, read once and in order; counts what it leaves out.

    `features` are the features of visitors that make a segment: `segments` lists the values of
    each, by the codes in `Pages.segments`. With `by_size`, pages of different sizes are in
    different segments, and `sizes` lists how many links the pages of each have. Revenue is divided
    by `max_revenue`, or by what the log's metadata says; without either it must lie in [0, 1].
    """

    def __init__(
        self,
        source: Source,
        features: Sequence[str] = (),
        max_revenue: float | None = None,
        by_size: bool = False,
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
        self.name = self._files.name
        """What messages call the log."""
        self.max_revenue = 1.0 if scale is None else scale
        """The revenue of one row that counts as 1."""
        self.links = Vocabulary()
        """The links seen so far."""
        self._segments = Vocabulary()
        self._by_size = by_size
        self._kinds: dict[tuple[int, int], int] = {}
        self._values = [Vocabulary() for _ in features]
        self._hashes: list[NDArray[np.int64]] = []
        self.has_slot_probabilities = "slot_probability" in self._files.columns
        """Whether the log says how likely each link was in its very slot."""
        self.n_rows = self._files.n_rows
        self.n_pages = 0
        self.n_unsettled = 0
        self.pages_of_size: Counter[int] = Counter()
        """How many pages have how many links."""
        self.has_own_order = False
        """Whether slots differ and the policy of the log chose the order of some pages."""

    @property
    def n_slots(self) -> int:
        """The most links on one page so far."""
        return max(self.pages_of_size, default=0)

    @property
    def usual_slots(self) -> int:
        """The number of links that most pages have so far."""
        return max(self.pages_of_size, key=self.pages_of_size.__getitem__, default=0)

    @property
    def n_clipped(self) -> int:
        """Rows whose revenue was above `max_revenue` and counted as that."""
        return self._checks.n_clipped

    @property
    def currency(self) -> str | None:
        """The currency of the revenue, where the log has one."""
        return self._checks.currency

    @property
    def segments(self) -> list[tuple[str, ...]]:
        """The values of the features of each segment seen so far, by its code."""
        found: list[tuple[str, ...]] = [()] * min(1, self.n_pages)
        if self._features:
            found = [
                tuple(
                    values.values[int(code)]
                    for values, code in zip(self._values, key.split(), strict=True)
                )
                for key in self._segments.values
            ]
        return [found[segment] for segment, _ in self._kinds] if self._by_size else found

    @property
    def sizes(self) -> list[int]:
        """The most links on a page of each segment seen so far, by its code."""
        if not self._by_size:
            return [self.n_slots] * len(self.segments)
        return [size for _, size in self._kinds]

    def __iter__(self) -> Iterator[Pages]:
        """Yield all pages; at the end the log is checked as a whole."""
        carried: Rows = {}
        n_before = 0
        for batch in self._files.batches(self._columns()):
            rows, hashes, lengths = self._check_batch(batch, n_before)
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
        optional = (
            *("min_probability", "pool_changes", "slot_probability", "random_order"),
            *("currency", "settled"),
        )
        return [
            *REQUIRED_COLUMNS,
            *(name for name in optional if name in self._files.columns),
            *(VISITOR_PREFIX + feature for feature in self._features),
        ]

    def _check_batch(self, batch: pa.RecordBatch, n_before: int) -> tuple[Rows, Any, Whole]:
        """Return the columns of a batch as arrays, and the hash and length of each page."""
        columns = {name: batch.column(name) for name in batch.schema.names}
        rows = self._checks.checked(columns, n_before)
        rows["link"] = self.links.encode(columns["link"])
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

    def _pages(self, rows: Rows, hashes: NDArray[np.int64], lengths: Whole) -> Pages:
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
        lengths = np.diff(starts)
        self.pages_of_size.update(lengths.tolist())
        self.has_own_order |= not rows["random_order"].all()
        return Pages(
            starts=starts,
            segments=self._kinds_of(rows["segment"][first], lengths),
            min_probabilities=rows["min_probability"][first],
            pool_changes=rows["pool_changes"][first],
            links=rows["link"],
            slots=rows["slot"],
            probabilities=rows["probability"],
            slot_probabilities=rows["slot_probability"],
            clicks=rows["clicked"],
            revenue=rows["revenue"],
        )

    def _kinds_of(self, segments: Whole, lengths: Whole) -> Whole:
        """Return the codes of pages by segment and, if wanted, size."""
        if not (self._by_size and len(segments)):
            return segments
        pairs, places = np.unique(np.stack([segments, lengths], 1), axis=0, return_inverse=True)
        codes = [self._kinds.setdefault((s, n), len(self._kinds)) for s, n in pairs.tolist()]
        return np.array(codes, np.int64)[places.reshape(-1)]


def _join(
    carried: Rows, rows: Rows, hashes: NDArray[np.int64], lengths: Whole
) -> tuple[Rows, NDArray[np.int64], Whole]:
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
