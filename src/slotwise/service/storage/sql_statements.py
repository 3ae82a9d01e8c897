"""The SQL that the stores share: built from the schema once for each engine, run on raw drivers."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import (
    Dialect,
    Select,
    String,
    Table,
    TextClause,
    bindparam,
    false,
    func,
    literal_column,
    select,
    text,
    tuple_,
    update,
)
from sqlalchemy.sql import ClauseElement

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

_SHOWN_SINCE = """
    SELECT {link_id}, COUNT(*) FROM decisions AS d, {shown}
    WHERE d.pool_id = :pool_id AND d.seq > :after AND d.seq <= :until
    GROUP BY 1
"""

ACTIVITY_QUERIES = {
    "shown_since": _SHOWN_SINCE,
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
    """The id of a row of `shown`: an array or an object, depending on who stored it."""
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
            name: self._sql(
                text(query.replace("{shown}", engine.shown).replace("{link_id}", engine.link_id))
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

    def of_text(self, sql: str) -> str:
        """Return a statement with named parameters (`:name`) as the driver wants it."""
        return self._sql(text(sql))

    def _sql(self, statement: ClauseElement) -> str:
        return str(statement.compile(dialect=self._engine.dialect))

    def _first_rows(self, statement: Select[Any]) -> str:
        # SQLAlchemy would add an OFFSET with a parameter of its own.
        return f"{self._sql(statement)} {self._sql(text('LIMIT :n_rows'))}"

    def _listed(self, column: str) -> TextClause:
        return text(f"{column} {self._engine.listed}")

    def _read_settings(self) -> None:
        pools, links, changes = schema.pools, schema.links, schema.changes
        of_pool = links.c.pool_id == bindparam("pool_id")
        self.pools = self._sql(_rows(pools).order_by(pools.c.pool_id))
        self.links = self._sql(_rows(links).where(of_pool).order_by(links.c.place))
        self.reset_times = self._sql(
            select(links.c.link_id, links.c.counted_from_us).where(
                of_pool, links.c.counted_from_us > literal_column("0")
            )
        )
        self.places = self._sql(
            select(links.c.link_id, links.c.place).where(of_pool, self._listed("links.link_id"))
        )
        self.n_links = self._sql(select(func.count()).select_from(links).where(of_pool))
        self.keys = self._sql(_rows(schema.keys).order_by(schema.keys.c.key_id))
        newest = _rows(changes).order_by(changes.c.seq.desc())
        subject = bindparam("subject", type_=changes.c.subject.type)
        below = func.substr(changes.c.subject, literal_column("1"), func.length(subject)) == subject
        self.changes = self._first_rows(newest)
        self.changes_of = self._first_rows(newest.where(changes.c.subject == subject))
        self.changes_below = self._first_rows(newest.where(below))
        later = select(changes.c.seq, changes.c.subject).order_by(changes.c.seq)
        self.changed_since = self._sql(later.where(changes.c.seq > bindparam("after")))
        ended = schema.ended_sessions.c
        self.ended_sessions = self._sql(
            select(ended.seq, ended.session_id, ended.ends_us)
            .where(ended.seq > bindparam("after"))
            .order_by(ended.seq)
        )

    def _read_learned(self) -> None:
        learned, decisions = schema.learned, schema.decisions
        self.clock = "SELECT closed_until_us, latest_us, n_resets FROM store_clock"
        self.moving_from = "SELECT moving_from FROM store_clock"
        self.fold_positions = self._sql(_rows(schema.fold_positions))
        self.counters = {
            table.name: self._sql(_rows(table).where(table.c.pool_id == bindparam("pool_id")))
            for table in COUNTER_TABLES
        }
        of_link, of_pages = schema.link_counters.c, schema.page_counters.c
        self.sums_of_link = self._sql(
            select(of_link.revenue_micros, of_link.late_revenue_micros).where(
                of_link.pool_id == bindparam("pool_id"), of_link.link_id == bindparam("link_id")
            )
        )
        self.sums_of_pages = self._sql(
            select(of_pages.revenue_micros, of_pages.revenue_squared).where(
                of_pages.pool_id == bindparam("pool_id")
            )
        )
        self.learned = self._sql(_rows(learned).where(learned.c.pool_id == bindparam("pool_id")))
        self.learned_versions = self._sql(select(learned.c.pool_id, learned.c.version))
        self.late_decision_ids = self._sql(text(_LATE_DECISION_IDS))
        self.closed_decisions = {
            CLICKS: self._closed("click_closes_us"),
            REVENUE: self._closed("revenue_closes_us"),
        }
        self.all_decisions = self._first_rows(
            _rows(decisions)
            .add_columns(decisions.c.seq)
            .where(
                decisions.c.seq > bindparam("after_seq"),
                text(self._engine.of_pool),
                decisions.c.issued_us >= bindparam("since_us"),
                decisions.c.issued_us < bindparam("until_us"),
            )
            .order_by(decisions.c.seq)
        )
        self.purgeable_decisions = self._first_rows(
            _rows(decisions)
            .where(
                decisions.c.pool_id == bindparam("pool_id"),
                decisions.c.revenue_closes_us < bindparam("before_us"),
                decisions.c.revenue_closes_us < bindparam("revenue_folded_us"),
                decisions.c.click_closes_us < bindparam("clicks_folded_us"),
            )
            .order_by(decisions.c.revenue_closes_us, decisions.c.decision_id)
        )

    def _closed(self, closes: str) -> str:
        table = schema.decisions
        position = tuple_(table.c[closes], table.c.decision_id)
        return self._first_rows(
            _rows(table)
            .where(
                table.c.pool_id == bindparam("pool_id"),
                position > tuple_(bindparam("after_us"), bindparam("after_id")),
                table.c[closes] <= bindparam("until_us"),
                table.c.learned,
            )
            .order_by(table.c[closes], table.c.decision_id)
        )

    def _read_events(self) -> None:
        decisions, clicks = schema.decisions, schema.clicks
        conversions, adjustments = schema.conversions, schema.adjustments

        def listed(table: Table, column: str, *order: str) -> str:
            found = _rows(table).where(self._listed(f"{table.name}.{column}"))
            return self._sql(found.order_by(*(table.c[name] for name in order)))

        self.decisions_by_id = listed(decisions, "decision_id")
        self.clicks_of = listed(clicks, "decision_id", "received_us", "link_id")
        self.conversions_of = listed(conversions, "decision_id", "received_us", "conversion_id")
        self.conversions_by_id = listed(conversions, "conversion_id")
        self.adjustments_of = listed(adjustments, "conversion_id", "received_us", "adjustment_id")
        self.adjustments_by_id = listed(adjustments, "adjustment_id")
        refusals = schema.refusals
        self.refusals = self._sql(
            _rows(refusals)
            .where(refusals.c.decision_id == bindparam("decision_id"))
            .order_by(refusals.c.received_us, refusals.c.event_id)
        )
        self.n_waiting = [
            self._sql(_still_waiting(table)) for table in (clicks, conversions, adjustments)
        ]

    def _change(self) -> None:
        listed, decisions = self._engine.listed, schema.decisions
        self.update_clock = self._sql(
            text(
                "UPDATE store_clock SET closed_until_us = :closed_until_us, "
                "latest_us = :latest_us, n_resets = :n_resets"
            )
        )
        self.reset_counters = [
            self._sql(text(f"DELETE FROM {name} WHERE pool_id = :pool_id AND link_id = :link_id"))
            for name in ("link_counters", "purged_link_counters")
        ]
        self.drop_floor = [
            self._sql(
                text(
                    f"DELETE FROM {name} WHERE pool_id = :pool_id AND feature = :feature AND "
                    "value = :value AND click_floor = :click_floor AND slots = :slots AND "
                    "since_us = :since_us"
                )
            )
            for name in ("floor_counters", "purged_floor_counters")
        ]
        self.forget_views = self._sql(
            update(decisions)
            .values(learned=false())
            .where(
                decisions.c.key_id == bindparam("by_key"),
                decisions.c.issued_us >= bindparam("since_us"),
                decisions.c.learned,
            )
        )
        self.purge_sessions = self._sql(text("DELETE FROM ended_sessions WHERE ends_us <= :now_us"))
        self.forget_state = self._sql(
            text("UPDATE learned SET state = :nothing WHERE pool_id = :pool_id")
        )
        events_of = ("conversions", "clicks", "refusals", "decisions")
        self.purge = [
            self._sql(
                text(
                    "DELETE FROM adjustments WHERE conversion_id IN "
                    f"(SELECT conversion_id FROM conversions WHERE decision_id {listed})"
                )
            ),
            *(
                self._sql(text(f"DELETE FROM {name} WHERE decision_id {listed}"))
                for name in events_of
            ),
        ]
        self.purge_waiting = [
            self._purge_waiting(
                "adjustments",
                "s.decision_id",
                "LEFT JOIN conversions AS s ON s.conversion_id = e.conversion_id",
            ),
            self._purge_waiting("conversions", "e.decision_id"),
            self._purge_waiting("clicks", "e.decision_id"),
        ]

    def _purge_waiting(self, table: str, decision_id: str, join: str = "") -> str:
        row_id = self._engine.row_id
        return self._sql(
            text(
                f"DELETE FROM {table} WHERE {row_id} IN (SELECT e.{row_id} FROM {table} AS e "
                f"{join} LEFT JOIN decisions AS d ON d.decision_id = {decision_id} "
                f"WHERE {self._engine.has_waited} AND e.received_us < :before_us "
                "AND d.decision_id IS NULL LIMIT :n_rows)"
            )
        )


def _rows(table: Table) -> Select[Any]:
    return select(*(table.c[name] for name in row_columns(table)))


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
