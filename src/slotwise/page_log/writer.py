"""Write a log of page views to a folder, in files that are complete as soon as they are there."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from slotwise.errors import InvalidInput
from slotwise.page_log.columns import (
    OPTIONAL_COLUMNS,
    REQUIRED_COLUMNS,
    VISITOR_PREFIX,
    log_schema,
)

if TYPE_CHECKING:
    import pyarrow

__all__ = ["LogWriter", "LoggedPage"]

ROWS_A_FILE = 500_000


class LoggedPage(NamedTuple):
    """One page as it is logged; the sequences have one entry for each link shown, in page order.

    `min_probability` is the smallest inclusion probability that any link of the pool had on this
    page, `pool_changes` how often links had joined or left the pool before it. An unsettled page
    has feedback that is not complete. `levels` has the levels between clicks and revenue,
    `visitor` the features of the visitor as texts, None for one that is not known. `random_order`
    says whether the links stood in random order, where slots differ.
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

    Pages are kept in memory until a file is full or `flush` is called. A file appears whole or
    not at all, so a log can be read while it grows, and what a stopped process had not flushed is
    all that is lost. One process writes to one folder.
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
        self._folder.mkdir(parents=True, exist_ok=True)
        self._columns: dict[str, list[Any]] = {name: [] for name in self._schema.names}
        self._rows_a_file = rows_a_file

    def append(self, page: LoggedPage) -> None:
        """Add one page; pages must come in the order of their times."""
        rows = page.rows()
        for name, column in self._columns.items():
            column.extend(rows.get(name) or [None] * len(page.links))
        if len(self._columns["link"]) >= self._rows_a_file:
            self.flush()

    def flush(self) -> None:
        """Write the pages in memory as the next file of the folder."""
        if not self._columns["link"]:
            return
        import pyarrow

        self._write(pyarrow.table(self._columns, schema=self._schema))
        for column in self._columns.values():
            column.clear()

    def _write(self, table: pyarrow.Table) -> None:
        import pyarrow.parquet

        taken = [int(path.stem) for path in self._folder.glob("*.parquet") if path.stem.isdigit()]
        path = self._folder / f"{max(taken, default=0) + 1:08d}.parquet"
        unfinished = path.with_suffix(".unfinished")
        pyarrow.parquet.write_table(table, unfinished, compression="zstd")
        unfinished.replace(path)
