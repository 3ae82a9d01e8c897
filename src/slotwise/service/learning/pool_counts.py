"""What is known of the links of a pool: its settled views, and what was imported."""

from __future__ import annotations

from slotwise.service.counting.rates import LinkCounts, count_known, link_counts
from slotwise.service.counting.views import Counters
from slotwise.service.pool import Pool

__all__ = ["pool_counts"]


def pool_counts(pool: Pool, counters: Counters) -> LinkCounts:
    """Return the counts of the links that may be shown, imported ones at their discount."""
    scale = pool.settings.max_revenue_micros
    counts = link_counts(counters, pool.active, scale)
    if not pool.known_us:
        return counts
    known = count_known(pool.known_counts(), pool.active, scale)
    return LinkCounts(counts.views + known.views, counts.sums + known.sums)
