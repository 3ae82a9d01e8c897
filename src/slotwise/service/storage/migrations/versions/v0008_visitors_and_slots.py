"""Features and slot weights of a pool, and counters of pages by feature value."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0008"
down_revision = "v0007"

SUMS = (
    *("click_views", "clicks", "clicks_squared"),
    *("revenue_views", "revenue_micros", "revenue_squared"),
)


def upgrade() -> None:
    """Add the settings, which a pool of before does not use, and two empty tables."""
    for name, default in (("features", "{}"), ("slot_weights", "[]")):
        op.add_column("pools", sa.Column(name, sa.Text(), nullable=False, server_default=default))
    op.add_column(
        "pools",
        sa.Column("learn_slot_weights", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
    for name in ("visitor_counters", "purged_visitor_counters"):
        op.create_table(
            name,
            sa.Column("pool_id", sa.String(length=64), nullable=False),
            sa.Column("feature", sa.String(length=64), nullable=False),
            sa.Column("value", sa.Text(), nullable=False),
            sa.Column("page_group", sa.String(length=16), nullable=False),
            *(sa.Column(one, sa.BigInteger(), nullable=False) for one in SUMS),
            sa.PrimaryKeyConstraint(
                "pool_id", "feature", "value", "page_group", name=op.f(f"pk_{name}")
            ),
        )
