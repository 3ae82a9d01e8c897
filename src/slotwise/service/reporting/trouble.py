"""What keeps a pool from learning, in one sentence."""

from __future__ import annotations

from slotwise.service.clock import MAX_STEP_US
from slotwise.service.reporting.reports import Health

__all__ = ["describe_trouble"]


def describe_trouble(health: Health, pool_id: str) -> str:
    """Say in one sentence what keeps a pool from learning; empty when nothing does."""
    if not health.store_available:
        return (
            "The store does not answer: pages are still filled, but clicks and sales are refused "
            "until it is back."
        )
    failed = next((pool.failure for pool in health.pools if pool.pool_id == pool_id), "")
    if failed:
        return f"The pool cannot be learned, so it shows its fallback order ({failed})."
    if health.clock_jump_us:
        return (
            f"The time of day of this machine jumped by {health.clock_jump_us / 1e6:,.0f} s: the "
            "service counts on by its own clock. Set the time right, or start the service again."
        )
    if health.store_ahead_us > MAX_STEP_US:
        return (
            f"The store has times {health.store_ahead_us / 1e6:,.0f} s in the future: until then "
            "all feedback is late. `slotwise set-back` repairs the store."
        )
    return ""
