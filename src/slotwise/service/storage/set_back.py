"""Set the times of a store back, after a clock that was ahead once."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from slotwise.service.storage.sqlite.store import SqliteStore
from slotwise.service.storage.sqlite.writer_lock import WriterLock

__all__ = ["set_times_back"]

_TIMES = {
    "decisions": (
        "issued_us",
        "click_closes_us",
        "revenue_until_us",
        "revenue_closes_us",
        "stored_us",
    ),
    "clicks": ("received_us",),
    "conversions": ("received_us",),
    "adjustments": ("received_us",),
    "refusals": ("received_us",),
    "fold_positions": ("closes_us",),
    "store_clock": ("closed_until_us", "latest_us"),
    "links": ("counted_from_us",),
}
"""Every time that views are counted by; 0 stands for none."""


def set_times_back(path: Path, now_us: int) -> int:
    """Set all times of a store back by as much as its latest one lies in the future.

    Returns by how much, 0 when nothing lies in the future. Since all times move together, what
    was in its window stays there, and every counter still equals its rows. Policies that learn
    view by view learn again from the rows.
    """
    SqliteStore(path).close()  # a store of an earlier format is migrated
    lock = WriterLock(path)
    try:
        with closing(sqlite3.connect(path)) as connection, connection:
            clock: tuple[int, int]
            [clock] = connection.execute("SELECT closed_until_us, latest_us FROM store_clock")
            by_us = max(0, *(time_us - now_us for time_us in clock))
            if by_us:
                for table, columns in _TIMES.items():
                    for column in columns:
                        connection.execute(
                            f"UPDATE {table} SET {column} = max({column} - ?, 0) "
                            f"WHERE {column} > 0",
                            (by_us,),
                        )
                connection.execute("UPDATE learned SET state = x''")
            return by_us
    finally:
        lock.release()
