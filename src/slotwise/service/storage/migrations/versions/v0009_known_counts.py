"""Counts of the past that were imported for a link."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0009"
down_revision = "v0008"


def upgrade() -> None:
    """Add the columns; of links of before nothing was imported."""
    op.add_column("links", sa.Column("known", sa.Text(), nullable=False, server_default="[]"))
    op.add_column(
        "links", sa.Column("known_us", sa.BigInteger(), nullable=False, server_default="0")
    )
