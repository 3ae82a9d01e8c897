"""Read a log of page views once, in batches of whole pages, and check every row.

Used by `candidates`, `estimators`, `evaluate`, `fitted_links` and `link_tallies`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from slotwise.arrays import Floats, Links, Whole
from slotwise.compile import compiled, compiled_first
from slotwise.errors import InvalidInput, InvalidLog, MissingData, UnsupportedState
from slotwise.page_log import (
    FORMAT_KEY,
    FORMAT_VERSION,
    MAX_REVENUE_KEY,
    OPTIONAL_COLUMNS,
    REQUIRED_COLUMNS,
    VISITOR_PREFIX,
)
from slotwise.problem import is_finite_number

Source = str | os.PathLike[str] | Sequence[str | os.PathLike[str] | BinaryIO]
"""A file, a folder with `*.parquet` files, or a list of files in the order of time."""

ROWS_A_BATCH = 1 << 17
NUMBERS = ("time_us", "slot", "probability", "clicked", "revenue")


class LogFiles(NamedTuple):
    """The files of a log, all with the same columns."""

    name: str
    files: tuple[str | BinaryIO, ...]
    columns: frozenset[str]
    n_rows: int
    max_revenue: float | None

    @property
    def features(self) -> tuple[str, ...]:
        """The features of visitors that the log has."""
        found = (name for name in self.columns if name.startswith(VISITOR_PREFIX))
        return tuple(sorted(name.removeprefix(VISITOR_PREFIX) for name in found))

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the files once, a hundred thousand rows at a time."""
        for file in self.files:
            try:
                with pq.ParquetFile(file, read_dictionary=["link"]) as opened:
                    yield from opened.iter_batches(ROWS_A_BATCH, columns=list(columns))
            except (OSError, pa.ArrowException) as error:
                rule = f"a log must be Parquet files that can be read, got a damaged one ({error})"
                raise InvalidLog(f"{self.name}: {rule}; write it again") from error


def find_files(source: Source) -> LogFiles:
    """Return the files of the log at `source` after checking their columns and version."""
    files, name = _list_files(source)
    columns: frozenset[str] = frozenset()
    n_rows = 0
    scales: set[float | None] = set()
    for file in files:
        schema, n_file_rows = _read_schema(file, name)
        _check_columns(schema, name)
        found = frozenset(schema.names)
        if n_rows and found != columns:
            one = min(found ^ columns)
            raise InvalidLog(f"{name}: every file must have the same columns, got {one!r} in some")
        columns, n_rows = found, n_rows + n_file_rows
        scales.add(_check_metadata(schema.metadata or {}, name))
    if not n_rows:
        raise InvalidLog(f"{name}: a log must have at least one page, got an empty one")
    if len(scales) > 1:
        listed = sorted(str(scale) for scale in scales)
        raise InvalidLog(f"{name}: every file must have the same max_revenue, got {listed}")
    return LogFiles(name, files, columns, n_rows, scales.pop())


def _list_files(source: Source) -> tuple[tuple[str | BinaryIO, ...], str]:
    if not isinstance(source, str | os.PathLike):
        listed = tuple(file if hasattr(file, "read") else os.fspath(file) for file in source)
        return listed, "log"  # type: ignore[return-value]
    path = Path(source)
    if path.is_dir():
        files = tuple(str(file) for file in sorted(path.glob("*.parquet")))
        if not files:
            rule = "a log's folder must hold *.parquet files, got none"
            advice = "if a selector logs to it, `close_log` writes the pages that are in memory"
            raise MissingData(f"{path.name}: {rule}; {advice}")
        return files, path.name
    if not path.is_file():
        raise MissingData(f"`log` must be a file or folder that exists, got {str(source)!r}")
    return (str(path),), path.name


def _read_schema(file: str | BinaryIO, name: str) -> tuple[Any, int]:
    try:
        with pq.ParquetFile(file) as opened:
            return opened.schema_arrow, opened.metadata.num_rows
    except pa.ArrowInvalid as error:
        advice = "`polars.read_csv(...).write_parquet(...)` converts a CSV file"
        raise InvalidLog(f"{name}: not a Parquet file; {advice}") from error


def _check_columns(schema: pa.Schema, name: str) -> None:
    missing = [column for column in REQUIRED_COLUMNS if column not in schema.names]
    if missing:
        raise InvalidLog(
            f"{name}: a log must have the columns {', '.join(REQUIRED_COLUMNS)}, "
            f"got none named {', '.join(missing)}"
        )
    numbers = [column for column in (*NUMBERS, *OPTIONAL_COLUMNS) if column in schema.names]
    for column in numbers:
        kind = schema.field(column).type
        texts = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        wants_text = OPTIONAL_COLUMNS.get(column) == "string"
        is_number = any(
            test(kind) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
        )
        if not wants_text and not is_number:
            raise InvalidLog(f"{name}: `{column}` must be a column of numbers, got {kind}")
        if wants_text and not texts and not pa.types.is_dictionary(kind):
            raise InvalidLog(f"{name}: `{column}` must be a column of texts, got {kind}")


def _check_metadata(metadata: dict[bytes, bytes], name: str) -> float | None:
    version = metadata.get(FORMAT_KEY, b"1").decode()
    if version != str(FORMAT_VERSION):
        raise UnsupportedState(
            f"{name}: the log's format must be version {FORMAT_VERSION}, got {version}; "
            "a newer slotwise wrote it"
        )
    scale = metadata.get(MAX_REVENUE_KEY)
    return None if scale is None else float(scale)


ROUNDING = 1e-9
"""How far a probability may lie above 1 after adding up parts of it."""


class LogChecks:
    """Check the columns of a log as they are read; every sentence names the first bad row."""

    def __init__(self, name: str, max_revenue: float | None) -> None:
        self._name = name
        self._max_revenue = max_revenue
        self._last_time = np.iinfo(np.int64).min
        self.currency: str | None = None
        self.n_clipped = 0

    def checked(self, columns: dict[str, Any], n_before: int) -> dict[str, Any]:
        """Return the columns of numbers as arrays; `n_before` rows were read before."""
        rows: dict[str, Any] = {}
        n_rows = len(columns["link"])
        settled = columns.get("settled")
        if settled is None:
            rows["settled"] = np.ones(n_rows, bool)
        else:
            rows["settled"] = _numbers(settled.fill_null(False)).astype(bool)
        for name in ("page_id", "time_us", "slot", "link", "probability"):
            self._refuse_nulls(name, columns[name], None, n_before)
        for name in ("clicked", "revenue"):
            self._refuse_nulls(name, columns[name], rows["settled"], n_before)
        time = _numbers(columns["time_us"]).astype(np.int64)
        before = np.concatenate([[self._last_time], time[:-1]])
        rule = "in order of time; sort the log by it"
        self._refuse("time_us", time < before, rule, time, n_before)
        self._last_time = int(time[-1])
        rows["slot"] = _numbers(columns["slot"]).astype(np.int64)
        self._refuse("slot", rows["slot"] < 1, "at least 1", rows["slot"], n_before)
        for name in ("probability", "slot_probability", "min_probability"):
            rows[name] = self._probabilities(name, columns.get(name), n_rows, n_before)
        in_random_order = columns.get("random_order")
        rows["random_order"] = (
            np.ones(n_rows, bool)
            if in_random_order is None
            else _numbers(in_random_order.fill_null(False)).astype(bool)
        )
        changes = columns.get("pool_changes")
        rows["pool_changes"] = (
            np.zeros(n_rows, np.int64)
            if changes is None
            else _numbers(changes.fill_null(0)).astype(np.int64)
        )
        clicked = np.nan_to_num(_numbers(columns["clicked"]), nan=-1.0)
        is_bad = rows["settled"] & ~((clicked >= 0) & (clicked <= 1))
        self._refuse("clicked", is_bad, "from 0 to 1", clicked, n_before)
        rows["clicked"] = clicked
        rows["revenue"] = self._revenue(columns["revenue"], rows["settled"], n_before)
        if "currency" in columns:
            self._one_currency(columns["currency"])
        return rows

    def _probabilities(self, name: str, column: object, n_rows: int, n_before: int) -> Floats:
        if column is None:
            return np.zeros(n_rows)
        numbers = _numbers(column)
        if name == "min_probability":
            numbers = np.nan_to_num(numbers, nan=0.0)
            is_good = (numbers >= 0) & (numbers <= 1 + ROUNDING)
            rule = "from 0 to 1"
        else:
            is_good = (numbers > 0) & (numbers <= 1 + ROUNDING)
            rule = "above 0 and at most 1 for a link that was shown"
        self._refuse(name, ~is_good, rule, numbers, n_before)
        return np.minimum(numbers, 1.0)

    def _revenue(self, column: object, settled: NDArray[np.bool_], n_before: int) -> Floats:
        revenue = _numbers(column)
        is_bad = settled & ~((revenue >= 0) & (revenue < np.inf))
        self._refuse("revenue", is_bad, "a finite number that is at least 0", revenue, n_before)
        if self._max_revenue is None:
            rule = "at most 1, or else the most that a link can bring must be given (max_revenue)"
            self._refuse("revenue", settled & (revenue > 1), rule, revenue, n_before)
            return revenue.copy()  # writable in every batch: other arrays need other machine code
        self.n_clipped += int((settled & (revenue > self._max_revenue)).sum())
        return np.minimum(revenue / self._max_revenue, 1.0)

    def _one_currency(self, column: Any) -> None:
        for currency in column.unique().drop_null().to_pylist():
            if currency != (self.currency or currency):
                two = sorted([currency, self.currency])
                raise InvalidLog(
                    f"{self._name}: `currency` must be the same in all rows, got {two}; "
                    "convert the revenue to one of them"
                )
            self.currency = currency

    def check_pages(self, rows: dict[str, Any], starts: Whole) -> None:
        """Refuse pages that show a link twice or contradict their own probabilities."""
        page = compiled_first(first_repeated_link)(starts, rows["link"])
        if page >= 0:
            raise InvalidLog(f"{self._name}: a page must show each link once, got one link twice")
        least = np.minimum.reduceat(rows["probability"], starts[:-1])
        stated = rows["min_probability"][starts[:-1]]
        if (stated > least * (1 + ROUNDING)).any():
            worst = int(np.argmax(stated - least))
            raise InvalidLog(
                f"{self._name}: `min_probability` must be at most every probability of its page, "
                f"got {stated[worst]} on a page with {least[worst]}"
            )

    def at_the_end(self, hashes: NDArray[np.int64]) -> None:
        """Refuse a log in which the rows of one page are not adjacent."""
        in_order = np.sort(hashes)
        if (in_order[1:] == in_order[:-1]).any():
            raise InvalidLog(
                f"{self._name}: the rows of a page must be adjacent, got a `page_id` in two "
                "places; give every page view an id of its own and list its rows one by one"
            )

    def _refuse_nulls(
        self, name: str, column: Any, settled: NDArray[np.bool_] | None, n_before: int
    ) -> None:
        if not column.null_count:
            return
        is_null = np.asarray(column.is_null().to_numpy(zero_copy_only=False))
        if settled is not None:
            is_null = is_null & settled
        advice = "" if settled is None else "; mark rows without feedback as settled = false"
        self._refuse(name, is_null, f"given in every row{advice}", None, n_before)

    def _refuse(
        self,
        name: str,
        is_bad: NDArray[np.bool_],
        rule: str,
        values: NDArray[Any] | None,
        n_before: int,
    ) -> None:
        if not is_bad.any():
            return
        place = int(np.argmax(is_bad))
        value = "nothing" if values is None else values[place].item()
        raise InvalidLog(
            f"{self._name}: `{name}` must be {rule}, got {value} in row {n_before + place + 1}"
        )


def _numbers(column: Any) -> Floats:
    if pa.types.is_integer(column.type) and not column.null_count:
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False))


@compiled
def first_repeated_link(starts: Whole, links: Links) -> int:
    """Return the first page that shows a link twice, -1 if there is none."""
    for page in range(len(starts) - 1):
        for row in range(starts[page], starts[page + 1]):
            for other in range(starts[page], row):
                if links[other] == links[row]:
                    return page
    return -1


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
