"""Every table of the first release.

Development versions before it had `v0001` to `v0010`; `migrations.upgrade` takes over `v0010`. This
file describes the tables itself, so that a later change of the schema leaves it as it is.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "v0011"
down_revision = None

Id = sa.String(64).with_variant(sa.String(64, collation="C"), "postgresql")
Sequence = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

_PAGE_SUMS = (
    *("click_views", "clicks", "clicks_squared"),
    *("revenue_views", "revenue_micros", "revenue_squared"),
)
_LINK_SUMS = (
    *("click_views", "clicks", "revenue_views", "revenue_micros"),
    *("late_clicks", "late_revenue_micros"),
)


def _column(name: str, kind: Any, default: Any = None) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False, server_default=default)


def _ids(*names: str) -> list[sa.Column[Any]]:
    return [_column(name, Id) for name in names]


def _numbers(*names: str) -> list[sa.Column[Any]]:
    return [_column(name, sa.BigInteger()) for name in names]


def _texts(*names: str) -> list[sa.Column[Any]]:
    return [_column(name, sa.Text()) for name in names]


def _create(table: str, key: tuple[str, ...], *columns: sa.Column[Any], check: str = "") -> None:
    primary = sa.PrimaryKeyConstraint(*key, name=op.f(f"pk_{table}"))
    checks = []
    if check:
        name, _, rule = check.partition(": ")
        checks.append(sa.CheckConstraint(rule, name=op.f(f"ck_{table}_{name}")))
    op.create_table(table, *columns, *checks, primary)


def upgrade() -> None:
    """Create every table."""
    _create_settings()
    _create_rows()
    _create_counters()
    _create(
        "learned",
        ("pool_id",),
        *_ids("pool_id"),
        *_numbers("version"),
        _column("published", sa.LargeBinary()),
        _column("state", sa.LargeBinary()),
    )
    _create(
        "store_clock",
        ("only",),
        sa.Column("only", sa.Integer(), autoincrement=False, nullable=False),
        *_numbers("closed_until_us", "latest_us", "n_resets"),
        _column("learner_epoch", sa.BigInteger(), "0"),
        _column("oldest_schema", sa.Text(), ""),
        _column("moving_from", sa.Text(), ""),
        check='one_row: "only" = 1',
    )
    op.execute("INSERT INTO store_clock VALUES (1, 0, 0, 0, 0, '', '')")


def _create_settings() -> None:
    _create(
        "pools",
        ("pool_id",),
        *_ids("pool_id"),
        _column("slots", sa.Integer()),
        _column("click_floor", sa.Float()),
        *_numbers("max_revenue_micros"),
        _column("currency", sa.String(3)),
        *_numbers("click_window_s", "revenue_window_s"),
        *_texts("policy", "policy_settings"),
        _column("holdout", sa.Float()),
        *_texts("fallback_order", "allowed_hosts"),
        _column("archived", sa.Boolean()),
        *_numbers("created_us", "changed_us"),
        _column("pins", sa.Text(), "[]"),
        _column("explore", sa.Float(), "0"),
        _column("features", sa.Text(), "{}"),
        _column("slot_weights", sa.Text(), "[]"),
        _column("learn_slot_weights", sa.Boolean(), sa.false()),
        _column("floors_by", sa.Text(), "{}"),
    )
    _create(
        "links",
        ("pool_id", "link_id"),
        *_ids("pool_id", "link_id"),
        *_texts("url", "title"),
        _column("retired", sa.Boolean()),
        _column("place", sa.Integer()),
        *_numbers("counted_from_us", "created_us", "changed_us"),
        _column("metadata", sa.Text(), "{}"),
        _column("known", sa.Text(), "[]"),
        _column("known_us", sa.BigInteger(), "0"),
    )
    op.create_index("ix_links_place", "links", ["pool_id", "place"], unique=True)
    _create(
        "keys",
        ("key_id",),
        *_ids("key_id"),
        *_texts("key_hash", "scopes", "label"),
        *_numbers("created_us", "revoked_us"),
        _column("pool_id", sa.Text(), ""),
    )
    _create(
        "changes",
        ("seq",),
        _column("seq", Sequence),
        *_numbers("changed_us"),
        *_texts("changed_by", "action", "subject", "before", "after"),
    )
    op.create_index("ix_changes_subject", "changes", ["subject", "seq"])


def _create_rows() -> None:
    _create(
        "decisions",
        ("seq",),
        _column("seq", Sequence),
        *_ids("decision_id", "pool_id"),
        *_numbers("issued_us", "click_closes_us", "revenue_until_us", "revenue_closes_us"),
        _column("currency", sa.String(3)),
        *_numbers("max_revenue_micros"),
        *_texts("policy"),
        *_numbers("policy_version"),
        *_texts("page"),
        _column("holdout", sa.Boolean()),
        *_texts("fallback", "asked"),
        *_numbers("stored_us"),
        _column("learned", sa.Boolean()),
        _column("key_id", sa.Text(), ""),
        _column("format", sa.Integer(), "1"),
    )
    op.create_index("ix_decisions_id", "decisions", ["decision_id"], unique=True)
    for window in ("click_closes", "revenue_closes"):
        columns = ["pool_id", f"{window}_us", "decision_id"]
        op.create_index(f"ix_decisions_{window}", "decisions", columns)
    _create(
        "clicks",
        ("decision_id", "link_id", "invalid"),
        *_ids("decision_id", "link_id", "invalid"),
        *_of_event(),
    )
    _create(
        "conversions",
        ("conversion_id",),
        *_ids("conversion_id", "decision_id", "link_id"),
        *_numbers("revenue_micros"),
        _column("currency", sa.String(3)),
        *_of_event(),
        check="not_negative: revenue_micros >= 0",
    )
    op.create_index("ix_conversions_decision", "conversions", ["decision_id"])
    _create(
        "adjustments",
        ("adjustment_id",),
        *_ids("adjustment_id", "conversion_id"),
        *_numbers("refund_micros"),
        _column("currency", sa.String(3)),
        *_of_event(),
        check="not_negative: refund_micros >= 0",
    )
    op.create_index("ix_adjustments_conversion", "adjustments", ["conversion_id"])
    for table in ("clicks", "conversions", "adjustments"):
        op.create_index(
            f"ix_{table}_waited",
            table,
            ["waited"],
            sqlite_where=sa.text("waited = 1"),
            postgresql_where=sa.text("waited"),
        )
    _create(
        "refusals",
        ("decision_id", "kind", "event_id", "reason"),
        *_ids("decision_id"),
        _column("kind", sa.String(16)),
        *_ids("event_id"),
        _column("reason", sa.String(64)),
        *_ids("link_id"),
        *_texts("detail"),
        *_numbers("received_us"),
    )


def _of_event() -> list[sa.Column[Any]]:
    return [
        sa.Column("client_time", sa.Text(), nullable=True),
        *_numbers("received_us"),
        _column("waited", sa.Boolean()),
    ]


def _create_counters() -> None:
    for prefix in ("", "purged_"):
        _create(
            f"{prefix}link_counters",
            ("pool_id", "link_id", "page_group"),
            *_ids("pool_id", "link_id"),
            _column("page_group", sa.String(16)),
            *_numbers(*_LINK_SUMS),
        )
        _create(
            f"{prefix}page_counters",
            ("pool_id", "page_group"),
            *_ids("pool_id"),
            _column("page_group", sa.String(16)),
            *_numbers(*_PAGE_SUMS),
        )
        _create(
            f"{prefix}visitor_counters",
            ("pool_id", "feature", "value", "page_group"),
            *_ids("pool_id", "feature"),
            *_texts("value"),
            _column("page_group", sa.String(16)),
            *_numbers(*_PAGE_SUMS),
        )
    _create(
        "fold_positions",
        ("pool_id", "level"),
        *_ids("pool_id"),
        _column("level", sa.Integer()),
        *_numbers("closes_us"),
        *_ids("decision_id"),
    )
