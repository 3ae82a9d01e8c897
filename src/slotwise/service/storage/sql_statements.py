"""The SQL that the stores share, and how it becomes that of one engine.

A statement has parameters with names (`:pool_id`) and, in braces, words for which each engine has
its own SQL. It is translated once and run on the raw driver.
"""

from __future__ import annotations

from functools import cache

from sqlalchemy import Dialect, String, Table, text

from slotwise.service.storage import schema
from slotwise.service.storage.activity import MICROS
from slotwise.service.storage.schema import row_columns

# A window closes after its page is shown, so the index on the closing time limits the search.
_SINCE = """
    WHERE d.pool_id = :pool_id AND d.click_closes_us >= :since_us AND d.issued_us >= :since_us
"""
_CLICKED = f"FROM decisions AS d JOIN clicks AS c ON c.decision_id = d.decision_id {_SINCE}"
_IN_TIME = "AND c.invalid = '' AND c.received_us <= d.click_closes_us"
_SOLD = f"""
    FROM decisions AS d JOIN conversions AS s ON s.decision_id = d.decision_id
    {_SINCE} AND s.currency = d.currency
"""
_OPEN = "WHERE d.pool_id = :pool_id AND d.click_closes_us > :closed_until_us"


def _exact_sum(amount: str) -> str:
    """Sum millionths in two columns, units and the rest: one sum might exceed 64 bits."""
    units = f"({amount} / {MICROS})"
    return f"CAST(SUM({units}) AS BIGINT), CAST(SUM({amount} - {units} * {MICROS}) AS BIGINT)"


ACTIVITY = {
    "views": f"""
        SELECT d.issued_us / :span_us, d.holdout, COUNT(*)
        FROM decisions AS d {_SINCE} GROUP BY 1, 2
    """,
    "clicks": f"""
        SELECT span, holdout, CAST(SUM(n) AS BIGINT), CAST(SUM(n * n) AS BIGINT) FROM (
            SELECT d.issued_us / :span_us AS span, d.holdout AS holdout, COUNT(*) AS n
            {_CLICKED} {_IN_TIME} GROUP BY d.seq
        ) AS pages GROUP BY 1, 2
    """,
    "sales": f"""
        SELECT d.issued_us / :span_us, d.holdout, COUNT(*), {_exact_sum("s.revenue_micros")}
        {_SOLD} AND s.received_us <= d.revenue_until_us GROUP BY 1, 2
    """,
    "refunds": f"""
        SELECT d.issued_us / :span_us, d.holdout, {_exact_sum("a.refund_micros")}
        FROM decisions AS d
        JOIN conversions AS s ON s.decision_id = d.decision_id
        JOIN adjustments AS a ON a.conversion_id = s.conversion_id
        {_SINCE} AND a.currency = d.currency AND a.received_us <= d.revenue_until_us
          AND s.currency = d.currency AND s.received_us <= d.revenue_until_us
        GROUP BY 1, 2
    """,
    "link_views": f"""
        SELECT {{link_id}}, d.issued_us / :span_us, COUNT(*) * :every
        FROM decisions AS d, {{shown}} {_SINCE} AND d.seq % :every = 0 GROUP BY 1, 2
    """,
    "link_clicks": f"""
        SELECT c.link_id, d.issued_us / :span_us, COUNT(*) {_CLICKED} {_IN_TIME} GROUP BY 1, 2
    """,
    "n_open": f"SELECT COUNT(*) FROM decisions AS d {_OPEN}",
    "pending": f"""
        SELECT {{link_id}}, COUNT(*) * :every_open FROM decisions AS d, {{shown}}
        {_OPEN} AND d.seq % :every_open = 0 GROUP BY 1
    """,
    "refused": f"""
        SELECT COUNT(*)
        FROM decisions AS d JOIN refusals AS r ON r.decision_id = d.decision_id {_SINCE}
    """,
    "odd_clicks": f"""
        SELECT COUNT(*) FILTER (WHERE c.invalid <> ''),
               COUNT(*) FILTER (WHERE c.invalid = '' AND c.received_us > d.click_closes_us)
        {_CLICKED}
    """,
    "late_sales": f"SELECT COUNT(*) {_SOLD} AND s.received_us > d.revenue_until_us",
    "click_delays": f"""
        SELECT c.received_us - d.issued_us {_CLICKED} AND c.invalid = ''
        ORDER BY c.received_us DESC LIMIT :n_rows
    """,
    "sale_delays": f"""
        SELECT s.received_us - d.issued_us {_SOLD} ORDER BY s.received_us DESC LIMIT :n_rows
    """,
    # The pool is an expression so that SQLite searches by `seq`: all pages of a pool are many more.
    "pages_since": """
        SELECT d.page FROM decisions AS d
        WHERE d.pool_id || '' = :pool_id AND d.seq > :after AND d.seq <= :until
    """,
    "clicks_after": f"""
        SELECT c.link_id, CASE WHEN d.click_closes_us <= :closed_until_us THEN 1 ELSE 0 END,
               COUNT(*)
        FROM decisions AS d JOIN clicks AS c ON c.decision_id = d.decision_id
        WHERE d.pool_id = :pool_id AND d.click_closes_us > :after_us AND d.issued_us >= :since_us
        {_IN_TIME} GROUP BY 1, 2
    """,
    "open_views": f"""
        SELECT {{link_id}}, COUNT(*) FROM decisions AS d, {{shown}}
        {_OPEN} AND d.issued_us >= :since_us GROUP BY 1
    """,
}
"""Sums over the pages of a pool, by name."""

COUNTER_TABLES = (
    schema.link_counters,
    schema.page_counters,
    schema.purged_link_counters,
    schema.purged_page_counters,
    schema.visitor_counters,
    schema.purged_visitor_counters,
    schema.floor_counters,
    schema.purged_floor_counters,
)

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


class Engine:
    """Where the SQL of two engines differs: their dialects, and words for it.

    - `listed` follows a column to say that it is among the parameter `ids`
    - `row_id` is the name of a row's own address
    - `bytewise` follows a text to sort it by its bytes
    - `has_waited` is the condition of the partial indexes on events that waited, of the table `e`
    - `shown` are the links of the page of the decision `d` as rows, `link_id` the id of one of them
    - `of_pool` says that a decision is of a pool, where its index must not be used
    """

    def __init__(self, dialect: Dialect, **words: str) -> None:
        self._dialect, self._words = dialect, words
        self._translated: dict[str, str] = {}

    def translated(self, sql: str) -> str:
        """Return a statement as the driver wants it."""
        known = self._translated.get(sql)
        if known is None:
            compiled = text(sql.format_map(self._words)).compile(dialect=self._dialect)
            known = self._translated[sql] = str(compiled)
        return known


def order_of(table: Table) -> list[str]:
    """Return the columns of a table's key, as both engines sort them alike."""
    return [
        column.name + (" {bytewise}" if isinstance(column.type, String) else "")
        for column in table.primary_key.columns
    ]


@cache
def rows_of(table: Table, *more: str) -> str:
    """Return the query for all rows of a table, with `more` columns at their end."""
    return f"SELECT {', '.join([*row_columns(table), *more])} FROM {table.name}"


@cache
def still_waiting(events: str) -> str:
    """Return the rest of a query for events that wait for a decision which is not there."""
    decision_id, join = "e.decision_id", ""
    if events == "adjustments":
        decision_id = "s.decision_id"
        join = "LEFT JOIN conversions AS s ON s.conversion_id = e.conversion_id"
    return (
        f"FROM {events} AS e {join} LEFT JOIN decisions AS d ON d.decision_id = {decision_id} "
        "WHERE {has_waited} AND d.decision_id IS NULL"
    )
