"""The share of every page that random links get."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0006"
down_revision = "v0005"


def upgrade() -> None:
    """Add the share; a pool of before explores nothing."""
    op.add_column("pools", sa.Column("explore", sa.Float(), nullable=False, server_default="0"))
