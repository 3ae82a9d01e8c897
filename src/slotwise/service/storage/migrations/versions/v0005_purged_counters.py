"""What purged views had added to the counters."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from slotwise.service.storage.schema import Id

revision = "v0005"
down_revision = "v0004"


def _sums(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger(), nullable=False) for name in names]


def upgrade() -> None:
    """Create the two tables, empty."""
    op.create_table(
        "purged_link_counters",
        sa.Column("pool_id", Id, nullable=False),
        sa.Column("link_id", Id, nullable=False),
        sa.Column("page_group", sa.String(length=16), nullable=False),
        *_sums("click_views", "clicks", "revenue_views", "revenue_micros"),
        *_sums("late_clicks", "late_revenue_micros"),
        sa.PrimaryKeyConstraint(
            "pool_id", "link_id", "page_group", name=op.f("pk_purged_link_counters")
        ),
    )
    op.create_table(
        "purged_page_counters",
        sa.Column("pool_id", Id, nullable=False),
        sa.Column("page_group", sa.String(length=16), nullable=False),
        *_sums("click_views", "clicks", "clicks_squared"),
        *_sums("revenue_views", "revenue_micros", "revenue_squared"),
        sa.PrimaryKeyConstraint("pool_id", "page_group", name=op.f("pk_purged_page_counters")),
    )
