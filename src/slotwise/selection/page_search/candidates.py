"""The block in which scores of a large pool are counted, before any of its links is looked at."""

from __future__ import annotations

from slotwise.selection.compiled import int64

__all__ = ["BLOCK"]

BLOCK = int64(64)
"""Links that are counted together, which runs in vectors."""
