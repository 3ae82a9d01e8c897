"""Count what the first stores left out, once, when such a store is migrated.

Up to `v0004` an amount above `max_revenue` was rejected; since then it is clipped. One that waited
for its decision was stored all the same. Migrating to `v0004` makes it a refusal, but did not do
so at first. In stores that were migrated before, its row counts and the counters lack it.
"""

from __future__ import annotations

from slotwise.service.counting.counters import subtract_counters
from slotwise.service.storage.sql.batch import SqlBatch
from slotwise.service.storage.sql.reads import SqlReader
from slotwise.service.storage.sql.session import SqlSession
from slotwise.service.storage.verify import recount

__all__ = ["count_clipped_amounts"]

_POOLS = """
    SELECT d.pool_id FROM conversions c JOIN decisions d ON d.decision_id = c.decision_id
    WHERE c.waited AND c.revenue_micros > d.max_revenue_micros
    UNION
    SELECT d.pool_id FROM adjustments a JOIN conversions c ON c.conversion_id = a.conversion_id
    JOIN decisions d ON d.decision_id = c.decision_id
    WHERE a.waited AND a.refund_micros > d.max_revenue_micros
"""


def count_clipped_amounts(session: SqlSession) -> None:
    """Bring the counters of the pools that have such rows up to what all their rows say."""
    reader, batch = SqlReader(session), SqlBatch(session)
    for (pool_id,) in session.fetch(_POOLS):
        missing = subtract_counters(recount(reader, pool_id), reader.counters(pool_id))
        batch.add_counters(pool_id, missing)
