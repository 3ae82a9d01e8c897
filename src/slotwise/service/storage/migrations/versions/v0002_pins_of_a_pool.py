"""Links that a pool pins to a position of every page."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0002"
down_revision = "v0001"


def upgrade() -> None:
    """Add the pins; a pool of before has none."""
    op.add_column("pools", sa.Column("pins", sa.Text(), nullable=False, server_default="[]"))
