"""The clicks of the pages that were shown under the present floors, by which floors are judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from slotwise.service.counting.counters import add_counters, count_settled
from slotwise.service.counting.views import CLICKS, Counters, PageCounters, View
from slotwise.service.published import Published
from slotwise.service.records import PoolSettings

__all__ = ["ALL_VISITORS", "NOTHING_DELIVERED", "Delivered", "DeliveredPages", "Segment"]

Segment = tuple[str, str]
"""A feature and one of its values."""

ALL_VISITORS: Segment = ("", "")


class Delivered(NamedTuple):
    """The clicks of the pages that were shown under one floor."""

    pages: PageCounters = PageCounters()
    since_us: int = 0


NOTHING_DELIVERED = Delivered()


class DeliveredPages:
    """What was delivered under the floor for all and under each floor of a segment."""

    def __init__(self, pool: PoolSettings) -> None:
        self._floors = _floors(pool)
        self._delivered = dict.fromkeys(self._floors, NOTHING_DELIVERED)

    @classmethod
    def stored(cls, published: Published, pool: PoolSettings) -> DeliveredPages:
        """Return what the last version of a pool knew."""
        found = cls(pool)
        found._floors = {ALL_VISITORS: (published.floor.clicks, pool.slots)}
        found._delivered = {
            ALL_VISITORS: Delivered(published.delivered, published.delivered_since_us)
        }
        for one in published.segment_floors:
            segment = (one.feature, one.value)
            found._floors[segment] = (one.floor.clicks, pool.slots)
            found._delivered[segment] = Delivered(one.delivered, one.since_us)
        return found

    def under(self, pool: PoolSettings) -> Mapping[Segment, Delivered]:
        """Return what was delivered under the floors of a pool; another floor starts over."""
        floors = _floors(pool)
        if floors != self._floors:
            anew = Delivered(since_us=pool.changed_us)
            self._delivered = {
                segment: self._delivered[segment] if self._floors.get(segment) == floor else anew
                for segment, floor in floors.items()
            }
            self._floors = floors
        return self._delivered

    def count(self, views: Sequence[View], counted: Counters, pool: PoolSettings) -> None:
        """Count the clicks of settled pages; `counted` are the clicks of all `views`."""
        counted_since: dict[int, Counters] = {}
        delivered = {}
        for segment, (pages, since_us) in self.under(pool).items():
            if since_us not in counted_since:
                shown = [view for view in views if view.decision.issued_us >= since_us]
                counted_since[since_us] = (
                    counted if len(shown) == len(views) else count_settled(shown, CLICKS, {})
                )
            since = counted_since[since_us]
            came = (
                since.pages.get("policy")
                if segment == ALL_VISITORS
                else since.visitors.get(("policy", *segment))
            )
            if came is not None:
                both = (Counters(pages={"policy": one}) for one in (pages, came))
                pages = add_counters(*both).pages["policy"]
            delivered[segment] = Delivered(pages, since_us)
        self._delivered = delivered


def _floors(pool: PoolSettings) -> dict[Segment, tuple[float, int]]:
    """Return the floor of each segment, with the number of slots: other slots start over, too."""
    of_segments = {
        (feature, value): (least, pool.slots)
        for feature, of_values in pool.floors_by.items()
        for value, least in of_values.items()
    }
    return {ALL_VISITORS: (pool.click_floor, pool.slots), **of_segments}
