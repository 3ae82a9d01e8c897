"""The log of page views: one format for the selector, the engine and the service.

A log is one Parquet file or a folder of them (`*.parquet`), read in the order of their names. It
has a row for each link shown. Rows are in the order of `time_us`, and the rows of one page are
adjacent. The version of the format is in the file's metadata; a file without it is read as
version 1. This module writes logs; `slotwise.evaluation.log_reader` reads them. Used by
`evaluation`, `selector`, `service` and `simulation`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from slotwise.errors import InvalidInput
from slotwise.extras import naming_extra

if TYPE_CHECKING:
    import pyarrow

__all__ = [
    "FORMAT_VERSION",
    "LEVELS",
    "OPTIONAL_COLUMNS",
    "REQUIRED_COLUMNS",
    "VISITOR_PREFIX",
    "LogWriter",
    "LoggedPage",
    "log_schema",
]

FORMAT_VERSION = 1
"""The version of the format that this slotwise reads and writes."""
FORMAT_KEY = b"slotwise.log.version"
MAX_REVENUE_KEY = b"slotwise.log.max_revenue"
"""The metadata of a log's files: the version of the format, and the most one view can bring."""
VISITOR_PREFIX = "visitor."
"""The names of columns with features of visitors begin with this."""
LEVELS = ("clicked", "revenue")
"""The levels of feedback that every log has, in order; further levels have their own columns."""

REQUIRED_COLUMNS: Mapping[str, str] = {
    "page_id": "string",
    "time_us": "int64",
    "slot": "int32",
    "link": "string",
    "probability": "float64",
    "clicked": "bool",
    "revenue": "float64",
}
"""The columns that every log has, with their types."""
OPTIONAL_COLUMNS: Mapping[str, str] = {
    "min_probability": "float64",
    "pool_changes": "int64",
    "slot_probability": "float64",
    "random_order": "bool",
    "currency": "string",
    "policy": "string",
    "version": "int64",
    "settled": "bool",
}
"""The columns that a log may have, with their types."""


def log_schema(
    optional: Iterable[str] = (),
    features: Iterable[str] = (),
    levels: Iterable[str] = (),
    max_revenue: float | None = None,
) -> pyarrow.Schema:
    """Return the schema of a log with these optional columns, visitor features and levels.

    `max_revenue` is the most that one view of a link can bring, in the money of the log.

    >>> log_schema(["settled"], features=["country"]).names[-2:]
    ['settled', 'visitor.country']
    """
    with naming_extra("a log of page views"):
        import pyarrow

    columns = dict(REQUIRED_COLUMNS)
    columns |= {name: OPTIONAL_COLUMNS[name] for name in optional}
    columns |= {VISITOR_PREFIX + feature: "string" for feature in features}
    columns |= dict.fromkeys(levels, "float64")
    metadata = {FORMAT_KEY: str(FORMAT_VERSION).encode()}
    if max_revenue is not None:
        metadata[MAX_REVENUE_KEY] = repr(float(max_revenue)).encode()
    fields = [(name, pyarrow.type_for_alias(kind)) for name, kind in columns.items()]
    return pyarrow.schema(fields, metadata=metadata)


ROWS_A_FILE = 500_000
"""Rows that `LogWriter` buffers before it writes a file."""
_NUMBER = ("a number", (int, float, np.integer, np.floating))
_RULES: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "string": ("text", (str,)),
    "bool": ("True or False", (bool, np.bool_)),
    **dict.fromkeys(("int32", "int64", "double"), _NUMBER),
}
"""What a column of a type takes, and the classes of its values."""


class LoggedPage(NamedTuple):
    """One page as it is logged; the sequences have one entry for each link shown, in page order.

    `time_us` is in microseconds, `revenue` in the money of the log. `min_probability` is the
    smallest inclusion probability that any link of the pool had on this page, `pool_changes` how
    often links had joined or left the pool before it. An unsettled page has feedback that is not
    complete. `levels` has the levels between clicks and revenue, `visitor` the features of the
    visitor as texts, None for one that is not known. `random_order` says whether the links were in
    random order, where slots differ.
    """

    page_id: str
    time_us: int
    links: Sequence[str]
    probabilities: Sequence[float]
    clicked: Sequence[bool]
    revenue: Sequence[float]
    min_probability: float = 0.0
    pool_changes: int = 0
    settled: bool = True
    policy: str = ""
    version: int = 0
    visitor: Mapping[str, str | None] = {}
    levels: Mapping[str, Sequence[float]] = {}
    random_order: bool = False

    def rows(self) -> dict[str, list[Any]]:
        """Return the columns of the page's rows."""
        n_rows = len(self.links)
        of_page = {
            "page_id": self.page_id,
            "time_us": self.time_us,
            "min_probability": self.min_probability,
            "pool_changes": self.pool_changes,
            "policy": self.policy,
            "version": self.version,
            "settled": self.settled,
            "random_order": self.random_order,
        }
        of_page |= {VISITOR_PREFIX + name: value for name, value in self.visitor.items()}
        return {
            "slot": list(range(1, n_rows + 1)),
            "link": list(self.links),
            "probability": list(self.probabilities),
            "clicked": list(self.clicked),
            "revenue": list(self.revenue),
            **{name: list(outcomes) for name, outcomes in self.levels.items()},
            **{name: [value] * n_rows for name, value in of_page.items()},
        }


class LogWriter:
    """Append pages to a log: a folder of Parquet files, numbered as they are written.

    Pages are buffered until a file is full or `flush` is called. A file appears whole or not at
    all, so a log can be read while it grows; a process that is killed loses only its buffer. Only
    one process may write to a folder. An existing log is continued: further pages must be later
    than its last page and have new ids, and the columns must be the same.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        features: Sequence[str] = (),
        max_revenue: float | None = None,
        rows_a_file: int = ROWS_A_FILE,
        levels: Sequence[str] = (),
        slots_differ: bool = False,
    ) -> None:
        for level in levels:
            if level in REQUIRED_COLUMNS or level in OPTIONAL_COLUMNS:
                raise InvalidInput.of("levels", "of other names than the columns of a log", level)
        self._folder = Path(path)
        if self._folder.is_file():
            raise InvalidInput.of("path", "a folder that holds the log's files", str(path))
        optional = ["min_probability", "pool_changes", "policy", "version", "settled"]
        optional += ["random_order"] * slots_differ
        self._schema = log_schema(optional, features, levels, max_revenue)
        self._rules = {field.name: _RULES[str(field.type)] for field in self._schema}
        self._folder.mkdir(parents=True, exist_ok=True)
        self._columns: dict[str, list[Any]] = {name: [] for name in self._schema.names}
        self.last_us = self._end_of_log()
        """The time of the last page in the log."""
        self._rows_a_file = rows_a_file
        self._table()  # imports pandas where it is installed: too late at the end of a program

    def append(self, page: LoggedPage) -> None:
        """Add one page; pages must come in the order of their times."""
        if page.time_us < self.last_us:
            rule = f"at least {self.last_us}, the time of the last page in the log"
            advice = f"to start a new log, delete the folder {self._folder} or name another one"
            raise InvalidInput.of("time_us", rule, page.time_us, advice)
        n_rows, rows = len(page.links), page.rows()
        new = {name: rows.get(name) or [None] * n_rows for name in self._columns}
        for name, (rule, kinds) in self._rules.items():  # a wrong value would fail only in `flush`
            if len(new[name]) != n_rows:
                raise InvalidInput.of(name, f"{n_rows} values, one for each link", new[name])
            wrong = [one for one in new[name] if not (one is None or isinstance(one, kinds))]
            if wrong:
                raise InvalidInput.of(name, rule, wrong[0])
        for name, column in self._columns.items():
            column.extend(new[name])
        self.last_us = page.time_us
        if len(self._columns["link"]) >= self._rows_a_file:
            self.flush()

    def flush(self) -> None:
        """Write the pages in memory as the next file of the folder."""
        if not self._columns["link"]:
            return
        self._write(self._table())
        for column in self._columns.values():
            column.clear()

    def _table(self) -> pyarrow.Table:
        import pyarrow

        return pyarrow.table(self._columns, schema=self._schema)

    def _end_of_log(self) -> int:
        """Return the time of the last page that is there; refuse a log with other columns."""
        import pyarrow.parquet

        files = sorted(self._folder.glob("*.parquet"))
        if not files:
            return -(2**63)
        try:
            schema = pyarrow.parquet.read_schema(files[-1])
        except (OSError, pyarrow.ArrowInvalid):
            rule = "a new folder, or one with a log that can be read"
            raise InvalidInput.of("path", rule, str(files[-1])) from None
        found, wanted = (
            (one.names, one.types, (one.metadata or {}).get(MAX_REVENUE_KEY))
            for one in (schema, self._schema)
        )
        if found != wanted:
            rule = "a new folder, or one whose log has the same columns and max_revenue"
            raise InvalidInput.of("path", rule, str(self._folder))
        times = pyarrow.parquet.read_table(files[-1], columns=["time_us"])["time_us"]
        return int(times[-1].as_py()) if len(times) else -(2**63)

    def _write(self, table: pyarrow.Table) -> None:
        import pyarrow.parquet

        numbers = [int(path.stem) for path in self._folder.glob("*.parquet") if path.stem.isdigit()]
        path = self._folder / f"{max(numbers, default=0) + 1:08d}.parquet"
        unfinished = path.with_suffix(".unfinished")
        pyarrow.parquet.write_table(table, unfinished, compression="zstd")
        unfinished.replace(path)
