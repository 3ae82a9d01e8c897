"""Page views as files: Parquet, CSV, and the log that `slotwise evaluate` reads.

Used by `reporter`, `warehouse_tables` and `api`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from msgspec.structs import astuple

from slotwise.page_log import VISITOR_PREFIX, log_schema
from slotwise.service.pool import slot_weights_of
from slotwise.service.records import PoolSettings
from slotwise.service.reporting.report_records import RoundRow

MICROS = 1_000_000
OPTIONAL = ("min_probability", "pool_changes", "currency", "policy", "version", "settled")


class LogTables:
    """Converts rounds, in the order of the store, to tables of a log.

    Rounds of concurrent requests may be stored some milliseconds out of order; a row then gets the
    time of the row before. Pages without links have no rows.
    """

    def __init__(self, pool: PoolSettings) -> None:
        optional = (*OPTIONAL, "random_order") if slot_weights_of(pool) else OPTIONAL
        self._features = tuple(pool.features)
        max_revenue = pool.max_revenue_micros / MICROS
        self.schema = log_schema(optional, self._features, max_revenue=max_revenue)
        self._last_us = 0
        self._pool_key = -1
        self._n_pool_changes = -1

    def table(self, rows: Iterable[RoundRow]) -> pa.Table:
        """Return the next rounds as a table."""
        rows = [row for row in rows if row.links]
        times = np.array([self._last_us, *(row.issued_us for row in rows)], np.int64)
        times = np.maximum.accumulate(times)
        self._last_us = int(times[-1])
        of_links: dict[str, list[Any]] = {
            "slot": [range(1, len(row.links) + 1) for row in rows],
            "link": [row.links for row in rows],
            "probability": [row.propensities for row in rows],
            "clicked": [[click > 0 for click in row.clicks] for row in rows],
            "revenue": [[micros / MICROS for micros in row.revenue_micros] for row in rows],
        }
        of_pages: dict[str, Any] = {
            "page_id": [row.decision_id for row in rows],
            "time_us": times[1:],
            "min_probability": [row.min_propensity for row in rows],
            "pool_changes": list(self._pool_changes(rows)),
            "currency": [row.currency for row in rows],
            "policy": [row.policy for row in rows],
            "version": [row.policy_version for row in rows],
            "settled": [row.clicks_settled and row.revenue_settled for row in rows],
            "random_order": [row.random_order for row in rows],
        }
        for name in self._features:
            of_pages[f"{VISITOR_PREFIX}{name}"] = [row.visitor.get(name) for row in rows]
        page_of = np.repeat(np.arange(len(rows)), [len(row.links) for row in rows])
        arrays = [
            pa.array(list(chain.from_iterable(of_links[field.name])), field.type)
            if field.name in of_links
            else pa.array(of_pages[field.name], field.type).take(page_of)
            for field in self.schema
        ]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def _pool_changes(self, rows: Iterable[RoundRow]) -> Iterator[int]:
        """Yield for each row how often the links that pages are drawn from have changed."""
        for row in rows:
            if row.pool_key != self._pool_key:
                self._pool_key = row.pool_key
                self._n_pool_changes += 1
            yield self._n_pool_changes


_KINDS = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
_KINDS |= {tuple[kind, ...]: pa.list_(_KINDS[kind]) for kind in (str, int, float)}  # type: ignore[valid-type]
_KINDS |= {dict[str, str]: pa.map_(pa.string(), pa.string())}
_SCHEMA = pa.schema(
    [(field.name, _KINDS[field.type]) for field in msgspec.structs.fields(RoundRow)]
)


class ExportTable(NamedTuple):
    """A table of an export: its columns, and the row of a record."""

    schema: pa.Schema
    row: Callable[[Any], tuple[Any, ...]]

    def of(self, records: Iterable[object]) -> pa.Table:
        """Return records as a table."""
        columns = list(zip(*map(self.row, records), strict=True)) or [()] * len(self.schema)
        both = zip(columns, self.schema, strict=True)
        return pa.Table.from_arrays(
            [pa.array(column, field.type) for column, field in both], schema=self.schema
        )


def round_file(rounds: Iterable[list[RoundRow]]) -> Iterator[bytes]:
    """Write rounds as Parquet, chunk by chunk."""
    return _parquet(_SCHEMA, map(ExportTable(_SCHEMA, astuple).of, rounds))


def log_chunks(pool: PoolSettings, rounds: Iterable[list[RoundRow]]) -> Iterator[bytes]:
    """Write rounds as the Parquet file of a log, chunk by chunk."""
    tables = LogTables(pool)
    return _parquet(tables.schema, map(tables.table, rounds))


def csv_chunks(pool: PoolSettings, rounds: Iterable[list[RoundRow]]) -> Iterator[bytes]:
    """Write rounds as a CSV file with the columns of a log, a row for each link shown."""
    tables, sink = LogTables(pool), _Sink()
    with pa_csv.CSVWriter(sink, tables.schema) as writer:
        for rows in rounds:
            writer.write_table(_without_formulas(tables.table(rows)))
            yield sink.take()
    yield sink.take()


def _without_formulas(table: pa.Table) -> pa.Table:
    """Put an apostrophe before what visitors' pages sent if a spreadsheet would compute it."""
    for place, name in enumerate(table.column_names):
        if name.startswith(VISITOR_PREFIX):
            column = table.column(place)
            is_formula = pc.match_substring_regex(column, "^[=+@\t\r-]")
            quoted = pc.binary_join_element_wise("'", column, "")
            safe = pc.if_else(pc.fill_null(is_formula, False), quoted, column)
            table = table.set_column(place, table.schema.field(place), safe)
    return table


def log_file(pool: PoolSettings, rounds: Iterable[list[RoundRow]]) -> io.BytesIO:
    """Return rounds as a log in memory."""
    return io.BytesIO(b"".join(log_chunks(pool, rounds)))


class _Sink(io.BytesIO):
    """A write-only file; `take` returns and removes what was added since the last call."""

    n_taken = 0

    def tell(self) -> int:
        return self.n_taken + super().tell()

    def take(self) -> bytes:
        taken = self.getvalue()
        self.seek(0)
        self.truncate()
        self.n_taken += len(taken)
        return taken


def _parquet(schema: pa.Schema, tables: Iterable[pa.Table]) -> Iterator[bytes]:
    """Write one row group for each table and yield the bytes as they are written."""
    sink = _Sink()
    with pq.ParquetWriter(sink, schema) as writer:
        for table in tables:
            writer.write_table(table)
            yield sink.take()
    yield sink.take()
