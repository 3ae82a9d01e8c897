"""How the service runs, whatever its pools."""

from __future__ import annotations

import msgspec

from slotwise.service.limits import MAX_POOL_LINKS, MAX_POOLS

__all__ = ["ServiceOptions"]


class ServiceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the service runs, whatever its pools."""

    fold_every_s: float = 1.0
    """How often closed windows are folded and probabilities published."""
    commit_every_ms: float = 2.0
    """How long writes wait so that they share one commit."""
    max_waiting: int = 100_000
    """Writes in the queue; beyond it feedback is refused and the oldest decisions are dropped."""
    max_links: int = MAX_POOL_LINKS
    """Links of one pool, retired ones included."""
    max_pools: int = MAX_POOLS
    retention_days: int = 0
    """How long raw rows are kept after their windows closed; 0 keeps them all."""
    seed: int | None = None
    """Fixes every page; for tests."""
    commit_by_hand: bool = False
    """Commit only when `commit_waiting` is called; for tests."""
    compile_beside: bool = False
    """Answer with the fallback order while a policy is compiled, instead of waiting for it."""
