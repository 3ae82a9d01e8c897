"""The round log in the format that `slotwise evaluate` reads: one row for each link shown."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slotwise.page_log import VISITOR_PREFIX, log_schema
from slotwise.service.pool import has_slot_weights
from slotwise.service.records import PoolSettings
from slotwise.service.reporting.reports import RoundRow

__all__ = ["LogTables", "log_file"]

MICROS = 1_000_000
OPTIONAL = ("min_probability", "pool_changes", "currency", "policy", "version", "settled")


class LogTables:
    """Rounds in the order of the store become tables of a log.

    Rounds of concurrent requests may be stored some milliseconds out of order; a row's time is
    then that of the row before. Pages without links have no rows.
    """

    def __init__(self, pool: PoolSettings) -> None:
        optional = (*OPTIONAL, "random_order") if has_slot_weights(pool) else OPTIONAL
        self._features = tuple(pool.features)
        max_revenue = pool.max_revenue_micros / MICROS
        self.schema = log_schema(optional, self._features, max_revenue=max_revenue)
        self._last_us = 0
        self._pool_key = -1
        self._n_pool_changes = -1

    def table(self, rows: Iterable[RoundRow]) -> pa.Table:
        """Return the next rounds as a table."""
        rows = [row for row in rows if row.links]
        lengths = np.array([len(row.links) for row in rows], np.int64)
        times = np.array([self._last_us, *(row.issued_us for row in rows)], np.int64)
        times = np.maximum.accumulate(times)[1:]
        if rows:
            self._last_us = int(times[-1])

        def of_page(values: Iterable[object]) -> pa.Array:
            column = np.array(list(values))
            return pa.array(np.repeat(column, lengths)) if rows else pa.array([])

        columns = {
            "page_id": of_page(row.decision_id for row in rows),
            "time_us": np.repeat(times, lengths),
            "slot": list(chain.from_iterable(range(1, n + 1) for n in lengths.tolist())),
            "link": list(chain.from_iterable(row.links for row in rows)),
            "probability": list(chain.from_iterable(row.propensities for row in rows)),
            "clicked": [click > 0 for row in rows for click in row.clicks],
            "revenue": [micros / MICROS for row in rows for micros in row.revenue_micros],
            "min_probability": of_page(row.min_propensity for row in rows),
            "pool_changes": of_page(self._pool_changes(rows)),
            "currency": of_page(row.currency for row in rows),
            "policy": of_page(row.policy for row in rows),
            "version": of_page(row.policy_version for row in rows),
            "settled": of_page(row.clicks_settled and row.revenue_settled for row in rows),
            "random_order": of_page(row.random_order for row in rows),
        }
        for name in self._features:
            values = [row.visitor.get(name) for row in rows]
            of_links = np.repeat(np.arange(len(rows)), lengths)
            columns[f"{VISITOR_PREFIX}{name}"] = pa.array(values, pa.string()).take(of_links)
        arrays = [
            pa.array(columns[field.name], field.type)
            if not isinstance(columns[field.name], pa.Array)
            else columns[field.name].cast(field.type)
            for field in self.schema
        ]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def _pool_changes(self, rows: Iterable[RoundRow]) -> Iterator[int]:
        """Count how often the links that pages are drawn from were others than before."""
        for row in rows:
            if row.pool_key != self._pool_key:
                self._pool_key = row.pool_key
                self._n_pool_changes += 1
            yield self._n_pool_changes


def log_file(pool: PoolSettings, rounds: Iterable[list[RoundRow]]) -> io.BytesIO:
    """Return rounds as a log in memory."""
    tables = LogTables(pool)
    file = io.BytesIO()
    with pq.ParquetWriter(file, tables.schema) as writer:
        for rows in rounds:
            writer.write_table(tables.table(rows))
    return file
