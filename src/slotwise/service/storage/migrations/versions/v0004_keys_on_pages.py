"""Keys that stand on pages, which views were made with them, and free metadata of links.

Earlier stores rejected an amount above `max_revenue`; since then it is clipped. An amount that
waited for its decision was kept all the same, and never counted. It becomes a refusal, so that
the rows of such a store go on saying what its counters say.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0004"
down_revision = "v0003"

_REJECTED = {
    "adjustment": """
        SELECT d.decision_id, a.adjustment_id, c.link_id, a.received_us, d.max_revenue_micros
        FROM adjustments a JOIN conversions c ON c.conversion_id = a.conversion_id
        JOIN decisions d ON d.decision_id = c.decision_id
        WHERE a.waited AND a.refund_micros > d.max_revenue_micros""",
    "conversion": """
        SELECT d.decision_id, c.conversion_id, c.link_id, c.received_us, d.max_revenue_micros
        FROM conversions c JOIN decisions d ON d.decision_id = c.decision_id
        WHERE c.waited AND c.revenue_micros > d.max_revenue_micros""",
}
_REFUSE = """
    INSERT INTO refusals (decision_id, kind, event_id, reason, link_id, detail, received_us)
    VALUES (:decision_id, :kind, :event_id, 'amount-too-large', :link_id, :detail, :received_us)
    ON CONFLICT DO NOTHING"""


def upgrade() -> None:
    """Add the columns; earlier keys are bound to no pool, earlier views name no key."""
    for table, column, default in (
        ("keys", "pool_id", ""),
        ("decisions", "key_id", ""),
        ("links", "metadata", "{}"),
    ):
        op.add_column(table, sa.Column(column, sa.Text(), nullable=False, server_default=default))
    for kind in _REJECTED:
        _refuse_what_waited(kind)


def _refuse_what_waited(kind: str) -> None:
    connection = op.get_bind()
    for decision_id, event_id, link_id, received_us, most in connection.execute(
        sa.text(_REJECTED[kind])
    ).fetchall():
        refusal = {
            "decision_id": decision_id,
            "kind": kind,
            "event_id": event_id,
            "link_id": link_id,
            "detail": f"the amount must be at most the pool's max_revenue ({most})",
            "received_us": received_us,
        }
        connection.execute(sa.text(_REFUSE), refusal)
        delete = f"DELETE FROM {kind}s WHERE {kind}_id = :event_id"
        connection.execute(sa.text(delete), {"event_id": event_id})
