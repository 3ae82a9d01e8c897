"""Tables of ended sessions, which were entries of the list of changes, and of delivered clicks."""

from __future__ import annotations

from typing import Any

import msgspec
import sqlalchemy as sa
from alembic import op

revision = "v0012"
down_revision = "v0011"

LONGEST_SESSION_US = 30 * 86_400 * 1_000_000


Id = sa.String(64).with_variant(sa.String(64, collation="C"), "postgresql")


def upgrade() -> None:
    """Create the tables; sessions ended before are kept for as long as a session can last."""
    _create_floor_counters()
    op.create_table(
        "ended_sessions",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("session_id", Id, nullable=False),
        sa.Column("ends_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_ended_sessions")),
    )
    op.create_index("ix_ended_sessions_id", "ended_sessions", ["session_id"], unique=True)
    op.create_index("ix_ended_sessions_ends", "ended_sessions", ["ends_us"])
    ended = {}
    found = "SELECT changed_us, after FROM changes WHERE subject = 'signed out' ORDER BY seq"
    for changed_us, after in op.get_bind().execute(sa.text(found)):
        ended[msgspec.json.decode(after)["session_id"]] = changed_us + LONGEST_SESSION_US
    insert = sa.text("INSERT INTO ended_sessions (session_id, ends_us) VALUES (:id, :ends_us)")
    for session_id, ends_us in ended.items():
        op.get_bind().execute(insert, {"id": session_id, "ends_us": ends_us})


def _create_floor_counters() -> None:
    """Create the counters of floors; the learner fills them from the rows."""
    keys: dict[str, Any] = {
        "pool_id": Id,
        "feature": Id,
        "value": sa.Text(),
        "click_floor": sa.Float(),
        "slots": sa.Integer(),
        "since_us": sa.BigInteger(),
    }
    of_clicks = ("click_views", "clicks", "clicks_squared")
    sums = (*of_clicks, "revenue_views", "revenue_micros", "revenue_squared")
    for table in ("floor_counters", "purged_floor_counters"):
        op.create_table(
            table,
            *(sa.Column(name, kind, nullable=False) for name, kind in keys.items()),
            *(sa.Column(name, sa.BigInteger(), nullable=False) for name in sums),
            sa.PrimaryKeyConstraint(*keys, name=op.f(f"pk_{table}")),
        )
