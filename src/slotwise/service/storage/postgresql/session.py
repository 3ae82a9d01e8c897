"""One PostgreSQL connection inside a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from psycopg import Connection
from sqlalchemy import BigInteger, Boolean, Column, Float, Integer, LargeBinary, Table
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from slotwise.service.storage import schema
from slotwise.service.storage.rows import Row, row_columns
from slotwise.service.storage.sql.session import on_conflict_add, on_conflict_replace
from slotwise.service.storage.sql.statements import COUNTER_TABLES, Engine, Statements

__all__ = ["STATEMENTS", "PostgresqlSession", "array"]

STATEMENTS = Statements(
    Engine(
        dialect=PGDialect_psycopg(paramstyle="pyformat"),  # type: ignore[no-untyped-call]
        listed="= ANY(CAST(:ids AS text[]))",
        row_id="ctid",
        bytewise='COLLATE "C"',
        has_waited="e.waited",
        shown="json_array_elements(CAST(d.page AS json) -> 1) AS shown(value)",
        link_id="COALESCE(shown.value ->> 'link_id', shown.value ->> 0)",
        of_pool="pool_id = :pool_id",
    )
)
_ESCAPES = (rb"\u", rb"\n", rb"\r", rb"\t", rb"\b", rb"\f")


def _array_type(column: Column[Any]) -> str:
    match column.type:
        case Boolean():
            return "boolean[]"
        case Integer() | BigInteger():
            return "bigint[]"
        case Float():
            return "float8[]"
        case LargeBinary():
            return "bytea[]"
    return "text[]"


def _insert(table: Table, end: str) -> bytes:
    """Return one statement for any number of rows: a parameter a column."""
    names = row_columns(table)
    arrays = ", ".join(f"%s::{_array_type(table.c[name])}" for name in names)
    return (
        f"INSERT INTO {table.name} ({', '.join(names)}) SELECT * FROM unnest({arrays}) {end}"
    ).encode()


_INSERT = {
    table.name: _insert(table, "ON CONFLICT DO NOTHING") for table in schema.metadata.sorted_tables
}
_UPSERT = {
    table.name: _insert(table, on_conflict_replace(table))
    for table in (schema.pools, schema.links, schema.keys, schema.fold_positions)
} | {
    # A learner that was paused must not replace what another one published meanwhile.
    "learned": _insert(
        schema.learned,
        f"{on_conflict_replace(schema.learned)} WHERE learned.version <= excluded.version",
    )
}
_ADD = {table.name: _insert(table, on_conflict_add(table)) for table in COUNTER_TABLES}


def array(values: Sequence[Any]) -> object:
    r"""Return a column of rows as a parameter.

    An array of PostgreSQL is written as one of JSON is, but for the brackets and for the escapes
    of control characters; the encoder of JSON takes a twentieth of the driver's time.
    PostgreSQL stores no character 0: it becomes the sign for an unknown one.

    >>> array(["a", None, 7])
    '{"a",null,7}'
    >>> array(["two\nlines"])
    ['two\nlines']
    """
    if values and isinstance(values[0], bytes):
        return list(values)
    encoded = msgspec.json.encode(values)
    if any(escape in encoded for escape in _ESCAPES):
        return [one.replace("\0", "\ufffd") if isinstance(one, str) else one for one in values]
    return f"{{{encoded[1:-1].decode()}}}"


class PostgresqlSession:
    """Runs statements on a connection of the driver."""

    statements = STATEMENTS

    def __init__(self, connection: Connection[tuple[Any, ...]]) -> None:
        self._connection = connection

    def fetch(self, sql: str, **parameters: object) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        return self._connection.execute(sql.encode(), parameters).fetchall()

    def execute(self, sql: str, **parameters: object) -> int:
        """Run a statement and return how many rows it changed."""
        return self._connection.execute(sql.encode(), parameters).rowcount

    def listed(self, ids: Sequence[str]) -> object:
        """Return ids as an array."""
        return array(ids)

    def insert(self, table: Table, new: Sequence[Row]) -> int:
        """Insert rows unless their identity is there already; return how many were new."""
        return self._write(_INSERT[table.name], new)

    def upsert(self, table: Table, new: Sequence[Row]) -> int:
        """Insert rows, or replace every column but the identity; return how many were written."""
        return self._write(_UPSERT[table.name], new)

    def add(self, table: Table, new: Sequence[Row]) -> None:
        """Insert rows, or add every column but the identity to what is there."""
        self._write(_ADD[table.name], new)

    def damage(self) -> str:
        """Return how many damaged pages PostgreSQL has met, where it keeps checksums."""
        sql = "SELECT checksum_failures FROM pg_stat_database WHERE datname = current_database()"
        [(n_failures,)] = self.fetch(sql)
        return f"{n_failures} pages have a wrong checksum" if n_failures else ""

    def _write(self, statement: bytes, new: Sequence[Row]) -> int:
        if not new:
            return 0
        columns = [array(column) for column in zip(*new, strict=True)]
        return self._connection.execute(statement, columns).rowcount
