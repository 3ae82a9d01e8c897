"""The version of slotwise: the one place where it is written.

Used by `cli`, `selector`, `service` and `simulation`.
"""

from __future__ import annotations

__version__ = "0.1.0"
"""The version of slotwise, by the rules of semantic versioning."""
