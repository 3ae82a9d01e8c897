"""Clicks that settled pages have delivered to the floors of a pool.

Used by `pool_run` and `publisher`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from slotwise.service.counting.attribution import Counters, FloorKey, PageCounters
from slotwise.service.counting.counters import add_counters
from slotwise.service.pool_version import StoredVersion
from slotwise.service.records import PoolSettings

Segment = tuple[str, str]
"""A feature and one of its values."""

ALL_VISITORS: Segment = ("", "")


class Delivered(NamedTuple):
    """The clicks of the pages shown under one floor."""

    pages: PageCounters = PageCounters()
    since_us: int = 0


NOTHING_DELIVERED: Mapping[Segment, Delivered] = {ALL_VISITORS: Delivered()}


class DeliveredPages:
    """What was delivered under the floor for all visitors and under each floor of a segment.

    `last` is the last version: it knows since when a floor holds that has no stored counters yet.
    """

    def __init__(
        self,
        pool: PoolSettings,
        stored: Mapping[FloorKey, PageCounters],
        last: StoredVersion | None = None,
    ) -> None:
        known = {segment: (*floor, 0) for segment, floor in _floors(pool).items()}
        if last is not None:
            known[ALL_VISITORS] = (last.floor.clicks, pool.slots, last.delivered_since_us)
            for one in last.segment_floors:
                known[one.feature, one.value] = (one.floor.clicks, pool.slots, one.since_us)
        self._floors: dict[Segment, FloorKey] = {one: (*one, *known[one]) for one in known}
        self._floors |= {key[:2]: key for key in stored}
        self._stored = dict(stored)

    def floors(self, pool: PoolSettings) -> tuple[list[FloorKey], list[FloorKey]]:
        """Return the floors of a pool, and those of them without stored counters."""
        self.under(pool)
        floors = list(self._floors.values())
        return floors, [key for key in floors if key not in self._stored]

    def under(self, pool: PoolSettings) -> Mapping[Segment, Delivered]:
        """Return what was delivered under the floors of a pool; a changed floor starts at 0."""
        self._floors = {
            segment: known
            if (known := self._floors.get(segment)) and known[2:4] == floor
            else (*segment, *floor, pool.changed_us)
            for segment, floor in _floors(pool).items()
        }
        return {
            segment: Delivered(self._stored.get(key, PageCounters()), key[-1])
            for segment, key in self._floors.items()
        }

    def add(self, increment: Counters) -> None:
        """Add committed counts; counts of other floors are dropped, as in the store."""
        stored = Counters(
            delivered={key: self._stored.get(key, PageCounters()) for key in increment.delivered}
        )
        self._stored = add_counters(stored, increment).delivered


def _floors(pool: PoolSettings) -> dict[Segment, tuple[float, int]]:
    """Return the floor of each segment with the number of slots; a change of either starts over."""
    of_segments = {
        (feature, value): (least, pool.slots)
        for feature, of_values in pool.segment_floors.items()
        for value, least in of_values.items()
    }
    return {ALL_VISITORS: (pool.click_floor, pool.slots), **of_segments}
