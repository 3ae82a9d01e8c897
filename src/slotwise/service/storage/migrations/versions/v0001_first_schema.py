"""The first schema: pools, decisions, feedback, counters and what was learned."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from slotwise.service.storage.schema import Id

revision = "v0001"
down_revision = None


def upgrade() -> None:
    """Create every table."""
    op.create_table(
        "adjustments",
        sa.Column("adjustment_id", Id, nullable=False),
        sa.Column("conversion_id", Id, nullable=False),
        sa.Column("refund_micros", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.String(length=3), nullable=False),
        sa.Column("received_us", sa.BigInteger(), nullable=False),
        sa.Column("client_time", sa.Text(), nullable=True),
        sa.Column("waited", sa.Boolean(), nullable=False),
        sa.CheckConstraint("refund_micros >= 0", name=op.f("ck_adjustments_not_negative")),
        sa.PrimaryKeyConstraint("adjustment_id", name=op.f("pk_adjustments")),
    )
    op.create_index("ix_adjustments_conversion", "adjustments", ["conversion_id"], unique=False)
    op.create_index(
        "ix_adjustments_waited",
        "adjustments",
        ["waited"],
        unique=False,
        sqlite_where=sa.text("waited = 1"),
        postgresql_where=sa.text("waited"),
    )
    op.create_table(
        "changes",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("changed_us", sa.BigInteger(), nullable=False),
        sa.Column("changed_by", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("before", sa.Text(), nullable=False),
        sa.Column("after", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_changes")),
    )
    op.create_index("ix_changes_subject", "changes", ["subject", "seq"], unique=False)
    op.create_table(
        "clicks",
        sa.Column("decision_id", Id, nullable=False),
        sa.Column("link_id", Id, nullable=False),
        sa.Column("invalid", Id, nullable=False),
        sa.Column("received_us", sa.BigInteger(), nullable=False),
        sa.Column("client_time", sa.Text(), nullable=True),
        sa.Column("waited", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("decision_id", "link_id", "invalid", name=op.f("pk_clicks")),
    )
    op.create_index(
        "ix_clicks_waited",
        "clicks",
        ["waited"],
        unique=False,
        sqlite_where=sa.text("waited = 1"),
        postgresql_where=sa.text("waited"),
    )
    op.create_table(
        "conversions",
        sa.Column("conversion_id", Id, nullable=False),
        sa.Column("decision_id", Id, nullable=False),
        sa.Column("link_id", Id, nullable=False),
        sa.Column("revenue_micros", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.String(length=3), nullable=False),
        sa.Column("received_us", sa.BigInteger(), nullable=False),
        sa.Column("client_time", sa.Text(), nullable=True),
        sa.Column("waited", sa.Boolean(), nullable=False),
        sa.CheckConstraint("revenue_micros >= 0", name=op.f("ck_conversions_not_negative")),
        sa.PrimaryKeyConstraint("conversion_id", name=op.f("pk_conversions")),
    )
    op.create_index("ix_conversions_decision", "conversions", ["decision_id"], unique=False)
    op.create_index(
        "ix_conversions_waited",
        "conversions",
        ["waited"],
        unique=False,
        sqlite_where=sa.text("waited = 1"),
        postgresql_where=sa.text("waited"),
    )
    op.create_table(
        "decisions",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("decision_id", Id, nullable=False),
        sa.Column("pool_id", Id, nullable=False),
        sa.Column("issued_us", sa.BigInteger(), nullable=False),
        sa.Column("click_closes_us", sa.BigInteger(), nullable=False),
        sa.Column("revenue_until_us", sa.BigInteger(), nullable=False),
        sa.Column("revenue_closes_us", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.String(length=3), nullable=False),
        sa.Column("max_revenue_micros", sa.BigInteger(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("policy_version", sa.BigInteger(), nullable=False),
        sa.Column("page", sa.Text(), nullable=False),
        sa.Column("holdout", sa.Boolean(), nullable=False),
        sa.Column("fallback", sa.Text(), nullable=False),
        sa.Column("asked", sa.Text(), nullable=False),
        sa.Column("stored_us", sa.BigInteger(), nullable=False),
        sa.Column("learned", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_decisions")),
    )
    op.create_index(
        "ix_decisions_click_closes",
        "decisions",
        ["pool_id", "click_closes_us", "decision_id"],
        unique=False,
    )
    op.create_index("ix_decisions_id", "decisions", ["decision_id"], unique=True)
    op.create_index(
        "ix_decisions_revenue_closes",
        "decisions",
        ["pool_id", "revenue_closes_us", "decision_id"],
        unique=False,
    )
    op.create_table(
        "fold_positions",
        sa.Column("pool_id", Id, nullable=False),
        sa.Column("level", sa.Integer(), nullable=False),
        sa.Column("closes_us", sa.BigInteger(), nullable=False),
        sa.Column("decision_id", Id, nullable=False),
        sa.PrimaryKeyConstraint("pool_id", "level", name=op.f("pk_fold_positions")),
    )
    op.create_table(
        "keys",
        sa.Column("key_id", Id, nullable=False),
        sa.Column("key_hash", sa.Text(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("revoked_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key_id", name=op.f("pk_keys")),
    )
    op.create_table(
        "learned",
        sa.Column("pool_id", Id, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("published", sa.LargeBinary(), nullable=False),
        sa.Column("state", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("pool_id", name=op.f("pk_learned")),
    )
    op.create_table(
        "link_counters",
        sa.Column("pool_id", Id, nullable=False),
        sa.Column("link_id", Id, nullable=False),
        sa.Column("page_group", sa.String(length=16), nullable=False),
        sa.Column("click_views", sa.BigInteger(), nullable=False),
        sa.Column("clicks", sa.BigInteger(), nullable=False),
        sa.Column("revenue_views", sa.BigInteger(), nullable=False),
        sa.Column("revenue_micros", sa.BigInteger(), nullable=False),
        sa.Column("late_clicks", sa.BigInteger(), nullable=False),
        sa.Column("late_revenue_micros", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("pool_id", "link_id", "page_group", name=op.f("pk_link_counters")),
    )
    op.create_table(
        "links",
        sa.Column("pool_id", Id, nullable=False),
        sa.Column("link_id", Id, nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("retired", sa.Boolean(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("counted_from_us", sa.BigInteger(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("changed_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("pool_id", "link_id", name=op.f("pk_links")),
    )
    op.create_index("ix_links_place", "links", ["pool_id", "place"], unique=True)
    op.create_table(
        "page_counters",
        sa.Column("pool_id", Id, nullable=False),
        sa.Column("page_group", sa.String(length=16), nullable=False),
        sa.Column("click_views", sa.BigInteger(), nullable=False),
        sa.Column("clicks", sa.BigInteger(), nullable=False),
        sa.Column("clicks_squared", sa.BigInteger(), nullable=False),
        sa.Column("revenue_views", sa.BigInteger(), nullable=False),
        sa.Column("revenue_micros", sa.BigInteger(), nullable=False),
        sa.Column("revenue_squared", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("pool_id", "page_group", name=op.f("pk_page_counters")),
    )
    op.create_table(
        "pools",
        sa.Column("pool_id", Id, nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("click_floor", sa.Float(), nullable=False),
        sa.Column("max_revenue_micros", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.String(length=3), nullable=False),
        sa.Column("click_window_s", sa.BigInteger(), nullable=False),
        sa.Column("revenue_window_s", sa.BigInteger(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("policy_settings", sa.Text(), nullable=False),
        sa.Column("holdout", sa.Float(), nullable=False),
        sa.Column("fallback_order", sa.Text(), nullable=False),
        sa.Column("allowed_hosts", sa.Text(), nullable=False),
        sa.Column("archived", sa.Boolean(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("changed_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("pool_id", name=op.f("pk_pools")),
    )
    op.create_table(
        "refusals",
        sa.Column("decision_id", Id, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("event_id", Id, nullable=False),
        sa.Column("reason", Id, nullable=False),
        sa.Column("link_id", Id, nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("received_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "decision_id", "kind", "event_id", "reason", name=op.f("pk_refusals")
        ),
    )
    op.create_table(
        "store_clock",
        sa.Column("only", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("closed_until_us", sa.BigInteger(), nullable=False),
        sa.Column("latest_us", sa.BigInteger(), nullable=False),
        sa.Column("n_resets", sa.BigInteger(), nullable=False),
        sa.CheckConstraint('"only" = 1', name=op.f("ck_store_clock_one_row")),
        sa.PrimaryKeyConstraint("only", name=op.f("pk_store_clock")),
    )
    op.execute("INSERT INTO store_clock VALUES (1, 0, 0, 0)")
