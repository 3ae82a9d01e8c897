"""The advisory locks of a store: numbers that all replicas agree on, for each database apart."""

from __future__ import annotations

__all__ = ["LEARNING", "MIGRATING", "STARTING", "WRITING", "lock_sql", "try_session_lock_sql"]

_SPACE = 0x510715E
WRITING, LEARNING, MIGRATING, STARTING = 1, 2, 3, 4


def lock_sql(lock: int, shared: bool = False) -> str:
    """Return the call that waits for a lock and holds it to the end of the transaction."""
    return f"pg_advisory_xact_lock{'_shared' if shared else ''}({_SPACE}, {lock})"


def try_session_lock_sql(lock: int) -> str:
    """Return the call that takes a lock for the session, or says that another one has it."""
    return f"pg_try_advisory_lock({_SPACE}, {lock})"
