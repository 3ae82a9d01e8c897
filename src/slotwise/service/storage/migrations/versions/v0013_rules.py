"""Rules of pools, and groups and dates of links."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0013"
down_revision = "v0012"


def upgrade() -> None:
    """Add the columns; their defaults let replicas of the release before write rows, too."""
    for table, name, kind, default in (
        ("pools", "rules", sa.Text(), "[]"),
        ("links", "link_group", sa.Text(), ""),
        ("links", "starts_us", sa.BigInteger(), "0"),
        ("links", "ends_us", sa.BigInteger(), "0"),
    ):
        op.add_column(table, sa.Column(name, kind, nullable=False, server_default=default))
