"""Who learns, which releases may use the store, and whether it is still being moved here."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0007"
down_revision = "v0006"


def upgrade() -> None:
    """Add the columns; nobody has led yet."""
    for column in (
        sa.Column("learner_epoch", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("oldest_schema", sa.Text(), nullable=False, server_default=""),
        sa.Column("moving_from", sa.Text(), nullable=False, server_default=""),
    ):
        op.add_column("store_clock", column)
