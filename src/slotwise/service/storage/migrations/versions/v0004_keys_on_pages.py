"""Keys that stand on pages, which views were made with them, and free metadata of links."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0004"
down_revision = "v0003"


def upgrade() -> None:
    """Add the columns; earlier keys are bound to no pool, earlier views name no key."""
    for table, column, default in (
        ("keys", "pool_id", ""),
        ("decisions", "key_id", ""),
        ("links", "metadata", "{}"),
    ):
        op.add_column(table, sa.Column(column, sa.Text(), nullable=False, server_default=default))
