"""The format in which the page of a decision is written."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0003"
down_revision = "v0002"


def upgrade() -> None:
    """Add the number; earlier rows have format 1, with links as arrays or as objects."""
    op.add_column(
        "decisions", sa.Column("format", sa.Integer(), nullable=False, server_default="1")
    )
