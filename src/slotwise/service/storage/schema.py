"""The tables, once, for every SQL engine; `slotwise.service.storage.migrations` builds them.

Raw rows (decisions, clicks, conversions, adjustments) are inserted, never changed (but for
`learned` of a decision that is forgotten), and dropped when they are purged: what they added to
the counters is then in the purged counters. Their primary
keys are the identities of the counting rules, so a second copy cannot enter. Counters are
sums over raw rows and change in the transaction that stores or folds the rows. The columns of
a table stand in the order of its record's fields; `slotwise.service.storage.rows` relies on it.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    false,
    text,
)

__all__ = [
    "OLDEST_SCHEMA",
    "SCHEMA_VERSION",
    "adjustments",
    "changes",
    "clicks",
    "conversions",
    "decisions",
    "fold_positions",
    "keys",
    "learned",
    "link_counters",
    "links",
    "metadata",
    "page_counters",
    "pools",
    "purged_link_counters",
    "purged_page_counters",
    "purged_visitor_counters",
    "refusals",
    "store_clock",
    "visitor_counters",
]

SCHEMA_VERSION = "v0010"
"""The migration that this code needs: the newest one in `slotwise.service.storage.migrations`."""
OLDEST_SCHEMA = "v0008"
"""The oldest code that may use this schema, by the migration it knows.

Columns with a default and new tables leave it as it is: replicas of the release before go on
beside a new one. A migration that changes or removes what is there moves it.
"""

metadata = MetaData(
    naming_convention={"pk": "pk_%(table_name)s", "ck": "ck_%(table_name)s_%(constraint_name)s"}
)

Id = String(64).with_variant(String(64, collation="C"), "postgresql")
"""Sorted by bytes, as Python and SQLite do: the order of folding depends on it."""
Sequence = BigInteger().with_variant(Integer, "sqlite")
"""SQLite counts up only a primary key of the very type INTEGER."""

pools = Table(
    "pools",
    metadata,
    Column("pool_id", Id, primary_key=True),
    Column("slots", Integer, nullable=False),
    Column("click_floor", Float, nullable=False),
    Column("max_revenue_micros", BigInteger, nullable=False),
    Column("currency", String(3), nullable=False),
    Column("click_window_s", BigInteger, nullable=False),
    Column("revenue_window_s", BigInteger, nullable=False),
    Column("policy", Text, nullable=False),
    Column("policy_settings", Text, nullable=False),
    Column("holdout", Float, nullable=False),
    Column("fallback_order", Text, nullable=False),
    Column("allowed_hosts", Text, nullable=False),
    Column("archived", Boolean, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    Column("changed_us", BigInteger, nullable=False),
    Column("pins", Text, nullable=False, server_default="[]"),
    Column("explore", Float, nullable=False, server_default="0"),
    Column("features", Text, nullable=False, server_default="{}"),
    Column("slot_weights", Text, nullable=False, server_default="[]"),
    Column("learn_slot_weights", Boolean, nullable=False, server_default=false()),
    Column("floors_by", Text, nullable=False, server_default="{}"),
)

links = Table(
    "links",
    metadata,
    Column("pool_id", Id, primary_key=True),
    Column("link_id", Id, primary_key=True),
    Column("url", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("retired", Boolean, nullable=False),
    Column("place", Integer, nullable=False),
    Column("counted_from_us", BigInteger, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    Column("changed_us", BigInteger, nullable=False),
    Column("metadata", Text, nullable=False, server_default="{}"),
    Column("known", Text, nullable=False, server_default="[]"),
    Column("known_us", BigInteger, nullable=False, server_default="0"),
    Index("ix_links_place", "pool_id", "place", unique=True),
)

keys = Table(
    "keys",
    metadata,
    Column("key_id", Id, primary_key=True),
    Column("key_hash", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("label", Text, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    Column("revoked_us", BigInteger, nullable=False),
    Column("pool_id", Text, nullable=False, server_default=""),
)

changes = Table(
    "changes",
    metadata,
    Column("seq", Sequence, primary_key=True),
    Column("changed_us", BigInteger, nullable=False),
    Column("changed_by", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("before", Text, nullable=False),
    Column("after", Text, nullable=False),
    Index("ix_changes_subject", "subject", "seq"),
)

decisions = Table(
    "decisions",
    metadata,
    Column("seq", Sequence, primary_key=True),
    Column("decision_id", Id, nullable=False),
    Column("pool_id", Id, nullable=False),
    Column("issued_us", BigInteger, nullable=False),
    Column("click_closes_us", BigInteger, nullable=False),
    Column("revenue_until_us", BigInteger, nullable=False),
    Column("revenue_closes_us", BigInteger, nullable=False),
    Column("currency", String(3), nullable=False),
    Column("max_revenue_micros", BigInteger, nullable=False),
    Column("policy", Text, nullable=False),
    Column("policy_version", BigInteger, nullable=False),
    Column("page", Text, nullable=False),
    Column("holdout", Boolean, nullable=False),
    Column("fallback", Text, nullable=False),
    Column("asked", Text, nullable=False),
    Column("stored_us", BigInteger, nullable=False),
    Column("learned", Boolean, nullable=False),
    Column("key_id", Text, nullable=False, server_default=""),
    Column("format", Integer, nullable=False, server_default="1"),
    Index("ix_decisions_id", "decision_id", unique=True),
    Index("ix_decisions_click_closes", "pool_id", "click_closes_us", "decision_id"),
    Index("ix_decisions_revenue_closes", "pool_id", "revenue_closes_us", "decision_id"),
)

clicks = Table(
    "clicks",
    metadata,
    Column("decision_id", Id, primary_key=True),
    Column("link_id", Id, primary_key=True),
    Column("invalid", Id, primary_key=True),
    Column("client_time", Text),
    Column("received_us", BigInteger, nullable=False),
    Column("waited", Boolean, nullable=False),
)

conversions = Table(
    "conversions",
    metadata,
    Column("conversion_id", Id, primary_key=True),
    Column("decision_id", Id, nullable=False),
    Column("link_id", Id, nullable=False),
    Column("revenue_micros", BigInteger, nullable=False),
    Column("currency", String(3), nullable=False),
    Column("client_time", Text),
    Column("received_us", BigInteger, nullable=False),
    Column("waited", Boolean, nullable=False),
    CheckConstraint("revenue_micros >= 0", name="not_negative"),
    Index("ix_conversions_decision", "decision_id"),
)

adjustments = Table(
    "adjustments",
    metadata,
    Column("adjustment_id", Id, primary_key=True),
    Column("conversion_id", Id, nullable=False),
    Column("refund_micros", BigInteger, nullable=False),
    Column("currency", String(3), nullable=False),
    Column("client_time", Text),
    Column("received_us", BigInteger, nullable=False),
    Column("waited", Boolean, nullable=False),
    CheckConstraint("refund_micros >= 0", name="not_negative"),
    Index("ix_adjustments_conversion", "conversion_id"),
)

for _table in (clicks, conversions, adjustments):
    # Few rows waited for their decision; counting those that still do must not read all.
    Index(
        f"ix_{_table.name}_waited",
        _table.c.waited,
        sqlite_where=text("waited = 1"),
        postgresql_where=text("waited"),
    )

refusals = Table(
    "refusals",
    metadata,
    Column("decision_id", Id, primary_key=True),
    Column("kind", String(16), primary_key=True),
    Column("event_id", Id, primary_key=True),
    Column("reason", String(64), primary_key=True),
    Column("link_id", Id, nullable=False),
    Column("detail", Text, nullable=False),
    Column("received_us", BigInteger, nullable=False),
)

_LINK_SUMS = (
    "click_views",
    "clicks",
    "revenue_views",
    "revenue_micros",
    "late_clicks",
    "late_revenue_micros",
)
_PAGE_SUMS = (
    "click_views",
    "clicks",
    "clicks_squared",
    "revenue_views",
    "revenue_micros",
    "revenue_squared",
)


def _link_counters(name: str) -> Table:
    return Table(
        name,
        metadata,
        Column("pool_id", Id, primary_key=True),
        Column("link_id", Id, primary_key=True),
        Column("page_group", String(16), primary_key=True),
        *(Column(sums, BigInteger, nullable=False) for sums in _LINK_SUMS),
    )


def _page_counters(name: str) -> Table:
    return Table(
        name,
        metadata,
        Column("pool_id", Id, primary_key=True),
        Column("page_group", String(16), primary_key=True),
        *(Column(sums, BigInteger, nullable=False) for sums in _PAGE_SUMS),
    )


def _visitor_counters(name: str) -> Table:
    return Table(
        name,
        metadata,
        Column("pool_id", Id, primary_key=True),
        Column("feature", Id, primary_key=True),
        Column("value", Text, primary_key=True),
        Column("page_group", String(16), primary_key=True),
        *(Column(sums, BigInteger, nullable=False) for sums in _PAGE_SUMS),
    )


link_counters = _link_counters("link_counters")
page_counters = _page_counters("page_counters")
purged_link_counters = _link_counters("purged_link_counters")
purged_page_counters = _page_counters("purged_page_counters")
visitor_counters = _visitor_counters("visitor_counters")
purged_visitor_counters = _visitor_counters("purged_visitor_counters")

fold_positions = Table(
    "fold_positions",
    metadata,
    Column("pool_id", Id, primary_key=True),
    Column("level", Integer, primary_key=True),
    Column("closes_us", BigInteger, nullable=False),
    Column("decision_id", Id, nullable=False),
)

learned = Table(
    "learned",
    metadata,
    Column("pool_id", Id, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("published", LargeBinary, nullable=False),
    Column("state", LargeBinary, nullable=False),
)

store_clock = Table(
    "store_clock",
    metadata,
    Column("only", Integer, primary_key=True, autoincrement=False),
    Column("closed_until_us", BigInteger, nullable=False),
    Column("latest_us", BigInteger, nullable=False),
    Column("n_resets", BigInteger, nullable=False),
    Column("learner_epoch", BigInteger, nullable=False, server_default="0"),
    Column("oldest_schema", Text, nullable=False, server_default=""),
    Column("moving_from", Text, nullable=False, server_default=""),
    CheckConstraint('"only" = 1', name="one_row"),
)
