"""The SQL that the stores share: built from the schema once for each engine, run on raw drivers."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Dialect, String, Table, text

from slotwise.service.counting.attribution import CLICKS, REVENUE
from slotwise.service.storage import schema
from slotwise.service.storage.activity import MICROS
from slotwise.service.storage.schema import row_columns

# `{shown}` stands for the links of a page as rows, `{link_id}` for the id of one of them.


_SHOWN = """
    FROM decisions AS d
    WHERE d.pool_id = :pool_id AND d.click_closes_us >= :since_us AND d.issued_us >= :since_us
"""
# A window closes after its page is shown, so the index on the closing time limits the search.
_VIEWS = f"SELECT d.issued_us / :span_us, d.holdout, COUNT(*) {_SHOWN} GROUP BY 1, 2"
_CLICKED = """
    FROM decisions AS d JOIN clicks AS c ON c.decision_id = d.decision_id
    WHERE d.pool_id = :pool_id AND d.click_closes_us >= :since_us AND d.issued_us >= :since_us
"""
_IN_TIME = "AND c.invalid = '' AND c.received_us <= d.click_closes_us"
_CLICKS = f"""
    SELECT span, holdout, CAST(SUM(n) AS BIGINT), CAST(SUM(n * n) AS BIGINT) FROM (
        SELECT d.issued_us / :span_us AS span, d.holdout AS holdout, COUNT(*) AS n
        {_CLICKED} {_IN_TIME} GROUP BY d.seq
    ) AS pages GROUP BY 1, 2
"""
_LINK_CLICKS = f"""
    SELECT c.link_id, d.issued_us / :span_us, COUNT(*) {_CLICKED} {_IN_TIME} GROUP BY 1, 2
"""
_LINK_VIEWS = """
    SELECT {link_id}, d.issued_us / :span_us, COUNT(*) * :every
    FROM decisions AS d, {shown}
    WHERE d.pool_id = :pool_id AND d.click_closes_us >= :since_us AND d.issued_us >= :since_us
      AND d.seq % :every = 0
    GROUP BY 1, 2
"""
_REFUSED = """
    SELECT COUNT(*) FROM decisions AS d JOIN refusals AS r ON r.decision_id = d.decision_id
    WHERE d.pool_id = :pool_id AND d.click_closes_us >= :since_us AND d.issued_us >= :since_us
"""
_ODD_CLICKS = f"""
    SELECT COUNT(*) FILTER (WHERE c.invalid <> ''),
           COUNT(*) FILTER (WHERE c.invalid = '' AND c.received_us > d.click_closes_us) {_CLICKED}
"""
_CLICK_DELAYS = f"""
    SELECT c.received_us - d.issued_us {_CLICKED} AND c.invalid = ''
    ORDER BY c.received_us DESC LIMIT :n_rows
"""


def _exact_sum(amount: str) -> str:
    """Sum millionths in two columns, units and the rest: one sum might exceed 64 bits."""
    units = f"({amount} / {MICROS})"
    return f"CAST(SUM({units}) AS BIGINT), CAST(SUM({amount} - {units} * {MICROS}) AS BIGINT)"


_SOLD = """
    FROM decisions AS d JOIN conversions AS s ON s.decision_id = d.decision_id
    WHERE d.pool_id = :pool_id AND d.click_closes_us >= :since_us AND d.issued_us >= :since_us
      AND s.currency = d.currency
"""
_SALES = f"""
    SELECT d.issued_us / :span_us, d.holdout, COUNT(*), {_exact_sum("s.revenue_micros")}
    {_SOLD} AND s.received_us <= d.revenue_until_us GROUP BY 1, 2
"""
_REFUNDS = f"""
    SELECT d.issued_us / :span_us, d.holdout, {_exact_sum("a.refund_micros")}
    FROM decisions AS d
    JOIN conversions AS s ON s.decision_id = d.decision_id
    JOIN adjustments AS a ON a.conversion_id = s.conversion_id
    WHERE d.pool_id = :pool_id AND d.click_closes_us >= :since_us AND d.issued_us >= :since_us
      AND a.currency = d.currency AND a.received_us <= d.revenue_until_us
      AND s.currency = d.currency AND s.received_us <= d.revenue_until_us
    GROUP BY 1, 2
"""
_LATE_SALES = f"SELECT COUNT(*) {_SOLD} AND s.received_us > d.revenue_until_us"
_SALE_DELAYS = f"""
    SELECT s.received_us - d.issued_us {_SOLD} ORDER BY s.received_us DESC LIMIT :n_rows
"""
_N_OPEN = """
    SELECT COUNT(*) FROM decisions AS d
    WHERE d.pool_id = :pool_id AND d.click_closes_us > :closed_until_us
"""
_PENDING = """
    SELECT {link_id}, COUNT(*) * :every_open
    FROM decisions AS d, {shown}
    WHERE d.pool_id = :pool_id AND d.click_closes_us > :closed_until_us
      AND d.seq % :every_open = 0
    GROUP BY 1
"""

# The pool is an expression so that SQLite searches by `seq`: all pages of a pool are many more.
_PAGES_SINCE = """
    SELECT d.page FROM decisions AS d
    WHERE d.pool_id || '' = :pool_id AND d.seq > :after AND d.seq <= :until
"""

_CLICKS_AFTER = f"""
    SELECT c.link_id, CASE WHEN d.click_closes_us <= :closed_until_us THEN 1 ELSE 0 END, COUNT(*)
    FROM decisions AS d JOIN clicks AS c ON c.decision_id = d.decision_id
    WHERE d.pool_id = :pool_id AND d.click_closes_us > :after_us AND d.issued_us >= :since_us
    {_IN_TIME} GROUP BY 1, 2
"""
_OPEN_VIEWS = """
    SELECT {link_id}, COUNT(*) FROM decisions AS d, {shown}
    WHERE d.pool_id = :pool_id AND d.click_closes_us > :closed_until_us
      AND d.issued_us >= :since_us
    GROUP BY 1
"""

ACTIVITY_QUERIES = {
    "clicks_after": _CLICKS_AFTER,
    "open_views": _OPEN_VIEWS,
    "pages_since": _PAGES_SINCE,
    "views": _VIEWS,
    "clicks": _CLICKS,
    "link_clicks": _LINK_CLICKS,
    "link_views": _LINK_VIEWS,
    "refused": _REFUSED,
    "odd_clicks": _ODD_CLICKS,
    "click_delays": _CLICK_DELAYS,
    "sales": _SALES,
    "refunds": _REFUNDS,
    "late_sales": _LATE_SALES,
    "sale_delays": _SALE_DELAYS,
    "n_open": _N_OPEN,
    "pending": _PENDING,
}


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

_LATE_DECISION_IDS = """
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


class Engine(NamedTuple):
    """Where the SQL of two engines differs."""

    dialect: Dialect
    listed: str
    """What follows a column to say that it is among the parameter `ids`."""
    row_id: str
    """The name of a row's own address."""
    bytewise: str
    """What follows a text to sort it by its bytes."""
    has_waited: str
    """The condition of the partial indexes on events that waited, of the table `e`."""
    shown: str
    """The links of the page of the decision `d`, as the rows of `shown`."""
    link_id: str
    """The id of a row of `shown`."""
    of_pool: str
    """The condition that a decision is of a pool, where its index must not be used."""


class Statements:
    """All statements of one engine; parameters have names."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._read_settings()
        self._read_learned()
        self._read_events()
        self._change()
        self.activity = {
            name: self.of_text(
                query.replace("{shown}", engine.shown).replace("{link_id}", engine.link_id)
            )
            for name, query in ACTIVITY_QUERIES.items()
        }

    def order_of(self, table: Table) -> list[str]:
        """Return the columns of a table's key, as both engines sort them alike."""
        bytewise = f" {self._engine.bytewise}"
        return [
            column.name + (bytewise if isinstance(column.type, String) else "")
            for column in table.primary_key.columns
        ]

    def of_text(self, *sql: str) -> str:
        """Return a statement with named parameters (`:name`) as the driver wants it."""
        return str(text(" ".join(sql)).compile(dialect=self._engine.dialect))

    def _read_settings(self) -> None:
        sql, of_pool = self.of_text, "WHERE pool_id = :pool_id"
        self.pools = sql(_rows(schema.pools), "ORDER BY pool_id")
        self.links = sql(_rows(schema.links), of_pool, "ORDER BY place")
        times = f"SELECT link_id, counted_from_us FROM links {of_pool}"
        self.reset_times = sql(times, "AND counted_from_us > 0")
        places = f"SELECT link_id, place FROM links {of_pool}"
        self.places = sql(places, f"AND link_id {self._engine.listed}")
        self.n_links = sql("SELECT COUNT(*) FROM links", of_pool)
        self.keys = sql(_rows(schema.keys), "ORDER BY key_id")
        changes, newest = _rows(schema.changes), "ORDER BY seq DESC LIMIT :n_rows"
        subject = "CAST(:subject AS TEXT)"
        below = f"WHERE substr(subject, 1, length({subject})) = {subject}"
        self.changes = sql(changes, newest)
        self.changes_of = sql(changes, "WHERE subject = :subject", newest)
        self.changes_below = sql(changes, below, newest)
        later = "WHERE seq > :after ORDER BY seq"
        self.changed_since = sql("SELECT seq, subject FROM changes", later)
        self.ended_sessions = sql("SELECT seq, session_id, ends_us FROM ended_sessions", later)

    def _read_learned(self) -> None:
        sql, of_pool = self.of_text, "WHERE pool_id = :pool_id"
        self.clock = "SELECT closed_until_us, latest_us, n_resets FROM store_clock"
        self.moving_from = "SELECT moving_from FROM store_clock"
        self.fold_positions = _rows(schema.fold_positions)
        self.counters = {table.name: sql(_rows(table), of_pool) for table in COUNTER_TABLES}
        sums = "SELECT revenue_micros, late_revenue_micros FROM link_counters"
        self.sums_of_link = sql(sums, of_pool, "AND link_id = :link_id")
        sums = "SELECT revenue_micros, revenue_squared FROM page_counters"
        self.sums_of_pages = sql(sums, of_pool)
        self.learned = sql(_rows(schema.learned), of_pool)
        self.learned_versions = "SELECT pool_id, version FROM learned"
        self.late_decision_ids = sql(_LATE_DECISION_IDS)
        decisions = _rows(schema.decisions)
        self.closed_decisions = {
            level: sql(
                f"{decisions} {of_pool} AND ({closes}, decision_id) > (:after_us, :after_id)",
                f"AND {closes} <= :until_us AND learned",
                f"ORDER BY {closes}, decision_id LIMIT :n_rows",
            )
            for level, closes in ((CLICKS, "click_closes_us"), (REVENUE, "revenue_closes_us"))
        }
        self.all_decisions = sql(
            decisions.replace(" FROM ", ", seq FROM "),
            f"WHERE seq > :after_seq AND {self._engine.of_pool}",
            "AND issued_us >= :since_us AND issued_us < :until_us ORDER BY seq LIMIT :n_rows",
        )
        self.decisions_after = sql(
            decisions.replace(" FROM ", ", seq FROM "),
            "WHERE seq > :after ORDER BY seq LIMIT :n_rows",
        )
        self.place_of = sql("SELECT seq FROM decisions WHERE decision_id = :decision_id")
        self.purgeable_decisions = sql(
            f"{decisions} {of_pool} AND revenue_closes_us < :before_us",
            "AND revenue_closes_us < :revenue_folded_us AND click_closes_us < :clicks_folded_us",
            "ORDER BY revenue_closes_us, decision_id LIMIT :n_rows",
        )

    def _read_events(self) -> None:
        def listed(table: Table, column: str, *order: str) -> str:
            by = f"ORDER BY {', '.join(order)}" if order else ""
            return self.of_text(_rows(table), f"WHERE {column} {self._engine.listed}", by)

        conversions, adjustments = schema.conversions, schema.adjustments
        self.decisions_by_id = listed(schema.decisions, "decision_id")
        self.clicks_of = listed(schema.clicks, "decision_id", "received_us", "link_id")
        self.conversions_of = listed(conversions, "decision_id", "received_us", "conversion_id")
        self.conversions_by_id = listed(conversions, "conversion_id")
        self.adjustments_of = listed(adjustments, "conversion_id", "received_us", "adjustment_id")
        self.adjustments_by_id = listed(adjustments, "adjustment_id")
        of_decision = "WHERE decision_id = :decision_id ORDER BY received_us, event_id"
        self.refusals = self.of_text(_rows(schema.refusals), of_decision)
        events = (schema.clicks, conversions, adjustments)
        received = "WHERE received_us >= :since_us"
        self.first_received = [
            self.of_text(f"SELECT MIN(received_us) FROM {table.name} {received}")
            for table in events
        ]
        self.received_between = [
            self.of_text(_rows(table), received, "AND received_us < :until_us") for table in events
        ]
        self.n_waiting = [
            self.of_text(f"SELECT COUNT(*) {self._still_waiting(name)}")
            for name in ("clicks", "conversions", "adjustments")
        ]

    def _still_waiting(self, events: str) -> str:
        """Return the rest of a query for events that wait for a decision which is not there."""
        decision_id, join = "e.decision_id", ""
        if events == "adjustments":
            decision_id = "s.decision_id"
            join = "LEFT JOIN conversions AS s ON s.conversion_id = e.conversion_id"
        return (
            f"FROM {events} AS e {join} LEFT JOIN decisions AS d ON d.decision_id = {decision_id} "
            f"WHERE {self._engine.has_waited} AND d.decision_id IS NULL"
        )

    def _change(self) -> None:
        sql, listed, row_id = self.of_text, self._engine.listed, self._engine.row_id
        self.update_clock = sql(
            "UPDATE store_clock SET closed_until_us = :closed_until_us, latest_us = :latest_us,",
            "n_resets = :n_resets",
        )
        self.reset_counters = [
            sql(f"DELETE FROM {name} WHERE pool_id = :pool_id AND link_id = :link_id")
            for name in ("link_counters", "purged_link_counters")
        ]
        key = ("pool_id", "feature", "value", "click_floor", "slots", "since_us")
        self.drop_floor = [
            sql(f"DELETE FROM {name} WHERE", " AND ".join(f"{part} = :{part}" for part in key))
            for name in ("floor_counters", "purged_floor_counters")
        ]
        self.forget_views = sql(
            "UPDATE decisions SET learned = false",
            "WHERE key_id = :by_key AND issued_us >= :since_us AND learned",
        )
        self.purge_sessions = sql("DELETE FROM ended_sessions WHERE ends_us <= :now_us")
        self.forget_state = sql("UPDATE learned SET state = :nothing WHERE pool_id = :pool_id")
        sold = f"SELECT conversion_id FROM conversions WHERE decision_id {listed}"
        self.purge = [
            sql(f"DELETE FROM adjustments WHERE conversion_id IN ({sold})"),
            *(
                sql(f"DELETE FROM {name} WHERE decision_id {listed}")
                for name in ("conversions", "clicks", "refusals", "decisions")
            ),
        ]
        self.purge_waiting = [
            sql(
                f"DELETE FROM {name} WHERE {row_id} IN (SELECT e.{row_id}",
                self._still_waiting(name),
                "AND e.received_us < :before_us LIMIT :n_rows)",
            )
            for name in ("adjustments", "conversions", "clicks")
        ]


def _rows(table: Table) -> str:
    return f"SELECT {', '.join(row_columns(table))} FROM {table.name}"
