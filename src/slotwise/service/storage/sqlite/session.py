"""One SQLite connection inside a transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import chain
from typing import Any

import msgspec
from sqlalchemy import Table
from sqlalchemy.dialects import sqlite

from slotwise.service.storage import schema
from slotwise.service.storage.rows import Row, row_columns
from slotwise.service.storage.sql.session import on_conflict_add, on_conflict_replace
from slotwise.service.storage.sql.statements import COUNTER_TABLES, Engine, Statements

__all__ = ["STATEMENTS", "SqliteSession"]

STATEMENTS = Statements(
    Engine(
        dialect=sqlite.dialect(paramstyle="named"),
        listed="IN (SELECT value FROM json_each(:ids))",
        row_id="rowid",
        bytewise="COLLATE BINARY",
        has_waited="e.waited = 1",
        shown="json_each(d.page, '$[1]') AS shown",
        link_id="COALESCE(json_extract(shown.value, '$.link_id'), "
        "json_extract(shown.value, '$[0]'))",
        # The sign keeps SQLite from an index on the pool: it would sort all rows each time.
        of_pool="+pool_id = :pool_id",
    )
)


def _values(table: Table, n_rows: int = 1) -> str:
    names = row_columns(table)
    row = f"({', '.join('?' * len(names))})"
    return f"INSERT INTO {table.name} ({', '.join(names)}) VALUES {', '.join([row] * n_rows)}"


_SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128)
_RAW = (
    schema.decisions,
    schema.clicks,
    schema.conversions,
    schema.adjustments,
    schema.refusals,
)
_INSERT_MANY = {
    table.name: {n: f"{_values(table, n)} ON CONFLICT DO NOTHING" for n in _SIZES} for table in _RAW
}
"""By table and number of rows, rising. A row that is there already is left as it is."""
_INSERT = {
    table.name: f"{_values(table)} ON CONFLICT DO NOTHING"
    for table in schema.metadata.sorted_tables
}
_UPSERT = {
    table.name: f"{_values(table)} {on_conflict_replace(table)}"
    for table in (schema.pools, schema.links, schema.keys, schema.learned, schema.fold_positions)
}
_ADD = {table.name: f"{_values(table)} {on_conflict_add(table)}" for table in COUNTER_TABLES}


class SqliteSession:
    """Runs statements on a connection of the driver."""

    statements = STATEMENTS

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def fetch(self, sql: str, **parameters: object) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        return self._connection.execute(sql, parameters).fetchall()

    def execute(self, sql: str, **parameters: object) -> int:
        """Run a statement and return how many rows it changed."""
        return self._connection.execute(sql, parameters).rowcount

    def listed(self, ids: Sequence[str]) -> object:
        """Return ids as JSON text."""
        return msgspec.json.encode(ids).decode()

    def insert(self, table: Table, new: Sequence[Row]) -> int:
        """Insert in few statements: Python may switch threads after each, which costs time.

        A statement takes a fixed number of rows. When there are fewer, the last row is repeated;
        the copies conflict with it and are ignored.
        """
        if table.name not in _INSERT_MANY:
            return self._connection.executemany(_INSERT[table.name], new).rowcount
        by_size, rest, n_new = _INSERT_MANY[table.name], list(new), 0
        while rest:
            many, rest = rest[: max(by_size)], rest[max(by_size) :]
            n_rows = next(n for n in by_size if n >= len(many))
            many += many[-1:] * (n_rows - len(many))
            values = tuple(chain.from_iterable(many))
            n_new += self._connection.execute(by_size[n_rows], values).rowcount
        return n_new

    def upsert(self, table: Table, new: Sequence[Row]) -> int:
        """Insert rows, or replace every column but the identity; return how many were written."""
        return self._connection.executemany(_UPSERT[table.name], new).rowcount

    def add(self, table: Table, new: Sequence[Row]) -> None:
        """Insert rows, or add every column but the identity to what is there."""
        self._connection.executemany(_ADD[table.name], new)

    def damage(self) -> str:
        """Return what SQLite finds wrong with its file, or nothing."""
        [(found,)] = self.fetch("PRAGMA integrity_check(1)")
        return "" if found == "ok" else str(found)
