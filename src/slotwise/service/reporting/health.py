"""Whether the service can do its work, and how fresh the version of each pool is.

Used by `overview`, `pool_report`, `reporter`, `observability` and `service`.
"""

from __future__ import annotations

import msgspec

from slotwise.service.clock import MAX_STEP_US
from slotwise.service.pool_version import SegmentFloor
from slotwise.service.records import FloorStatus


class PoolHealth(msgspec.Struct, frozen=True, kw_only=True):
    """How fresh a pool's version is."""

    pool_id: str
    policy_version: int
    published_us: int
    floor_status: FloorStatus
    fallback: str
    """Why all pages of the pool are its own page, or empty."""
    n_failures: int
    """How often learning or publishing the pool failed since the service started."""
    failure: str
    """What failed at the last attempt, or empty."""
    learned_us: int
    """When learning last succeeded; 0 before the first time."""
    unreadable: str = ""
    """Why what the pool has learned cannot be read, or empty."""
    segment_floors: tuple[SegmentFloor, ...] = ()


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the service can do its work."""

    ready: bool
    """Versions are loaded and their policies compiled: `decide` answers with their pages."""
    store_available: bool
    """Feedback is taken."""
    is_learner: bool
    """Whether this process learns; one of several replicas does."""
    n_waiting: int
    """Writes that wait for their commit."""
    n_lost_decisions: int
    """Decisions dropped while the store was unavailable and the queue was full."""
    n_lost_clicks: int
    """Clicks on links dropped then; the views that may have had them are not learned."""
    closed_until_us: int
    clock_jump_us: int
    """How far the system's time of day jumped ahead of the service's clock; 0 when they agree."""
    store_ahead_us: int
    """How far the latest time in the store is in the future: feedback until then is late."""
    pools: tuple[PoolHealth, ...]

    @property
    def detail(self) -> str:
        """A sentence on pools whose state cannot be read, without their names; usually empty."""
        n_pools = sum(bool(pool.unreadable) for pool in self.pools)
        if not n_pools:
            return ""
        return (
            f"What {n_pools} of {len(self.pools)} pools have learned cannot be read: they show "
            "their last versions, and what is stored stays as it is. The dashboard and the log "
            "name them and say what to do."
        )

    @property
    def is_learning(self) -> bool:
        """Whether every pool is learned and the clocks agree."""
        return not (
            self.clock_jump_us
            or self.store_ahead_us > MAX_STEP_US
            or any(pool.failure for pool in self.pools)
        )
