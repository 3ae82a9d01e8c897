"""The SQL of the SQLite store: built from the schema once and run on raw connections."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Select, Table, bindparam, func, literal_column, select, text, tuple_
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.elements import ColumnElement

from slotwise.service.counting.views import CLICKS, REVENUE
from slotwise.service.storage import schema
from slotwise.service.storage.rows import row_columns

__all__ = [
    "ADD_COUNTERS",
    "ADJUSTMENTS_BY_ID",
    "ADJUSTMENTS_OF",
    "ALL_DECISIONS",
    "CHANGES",
    "CLICKS_OF",
    "CLOCK",
    "CLOSED_DECISIONS",
    "CONVERSIONS_BY_ID",
    "CONVERSIONS_OF",
    "COUNTERS",
    "DECISIONS_BY_ID",
    "FOLD_POSITIONS",
    "FORGET_STATE",
    "FORGET_VIEWS",
    "INSERT_CHANGE",
    "INSERT_MANY",
    "KEYS",
    "LATE_DECISION_IDS",
    "LEARNED",
    "LINKS",
    "N_LINKS",
    "N_WAITING",
    "POOLS",
    "PURGE",
    "PURGEABLE_DECISIONS",
    "PURGE_WAITING",
    "REFUSALS",
    "RESET_COUNTERS",
    "RESET_TIMES",
    "UPDATE_CLOCK",
    "UPSERT",
]

_dialect = sqlite.dialect(paramstyle="named")


def _sql(statement: ClauseElement) -> str:
    return str(statement.compile(dialect=_dialect))


def _qmarks(table: Table, n_rows: int = 1) -> str:
    names = row_columns(table)
    row = f"({', '.join('?' * len(names))})"
    return f"INSERT INTO {table.name} ({', '.join(names)}) VALUES {', '.join([row] * n_rows)}"


def _insert(table: Table, n_rows: int = 1) -> str:
    """Insert unless the identity is there already."""
    return f"{_qmarks(table, n_rows)} ON CONFLICT DO NOTHING"


def _upsert(table: Table) -> str:
    """Insert, or replace every column but the identity."""
    keys = [column.name for column in table.primary_key.columns]
    rest = [name for name in row_columns(table) if name not in keys]
    updates = ", ".join(f"{name} = excluded.{name}" for name in rest)
    return f"{_qmarks(table)} ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {updates}"


def _add(table: Table) -> str:
    """Insert, or add every column but the identity."""
    keys = [column.name for column in table.primary_key.columns]
    rest = [name for name in row_columns(table) if name not in keys]
    updates = ", ".join(f"{name} = {table.name}.{name} + excluded.{name}" for name in rest)
    return f"{_qmarks(table)} ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {updates}"


def _rows(table: Table) -> Select[Any]:
    return select(*(table.c[name] for name in row_columns(table)))


def _listed(column: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return whether the column is in the JSON array bound to `ids`."""
    values = func.json_each(bindparam("ids")).table_valued("value")
    return column.in_(select(values.c.value))


def _first_rows(statement: Select[Any]) -> str:
    # SQLAlchemy would add an OFFSET with a parameter of its own.
    return f"{_sql(statement)} LIMIT :n_rows"


def _still_waiting(table: Table) -> Select[Any]:
    """Count the events of a table that waited for a decision which is still not there."""
    if table is schema.adjustments:
        joined = table.outerjoin(
            schema.conversions, schema.conversions.c.conversion_id == table.c.conversion_id
        ).outerjoin(
            schema.decisions, schema.decisions.c.decision_id == schema.conversions.c.decision_id
        )
    else:
        joined = table.outerjoin(
            schema.decisions, schema.decisions.c.decision_id == table.c.decision_id
        )
    waiting = select(func.count()).select_from(joined)
    return waiting.where(table.c.waited, schema.decisions.c.seq.is_(None))


def _closed(closes: str) -> str:
    table = schema.decisions
    position = tuple_(table.c[closes], table.c.decision_id)
    return _first_rows(
        _rows(table)
        .where(
            table.c.pool_id == bindparam("pool_id"),
            position > tuple_(bindparam("after_us"), bindparam("after_id")),
            table.c[closes] <= bindparam("until_us"),
            table.c.learned,
        )
        .order_by(table.c[closes], table.c.decision_id)
    )


_RAW: Iterable[Table] = (
    schema.decisions,
    schema.clicks,
    schema.conversions,
    schema.adjustments,
    schema.refusals,
)
_SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
INSERT_MANY = {table.name: {n: _insert(table, n) for n in _SIZES} for table in _RAW}
"""By table and number of rows, rising. A row that is there already is left as it is."""
INSERT_CHANGE = _insert(schema.changes)
_REPLACED: Iterable[Table] = (
    schema.pools,
    schema.links,
    schema.keys,
    schema.learned,
    schema.fold_positions,
)
UPSERT = {table.name: _upsert(table) for table in _REPLACED}
ADD_COUNTERS = {
    table.name: _add(table)
    for table in (
        schema.link_counters,
        schema.page_counters,
        schema.purged_link_counters,
        schema.purged_page_counters,
    )
}
RESET_COUNTERS = [
    f"DELETE FROM {table.name} WHERE pool_id = ? AND link_id = ?"
    for table in (schema.link_counters, schema.purged_link_counters)
]
FORGET_VIEWS = (
    "UPDATE decisions SET learned = 0 WHERE key_id = ? AND issued_us >= ? AND learned = 1"
)
FORGET_STATE = "UPDATE learned SET state = x'' WHERE pool_id = ?"
UPDATE_CLOCK = "UPDATE store_clock SET closed_until_us = ?, latest_us = ?, n_resets = ?"

POOLS = _sql(_rows(schema.pools).order_by(schema.pools.c.pool_id))
LINKS = _sql(
    _rows(schema.links)
    .where(schema.links.c.pool_id == bindparam("pool_id"))
    .order_by(schema.links.c.place)
)
RESET_TIMES = _sql(
    select(schema.links.c.link_id, schema.links.c.counted_from_us).where(
        schema.links.c.pool_id == bindparam("pool_id"),
        schema.links.c.counted_from_us > literal_column("0"),
    )
)
N_LINKS = _sql(
    select(func.count())
    .select_from(schema.links)
    .where(schema.links.c.pool_id == bindparam("pool_id"))
)
KEYS = _sql(_rows(schema.keys).order_by(schema.keys.c.key_id))
CHANGES = _first_rows(
    _rows(schema.changes)
    .where(
        text(
            "(:subject = '' OR subject = :subject OR (substr(:subject, -1) = '/'"
            " AND substr(subject, 1, length(:subject)) = :subject))"
        )
    )
    .order_by(schema.changes.c.seq.desc())
)
CLOCK = "SELECT closed_until_us, latest_us, n_resets FROM store_clock"
FOLD_POSITIONS = _sql(_rows(schema.fold_positions))
COUNTERS = {
    table.name: _sql(_rows(table).where(table.c.pool_id == bindparam("pool_id")))
    for table in (
        schema.link_counters,
        schema.page_counters,
        schema.purged_link_counters,
        schema.purged_page_counters,
    )
}
LEARNED = _sql(_rows(schema.learned).where(schema.learned.c.pool_id == bindparam("pool_id")))
LATE_DECISION_IDS = """
    SELECT d.decision_id FROM clicks AS c JOIN decisions AS d ON d.decision_id = c.decision_id
    WHERE d.pool_id = :pool_id AND c.received_us > d.click_closes_us
    UNION
    SELECT d.decision_id FROM conversions AS s JOIN decisions AS d ON d.decision_id = s.decision_id
    WHERE d.pool_id = :pool_id AND s.received_us > d.revenue_until_us
    UNION
    SELECT d.decision_id FROM adjustments AS a
    JOIN conversions AS s ON s.conversion_id = a.conversion_id
    JOIN decisions AS d ON d.decision_id = s.decision_id
    WHERE d.pool_id = :pool_id AND a.received_us > d.revenue_until_us
"""
DECISIONS_BY_ID = _sql(_rows(schema.decisions).where(_listed(schema.decisions.c.decision_id)))
CLICKS_OF = _sql(
    _rows(schema.clicks)
    .where(_listed(schema.clicks.c.decision_id))
    .order_by(schema.clicks.c.received_us, schema.clicks.c.link_id)
)
CONVERSIONS_OF = _sql(
    _rows(schema.conversions)
    .where(_listed(schema.conversions.c.decision_id))
    .order_by(schema.conversions.c.received_us, schema.conversions.c.conversion_id)
)
CONVERSIONS_BY_ID = _sql(
    _rows(schema.conversions).where(_listed(schema.conversions.c.conversion_id))
)
ADJUSTMENTS_OF = _sql(
    _rows(schema.adjustments)
    .where(_listed(schema.adjustments.c.conversion_id))
    .order_by(schema.adjustments.c.received_us, schema.adjustments.c.adjustment_id)
)
ADJUSTMENTS_BY_ID = _sql(
    _rows(schema.adjustments).where(_listed(schema.adjustments.c.adjustment_id))
)
REFUSALS = _sql(
    _rows(schema.refusals)
    .where(schema.refusals.c.decision_id == bindparam("decision_id"))
    .order_by(schema.refusals.c.received_us, schema.refusals.c.event_id)
)
PURGEABLE_DECISIONS = _first_rows(
    _rows(schema.decisions)
    .where(
        schema.decisions.c.pool_id == bindparam("pool_id"),
        schema.decisions.c.revenue_closes_us < bindparam("before_us"),
        schema.decisions.c.revenue_closes_us < bindparam("revenue_folded_us"),
        schema.decisions.c.click_closes_us < bindparam("clicks_folded_us"),
    )
    .order_by(schema.decisions.c.revenue_closes_us, schema.decisions.c.decision_id)
)
PURGE = [
    """DELETE FROM adjustments WHERE conversion_id IN (
        SELECT conversion_id FROM conversions
        WHERE decision_id IN (SELECT value FROM json_each(:ids)))""",
    *(
        f"DELETE FROM {name} WHERE decision_id IN (SELECT value FROM json_each(:ids))"
        for name in ("conversions", "clicks", "refusals", "decisions")
    ),
]
PURGE_WAITING = [
    f"""
    DELETE FROM {name} WHERE rowid IN (
        SELECT e.rowid FROM {name} AS e
        {join} LEFT JOIN decisions AS d ON d.decision_id = {decision_id}
        WHERE e.waited = 1 AND e.received_us < :before_us AND d.decision_id IS NULL
        LIMIT :n_rows
    )
    """
    for name, join, decision_id in (
        (
            "adjustments",
            "LEFT JOIN conversions AS s ON s.conversion_id = e.conversion_id",
            "s.decision_id",
        ),
        ("conversions", "", "e.decision_id"),
        ("clicks", "", "e.decision_id"),
    )
]
CLOSED_DECISIONS = {CLICKS: _closed("click_closes_us"), REVENUE: _closed("revenue_closes_us")}
ALL_DECISIONS = _first_rows(
    _rows(schema.decisions)
    .add_columns(schema.decisions.c.seq)
    .where(
        schema.decisions.c.seq > bindparam("after_seq"),
        # The sign keeps SQLite from an index on the pool: it would sort all rows each time.
        text("+pool_id = :pool_id"),
        schema.decisions.c.issued_us >= bindparam("since_us"),
        schema.decisions.c.issued_us < bindparam("until_us"),
    )
    .order_by(schema.decisions.c.seq)
)
N_WAITING = [
    _sql(_still_waiting(table)) for table in (schema.clicks, schema.conversions, schema.adjustments)
]
