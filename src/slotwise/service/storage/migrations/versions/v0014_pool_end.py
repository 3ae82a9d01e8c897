"""The end of a pool, for a policy that plans for it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0014"
down_revision = "v0013"


def upgrade() -> None:
    """Add the column; its default lets replicas of the release before write rows, too."""
    op.add_column(
        "pools", sa.Column("until_us", sa.BigInteger(), nullable=False, server_default="0")
    )
