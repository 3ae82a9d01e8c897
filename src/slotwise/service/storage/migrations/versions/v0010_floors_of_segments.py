"""Click floors of a pool for visitors with one value of a feature."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0010"
down_revision = "v0009"


def upgrade() -> None:
    """Add the setting, which a pool of before does not use."""
    op.add_column("pools", sa.Column("floors_by", sa.Text(), nullable=False, server_default="{}"))
