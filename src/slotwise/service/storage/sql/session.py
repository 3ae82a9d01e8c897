"""One connection inside a transaction, whatever the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from sqlalchemy import Table

from slotwise.service.storage.rows import Row, row_columns
from slotwise.service.storage.sql.statements import Statements

__all__ = ["SqlSession", "on_conflict_add", "on_conflict_replace"]


class SqlSession(Protocol):
    """Runs the statements of its engine; the caller begins and ends the transaction."""

    @property
    def statements(self) -> Statements:
        """The statements of this engine."""
        ...

    def fetch(self, sql: str, **parameters: object) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        ...

    def execute(self, sql: str, **parameters: object) -> int:
        """Run a statement and return how many rows it changed."""
        ...

    def listed(self, ids: Sequence[str]) -> object:
        """Return ids in the form of the parameter `ids`."""
        ...

    def insert(self, table: Table, new: Sequence[Row]) -> int:
        """Insert rows unless their identity is there already; return how many were new."""
        ...

    def upsert(self, table: Table, new: Sequence[Row]) -> int:
        """Insert rows, or replace every column but the identity; return how many were written."""
        ...

    def add(self, table: Table, new: Sequence[Row]) -> None:
        """Insert rows, or add every column but the identity to what is there."""
        ...

    def damage(self) -> str:
        """Return what the database finds wrong with its own files, or nothing."""
        ...


def on_conflict_replace(table: Table) -> str:
    """Return the end of an upsert: replace every column but the identity."""
    return _on_conflict(table, "{name} = excluded.{name}")


def on_conflict_add(table: Table) -> str:
    """Return the end of an upsert: add every column but the identity."""
    return _on_conflict(table, "{name} = {table}.{name} + excluded.{name}")


def _on_conflict(table: Table, update: str) -> str:
    keys = [column.name for column in table.primary_key.columns]
    rest = [name for name in row_columns(table) if name not in keys]
    updates = ", ".join(update.format(name=name, table=table.name) for name in rest)
    return f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {updates}"
