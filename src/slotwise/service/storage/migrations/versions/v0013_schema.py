"""The tables of the first release: where the migrations of older stores begin.

`migrations.upgrade` creates the tables of a new store as they are now, so nothing is left to do
here.
"""

from __future__ import annotations

revision = "v0013"
down_revision = None


def upgrade() -> None:
    """Do nothing: no store is migrated to this version."""
