"""The reads of the SQL stores, on one connection, and the SQL that both engines share.

A statement has named parameters (`:pool_id`) and, in braces, placeholders for which each engine has
its own SQL. It is translated once and run on the raw driver. Used by most of `storage`, and by
`learning` and `reporting`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, ClassVar

from sqlalchemy import Dialect, String, Table, text

from slotwise.service.counting.attribution import (
    CLICKS,
    FOLD_START,
    REVENUE,
    Counters,
    FoldPosition,
    Level,
    LinkCounters,
    PageCounters,
    StoredAdjustment,
    StoredClick,
    StoredConversion,
    StoredEvent,
    View,
)
from slotwise.service.giving_way import giving_way
from slotwise.service.records import (
    ChangeRecord,
    DecisionRecord,
    KeyRecord,
    LinkRecord,
    PoolSettings,
)
from slotwise.service.storage import schema
from slotwise.service.storage.activity import (
    MAX_DELAYS,
    MAX_PAGES,
    MICROS,
    Activity,
    link_spans_of,
    spans_of,
)
from slotwise.service.storage.contract import (
    ClicksAfter,
    Learned,
    Progress,
    Refusal,
    ShownViews,
    ViewBatch,
)
from slotwise.service.storage.schema import Row, row_columns

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

_COUNTED = "(CASE WHEN net > most THEN most WHEN net < 0 THEN 0 ELSE net END)"
"""What a sale less its refunds counts."""
_GROUP = "CASE WHEN d.is_own THEN 2 WHEN d.holdout THEN 1 ELSE 0 END"
"""The number of a page's group, as in `spans_of`."""
_N_OWN = "CAST(COALESCE(SUM(CASE WHEN d.is_own THEN 1 ELSE 0 END), 0) AS BIGINT)"
_COMPARED = "d.learned AND d.own_share > 0 AND d.issued_us >= :since_us"
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
STREAMED_ROWS = 5_000
"""Rows that are read at a time; also those of one commit when a store moves."""
_FOREVER = 2**63 - 1
_LATE_CHUNK = 1_000
_OF_POOL = "WHERE pool_id = :pool_id"
EVENTS = ("clicks", "conversions", "adjustments")


def _exact_sum(amount: str) -> str:
    """Sum millionths in two columns, units and remainder, since one sum might exceed 64 bits."""
    units = f"({amount} / {MICROS})"
    return f"CAST(SUM({units}) AS BIGINT), CAST(SUM({amount} - {units} * {MICROS}) AS BIGINT)"


ACTIVITY = {
    "views": f"""
        SELECT d.issued_us / :span_us, {_GROUP}, COUNT(*)
        FROM decisions AS d {_SINCE} GROUP BY 1, 2
    """,
    "clicks": f"""
        SELECT span, page_group, CAST(SUM(n) AS BIGINT), CAST(SUM(n * n) AS BIGINT) FROM (
            SELECT d.issued_us / :span_us AS span, {_GROUP} AS page_group, COUNT(*) AS n
            {_CLICKED} {_IN_TIME} GROUP BY d.seq
        ) AS pages GROUP BY 1, 2
    """,
    "sales": f"""
        SELECT span, page_group, COUNT(*), CAST(SUM(is_cut) AS BIGINT), {_exact_sum(_COUNTED)}
        FROM (
            SELECT d.issued_us / :span_us AS span, {_GROUP} AS page_group,
                   d.max_revenue_micros AS most,
                   CASE WHEN s.revenue_micros > d.max_revenue_micros THEN 1 ELSE 0 END AS is_cut,
                   s.revenue_micros - CAST(COALESCE((
                       SELECT SUM(a.refund_micros) FROM adjustments AS a
                       WHERE a.conversion_id = s.conversion_id AND a.currency = d.currency
                         AND a.received_us <= d.revenue_until_us
                   ), 0) AS BIGINT) AS net
            {_SOLD} AND s.received_us <= d.revenue_until_us
        ) AS sold GROUP BY 1, 2
    """,
    "open_groups": f"""
        SELECT {_N_OWN}, COUNT(*) FROM decisions AS d
        WHERE d.pool_id = :pool_id AND d.revenue_closes_us >= :after_us AND {_COMPARED}
          AND (d.revenue_closes_us > :after_us OR d.decision_id > :after_id) AND d.seq <= :until
    """,
    "groups_since": f"""
        SELECT {_N_OWN}, COUNT(*) FROM decisions AS d
        WHERE d.seq > :after AND d.seq <= :until AND d.pool_id = :pool_id AND {_COMPARED}
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
    # The pool is an expression so that SQLite searches by `seq`, which selects far fewer rows.
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


class Engine:
    """The SQL in which two engines differ: their dialects, and the text of placeholders.

    - `listed` follows a column to test that it is among the parameter `ids`
    - `row_id` is the column with the engine's internal row id
    - `bytewise` follows a text to sort it by its bytes
    - `has_waited` is the condition of the partial indexes on events that waited, of the table `e`
    - `shown` are the links of the page of the decision `d` as rows, `link_id` the id of one of them
    - `of_pool` selects the decisions of a pool without using its index
    """

    def __init__(self, dialect: Dialect, **words: str) -> None:
        self._dialect, self._words = dialect, words
        self._translated: dict[str, str] = {}

    def translated(self, sql: str) -> str:
        """Return a statement in the driver's syntax."""
        known = self._translated.get(sql)
        if known is None:
            compiled = text(sql.format_map(self._words)).compile(dialect=self._dialect)
            known = self._translated[sql] = str(compiled)
        return known


@cache
def rows_of(table: Table, *more: str) -> str:
    """Return the query for all rows of a table, with `more` columns at the end."""
    return f"SELECT {', '.join([*row_columns(table), *more])} FROM {table.name}"


@cache
def still_waiting(events: str) -> str:
    """Return the rest of a query for events whose decision is not stored yet."""
    decision_id, join = "e.decision_id", ""
    if events == "adjustments":
        decision_id = "s.decision_id"
        join = "LEFT JOIN conversions AS s ON s.conversion_id = e.conversion_id"
    return (
        f"FROM {events} AS e {join} LEFT JOIN decisions AS d ON d.decision_id = {decision_id} "
        "WHERE {has_waited} AND d.decision_id IS NULL"
    )


@cache
def _on_conflict(table: Table, update: str) -> str:
    """Return the end of an upsert that changes every column but the identity."""
    keys = [column.name for column in table.primary_key.columns]
    others = [name for name in row_columns(table) if name not in keys]
    updates = ", ".join(update.format(name=name, table=table.name) for name in others)
    return f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {updates}"


class SqlSession:
    """Runs the statements of an engine on a connection of its driver.

    The caller begins and ends the transaction.
    """

    engine: ClassVar[Engine]

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def fetch(self, sql: str, **parameters: object) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        rows: list[tuple[Any, ...]] = self._run(sql, parameters).fetchall()
        return rows

    def stream(self, sql: str, **parameters: object) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a query, a few thousand at a time."""
        with self._streaming_cursor() as cursor:
            cursor.execute(self.engine.translated(sql), parameters)
            while rows := cursor.fetchmany(STREAMED_ROWS):
                yield rows

    def execute(self, sql: str, **parameters: object) -> int:
        """Run a statement and return how many rows it changed."""
        return int(self._run(sql, parameters).rowcount)

    def insert(self, table: Table, new: Sequence[Row]) -> int:
        """Insert rows unless their identity is already stored; return how many were new."""
        return self._write(table, "ON CONFLICT DO NOTHING", new)

    def upsert(self, table: Table, new: Sequence[Row], where: str = "") -> int:
        """Insert rows, or replace every column but the identity; return how many were written."""
        replace = _on_conflict(table, "{name} = excluded.{name}")
        return self._write(table, f"{replace} {where}", new)

    def add(self, table: Table, new: Sequence[Row]) -> None:
        """Insert rows, or add every column but the identity to the stored row."""
        self._write(table, _on_conflict(table, "{name} = {table}.{name} + excluded.{name}"), new)

    def listed(self, ids: Sequence[str]) -> object:
        """Return ids in the form of the parameter `ids`."""
        raise NotImplementedError

    def damage(self) -> str:
        """Return what the database finds wrong with its own files, or nothing."""
        raise NotImplementedError

    def damage_at_a_glance(self) -> str:
        """Return damage that is found quickly, or nothing."""
        return self.damage()

    def _run(self, sql: str, parameters: Mapping[str, object]) -> Any:
        return self._connection.execute(self.engine.translated(sql), parameters)

    def _streaming_cursor(self) -> AbstractContextManager[Any]:
        raise NotImplementedError

    def _write(self, table: Table, end: str, new: Sequence[Row]) -> int:
        """Insert rows with a statement that ends with `end`; return how many were written."""
        raise NotImplementedError


def _step(n_pages: int) -> int:
    """Return n such that every n-th page makes at most `MAX_PAGES`."""
    return max(1, -(-n_pages // MAX_PAGES))


ALL_DECISIONS = (
    rows_of(schema.decisions, "seq") + " WHERE seq > :after_seq AND {of_pool} "
    "AND issued_us >= :since_us AND issued_us < :until_us ORDER BY seq LIMIT :n_rows"
)


class StoreReader:
    """The reads of one snapshot of a store: all of them see the same complete commits."""

    def __init__(self, session: SqlSession) -> None:
        self._session = session
        self._fetch = session.fetch

    def _listed(
        self, table: Table, column: str, ids: Iterable[str], then_by: str = ""
    ) -> list[tuple[Any, ...]]:
        """Return the rows whose column is among ids, by time of receipt if `then_by` is given."""
        wanted = list(ids)
        if not wanted:
            return []
        order = f"ORDER BY received_us, {then_by}" if then_by else ""
        sql = f"{rows_of(table)} WHERE {column} {{listed}} {order}"
        return self._fetch(sql, ids=self._session.listed(wanted))

    def pools(self) -> list[PoolSettings]:
        """Return every pool, by id."""
        found = self._fetch(f"{rows_of(schema.pools)} ORDER BY pool_id")
        return [schema.POOLS.record(row) for row in found]

    def links(self, pool_id: str) -> list[LinkRecord]:
        """Return the links of a pool, by place."""
        found = self._fetch(f"{rows_of(schema.links)} {_OF_POOL} ORDER BY place", pool_id=pool_id)
        return [schema.LINKS.record(row) for row in found]

    def pool_revision(self, pool_id: str) -> int:
        """Return when a pool was last changed, 0 if there is none."""
        for (changed_us,) in self._fetch(
            f"SELECT changed_us FROM pools {_OF_POOL}", pool_id=pool_id
        ):
            return int(changed_us)
        return 0

    def places(self, pool_id: str, link_ids: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Return the places and revisions of these links, as far as the pool has them."""
        ids = self._session.listed(list(link_ids))
        sql = f"SELECT link_id, place, changed_us FROM links {_OF_POOL} AND link_id {{listed}}"
        found = self._fetch(sql, pool_id=pool_id, ids=ids)
        return {link_id: (place, changed_us) for link_id, place, changed_us in found}

    def n_links(self, pool_id: str) -> int:
        """Count the links of a pool."""
        return int(self._fetch(f"SELECT COUNT(*) FROM links {_OF_POOL}", pool_id=pool_id)[0][0])

    def reset_times(self, pool_id: str) -> dict[str, int]:
        """Return `counted_from_us` of the links whose statistics were ever reset."""
        sql = f"SELECT link_id, counted_from_us FROM links {_OF_POOL} AND counted_from_us > 0"
        return dict(self._fetch(sql, pool_id=pool_id))

    def keys(self) -> list[KeyRecord]:
        """Return every key, by id."""
        found = self._fetch(f"{rows_of(schema.keys)} ORDER BY key_id")
        return [schema.KEYS.record(row) for row in found]

    def changes(self, subject: str, limit: int) -> list[ChangeRecord]:
        """Return changes of a subject (`home/`: of all below `home`, "": of all), newest first."""
        named, where = {"subject": subject} if subject else {}, ""
        if subject.endswith("/"):
            where = "WHERE substr(subject, 1, length({0})) = {0}".format("CAST(:subject AS TEXT)")
        elif subject:
            where = "WHERE subject = :subject"
        sql = f"{rows_of(schema.changes)} {where} ORDER BY seq DESC LIMIT :n_rows"
        return [schema.CHANGES.record(row) for row in self._fetch(sql, **named, n_rows=limit)]

    def clock(self) -> tuple[int, int, int]:
        """Return `closed_until_us`, `latest_us` and `n_resets`."""
        sql = "SELECT closed_until_us, latest_us, n_resets FROM store_clock"
        [(closed_until_us, latest_us, n_resets)] = self._fetch(sql)
        return closed_until_us, latest_us, n_resets

    def moving_from(self) -> str:
        """Return the source of an unfinished move to this store, or an empty text."""
        return str(self._fetch("SELECT moving_from FROM store_clock")[0][0])

    def fold_positions(self) -> dict[tuple[str, Level], FoldPosition]:
        """Return how far each pool is folded, by pool and level."""
        return {
            (pool_id, level): FoldPosition(closes_us=closes_us, decision_id=decision_id)
            for pool_id, level, closes_us, decision_id in self._fetch(
                rows_of(schema.fold_positions)
            )
        }

    def progress(self) -> Progress:
        """Return how far windows are closed and folded."""
        closed_until_us, latest_us, n_resets = self.clock()
        return Progress(
            closed_until_us=closed_until_us,
            latest_us=latest_us,
            n_resets=n_resets,
            folded=self.fold_positions(),
        )

    def counters(self, pool_id: str) -> Counters:
        """Return the counters of a pool."""
        return self._counters("", pool_id)

    def largest_sum(self, pool_id: str, link_id: str) -> int:
        """Return the largest sum, or square, of revenue among the counters of a link or a pool."""
        sql = f"SELECT revenue_micros, late_revenue_micros FROM link_counters {_OF_POOL}"
        of_link = self._fetch(f"{sql} AND link_id = :link_id", pool_id=pool_id, link_id=link_id)
        sql = f"SELECT revenue_micros, revenue_squared FROM page_counters {_OF_POOL}"
        of_pages = self._fetch(sql, pool_id=pool_id)
        return max((abs(value) for row in (*of_link, *of_pages) for value in row), default=0)

    def purged(self, pool_id: str) -> Counters:
        """Return what purged views had added to the counters of a pool."""
        return self._counters("purged_", pool_id)

    def _counters(self, prefix: str, pool_id: str) -> Counters:
        counted: dict[str, dict[Any, Any]] = {}
        for field, of in schema.COUNTED.items():
            table = schema.metadata.tables[f"{prefix}{of}_counters"]
            kind, n = LinkCounters if field == "links" else PageCounters, len(table.primary_key)
            found = self._fetch(f"{rows_of(table)} {_OF_POOL}", pool_id=pool_id)
            counted[field] = {schema.counter_key(field, one[1:n]): kind(*one[n:]) for one in found}
        return Counters(**counted)

    def purgeable_views(self, pool_id: str, before_us: int, limit: int) -> list[View]:
        """Return the first views that closed before a time and can be deleted.

        They are folded at every level, and the pool's state has learned them.
        """
        positions = self.fold_positions()
        needed = self._fetch(f"SELECT needs_rows_us FROM learned {_OF_POOL}", pool_id=pool_id)
        before_us = min([before_us, *(needs_rows_us for (needs_rows_us,) in needed)])
        found = self._fetch(
            f"{rows_of(schema.decisions)} {_OF_POOL} AND revenue_closes_us < :before_us "
            "AND revenue_closes_us < :revenue_folded_us AND click_closes_us < :clicks_folded_us "
            "ORDER BY revenue_closes_us, decision_id LIMIT :n_rows",
            pool_id=pool_id,
            before_us=before_us,
            clicks_folded_us=positions.get((pool_id, CLICKS), FOLD_START).closes_us,
            revenue_folded_us=positions.get((pool_id, REVENUE), FOLD_START).closes_us,
            n_rows=limit,
        )
        return self._views(schema.DECISIONS.record(row) for row in found)

    def learned(self, pool_id: str) -> Learned | None:
        """Return what the pool published last."""
        for row in self._fetch(f"{rows_of(schema.learned)} {_OF_POOL}", pool_id=pool_id):
            return schema.LEARNED.record(row)
        return None

    def learned_versions(self) -> dict[str, int]:
        """Return the number of the version that each pool published last."""
        return dict(self._fetch("SELECT pool_id, version FROM learned"))

    def pool_resets(self) -> dict[str, int]:
        """Return how often statistics of each pool were reset."""
        return dict(self._fetch("SELECT pool_id, n_resets FROM learned"))

    def changed_since(self, after: int) -> tuple[int, list[str]]:
        """Return the position of the newest change, and the subjects of those after a position."""
        sql = "SELECT seq, subject FROM changes WHERE seq > :after ORDER BY seq"
        found = self._fetch(sql, after=after)
        return (found[-1][0] if found else after), [subject for _, subject in found]

    def ended_sessions(self, after: int) -> tuple[int, list[tuple[str, int]]]:
        """Return the position of the newest one, and id and expiry of those after a position."""
        sql = "SELECT seq, session_id, ends_us FROM ended_sessions WHERE seq > :after ORDER BY seq"
        found = self._fetch(sql, after=after)
        return (found[-1][0] if found else after), [(one, ends_us) for _, one, ends_us in found]

    def decision(self, decision_id: str) -> DecisionRecord | None:
        """Return a decision by its id."""
        return self.decisions([decision_id]).get(decision_id)

    def decisions(self, decision_ids: Iterable[str]) -> dict[str, DecisionRecord]:
        """Return those of the decisions that are stored, by id."""
        found = self._listed(schema.decisions, "decision_id", decision_ids)
        return {row[0]: schema.DECISIONS.record(row) for row in found}

    def clicks_of(self, decision_ids: Iterable[str]) -> list[StoredClick]:
        """Return the clicks of decisions, by time."""
        found = self._listed(schema.clicks, "decision_id", decision_ids, "link_id")
        return [schema.CLICKS.record(row) for row in found]

    def conversions_of(self, decision_ids: Iterable[str]) -> list[StoredConversion]:
        """Return the conversions of decisions, by time."""
        found = self._listed(schema.conversions, "decision_id", decision_ids, "conversion_id")
        return [schema.CONVERSIONS.record(row) for row in found]

    def conversions(self, conversion_ids: Iterable[str]) -> dict[str, StoredConversion]:
        """Return those of the conversions that are stored, by id."""
        found = self._listed(schema.conversions, "conversion_id", conversion_ids)
        return {row[0]: schema.CONVERSIONS.record(row) for row in found}

    def adjustments_of(self, conversion_ids: Iterable[str]) -> list[StoredAdjustment]:
        """Return the adjustments of conversions, by time."""
        found = self._listed(schema.adjustments, "conversion_id", conversion_ids, "adjustment_id")
        return [schema.ADJUSTMENTS.record(row) for row in found]

    def adjustments(self, adjustment_ids: Iterable[str]) -> dict[str, StoredAdjustment]:
        """Return those of the adjustments that are stored, by id."""
        found = self._listed(schema.adjustments, "adjustment_id", adjustment_ids)
        return {row[0]: schema.ADJUSTMENTS.record(row) for row in found}

    def view(self, decision_id: str) -> View | None:
        """Return a decision with its feedback."""
        for view in self._views(self.decisions([decision_id]).values()):
            return view
        return None

    def refusals(self, decision_id: str) -> list[Refusal]:
        """Return the events refused for a decision, in order of arrival."""
        where = "WHERE decision_id = :decision_id ORDER BY received_us, event_id"
        found = self._fetch(f"{rows_of(schema.refusals)} {where}", decision_id=decision_id)
        return [schema.REFUSALS.record(row) for row in found]

    def closed_views(
        self, pool_id: str, level: Level, after: FoldPosition, until_us: int, limit: int
    ) -> list[View]:
        """Return views that learn and closed at this level by `until_us`, in folding order.

        Folding order is the closing time, then the decision id. Returns the first `limit` views
        after the position `after`.
        """
        closes = "click_closes_us" if level == CLICKS else "revenue_closes_us"
        found = self._fetch(
            f"{rows_of(schema.decisions)} {_OF_POOL} AND {closes} <= :until_us AND learned "
            f"AND ({closes}, decision_id) > (:after_us, :after_id) "
            f"ORDER BY {closes}, decision_id LIMIT :n_rows",
            pool_id=pool_id,
            after_us=after.closes_us,
            after_id=after.decision_id,
            until_us=until_us,
            n_rows=limit,
        )
        return self._views(schema.DECISIONS.record(row) for row in found)

    def views_after(
        self, pool_id: str, since_us: int, until_us: int | None, after: int, limit: int
    ) -> ViewBatch:
        """Return the next views issued in [since, until), in the order they were stored.

        `after` is 0 at first, then the `last` of the batch before.
        """
        found = self._fetch(
            ALL_DECISIONS,
            after_seq=after,
            pool_id=pool_id,
            since_us=since_us,
            until_us=_FOREVER if until_us is None else until_us,
            n_rows=limit,
        )
        views = self._views(schema.DECISIONS.record(row) for row in found)
        return ViewBatch(views=views, last=found[-1][-1] if found else after)

    def decisions_after(self, after: int, limit: int) -> list[tuple[int, DecisionRecord]]:
        """Return the next decisions of all pools with their positions, in the order of storing.

        Decisions stored after windows were closed have later positions than all earlier ones.
        """
        later = "WHERE seq > :after ORDER BY seq LIMIT :n_rows"
        sql = f"{rows_of(schema.decisions, 'seq')} {later}"
        found = self._fetch(sql, after=after, n_rows=limit)
        return [(row[-1], schema.DECISIONS.record(row)) for row in found]

    def place_of(self, decision_id: str) -> int:
        """Return the position of a decision, 0 if it is not stored."""
        sql = "SELECT seq FROM decisions WHERE decision_id = :decision_id"
        found = self._fetch(sql, decision_id=decision_id)
        return int(found[0][0]) if found else 0

    def first_received(self, since_us: int) -> int | None:
        """Return the time of the first event received at or after a time. Reads all events."""
        sql = "SELECT MIN(received_us) FROM {} WHERE received_us >= :since_us"
        found = [self._fetch(sql.format(name), since_us=since_us) for name in EVENTS]
        return min((time for [(time,)] in found if time is not None), default=None)

    def received_between(self, since_us: int, until_us: int) -> Iterator[list[StoredEvent]]:
        """Yield the events received in [since, until), in no order, some at a time.

        Reads all events; the reader must stay open meanwhile.
        """
        kinds: Sequence[schema.TableRows[Any]]
        kinds = [schema.CLICKS, schema.CONVERSIONS, schema.ADJUSTMENTS]
        between = "WHERE received_us >= :since_us AND received_us < :until_us"
        for kind, name in zip(kinds, EVENTS, strict=True):
            sql = f"{rows_of(schema.metadata.tables[name])} {between}"
            for rows in self._session.stream(sql, since_us=since_us, until_us=until_us):
                yield list(map(kind.record, rows))

    def all_rows(self, table: Table, start: int) -> Iterator[Sequence[Row]]:
        """Yield the rows of a table in the order of its key after the first `start`, in batches.

        Both engines sort alike.
        """
        keys = [
            column.name + (" {bytewise}" if isinstance(column.type, String) else "")
            for column in table.primary_key.columns
        ]
        order = f"ORDER BY {', '.join(keys)} LIMIT :n_rows OFFSET :start"
        yield from self._session.stream(f"{rows_of(table)} {order}", n_rows=_FOREVER, start=start)

    def shown_since(self, pool_id: str, after: int) -> ShownViews:
        """Return the position of the newest view, and how often links were shown after a position.

        Views that another process is storing may be missing.
        """
        [(until,)] = self._fetch("SELECT COALESCE(MAX(seq), 0) FROM decisions")
        if until <= after:
            return ShownViews(until, 0, {})
        among = {"pool_id": pool_id, "after": after, "until": until}
        shown: Counter[str] = Counter()
        n_pages = 0
        for rows in self._session.stream(ACTIVITY["pages_since"], **among):
            n_pages += len(rows)
            shown.update(schema.links_on([page for (page,) in rows]))
        return ShownViews(until, n_pages, dict(shown))

    def open_groups(self, pool_id: str, since_us: int) -> tuple[int, int, int]:
        """Return the position of the newest view, and the own and other pages not yet settled.

        Pages issued since a time count, if they might have been the own page.
        """
        [(until,)] = self._fetch("SELECT COALESCE(MAX(seq), 0) FROM decisions")
        folded = self.progress().folded.get((pool_id, REVENUE), FOLD_START)
        of = {"pool_id": pool_id, "since_us": since_us, "until": until}
        after = {"after_us": folded.closes_us, "after_id": folded.decision_id}
        [(n_own, n_all)] = self._fetch(ACTIVITY["open_groups"], **of, **after)
        return until, n_own, n_all - n_own

    def groups_since(self, pool_id: str, since_us: int, after: int) -> tuple[int, int, int]:
        """Return the position of the newest view, and the own and other pages after a position.

        Views that another process is storing may be missing.
        """
        [(until,)] = self._fetch("SELECT COALESCE(MAX(seq), 0) FROM decisions")
        if until <= after:
            return until, 0, 0
        of = {"pool_id": pool_id, "since_us": since_us, "after": after, "until": until}
        [(n_own, n_all)] = self._fetch(ACTIVITY["groups_since"], **of)
        return until, n_own, n_all - n_own

    def clicks_after(
        self, pool_id: str, since_us: int, after_us: int, closed_until_us: int
    ) -> ClicksAfter:
        """Return the clicks of views issued since a time whose window closes after another.

        Also return how often each link was shown on those whose window is open.
        """
        of = {"pool_id": pool_id, "since_us": since_us, "closed_until_us": closed_until_us}
        clicked = self._fetch(ACTIVITY["clicks_after"], **of, after_us=after_us)
        shown = self._fetch(ACTIVITY["open_views"], **of)
        clicks = [(str(link_id), bool(is_settled), n) for link_id, is_settled, n in clicked]
        return ClicksAfter(clicks, {str(link_id): n for link_id, n in shown})

    def late_views(self, pool_id: str) -> Iterator[list[View]]:
        """Yield the views with an event received after its window, some at a time."""
        found = [row[0] for row in self._fetch(LATE_DECISION_IDS, pool_id=pool_id)]
        for start in range(0, len(found), _LATE_CHUNK):
            yield self._views(self.decisions(found[start : start + _LATE_CHUNK]).values())

    def damage_at_a_glance(self) -> str:
        """Return damage that is found quickly, or an empty text: not every row is read."""
        return self._session.damage_at_a_glance()

    def damage(self) -> str:
        """Return what the database finds wrong with its own files, or nothing."""
        return self._session.damage()

    def n_quarantined(self) -> int:
        """Count the events that wait for their decision or conversion."""
        return sum(self._fetch(f"SELECT COUNT(*) {still_waiting(name)}")[0][0] for name in EVENTS)

    def activity(self, pool_id: str, since_us: int, span_us: int, closed_until_us: int) -> Activity:
        """Sum up the pages shown since a time; windows after `closed_until_us` are open.

        Equals the sums over the single views, except that the views of links are estimated for more
        than `MAX_PAGES`.
        """
        parameters: dict[str, object] = {
            "pool_id": pool_id,
            "since_us": since_us,
            "span_us": span_us,
            "closed_until_us": closed_until_us,
            "n_rows": MAX_DELAYS,
        }

        def rows(query: str) -> list[tuple[int, ...]]:
            return self._fetch(ACTIVITY[query], **parameters)

        spans: dict[tuple[int, int], dict[str, int]] = defaultdict(dict)
        for query, names in (
            ("views", ("views",)),
            ("clicks", ("clicks", "clicks_squared")),
            ("sales", ("sales", "cut_sales", "revenue_units", "revenue_rest")),
        ):
            for span, group, *sums in rows(query):
                spans[span, group].update(zip(names, sums, strict=True))
        for one in spans.values():
            units, remainder = one.pop("revenue_units", 0), one.pop("revenue_rest", 0)
            one["revenue_micros"] = units * MICROS + remainder
        n_pages = sum(sums.get("views", 0) for sums in spans.values())
        parameters["every"] = _step(n_pages)
        parameters["every_open"] = _step(rows("n_open")[0][0])
        links: dict[tuple[str, int], dict[str, int]] = defaultdict(dict)
        for query, name in (("link_views", "views"), ("link_clicks", "clicks")):
            for link_id, span, total in rows(query):
                links[str(link_id), span][name] = total
        [(invalid_clicks, late_clicks)] = rows("odd_clicks")
        return Activity(
            spans=spans_of(spans, span_us),
            link_spans=link_spans_of(links, span_us),
            pending_views={str(link_id): views for link_id, views in rows("pending")},
            click_delays_us=tuple(sorted(delay for (delay,) in rows("click_delays"))),
            sale_delays_us=tuple(sorted(delay for (delay,) in rows("sale_delays"))),
            late_clicks=late_clicks,
            late_sales=rows("late_sales")[0][0],
            invalid_clicks=invalid_clicks,
            refused=rows("refused")[0][0],
        )

    def _views(self, found: Iterable[DecisionRecord]) -> list[View]:
        decisions = {decision.decision_id: decision for decision in giving_way(found)}
        clicks: dict[str, list[StoredClick]] = defaultdict(list)
        for click in self.clicks_of(decisions):
            clicks[click.event.decision_id].append(click)
        conversions: dict[str, list[StoredConversion]] = defaultdict(list)
        decision_of = {}
        for conversion in self.conversions_of(decisions):
            conversions[conversion.event.decision_id].append(conversion)
            decision_of[conversion.event.conversion_id] = conversion.event.decision_id
        adjustments: dict[str, list[StoredAdjustment]] = defaultdict(list)
        for adjustment in self.adjustments_of(decision_of):
            adjustments[decision_of[adjustment.event.conversion_id]].append(adjustment)
        return [
            View(
                decision=decision,
                clicks=tuple(clicks.get(decision_id, ())),
                conversions=tuple(conversions.get(decision_id, ())),
                adjustments=tuple(adjustments.get(decision_id, ())),
            )
            for decision_id, decision in decisions.items()
        ]
