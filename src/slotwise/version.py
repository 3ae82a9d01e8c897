"""The version of slotwise: the one place where it is written."""

from __future__ import annotations

__version__ = "0.1.0"
"""The version of slotwise, by the rules of semantic versioning."""
