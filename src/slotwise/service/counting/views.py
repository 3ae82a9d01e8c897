"""A page view with the events received for it, and the counters that sum up views."""

from __future__ import annotations

from typing import Literal

import msgspec

from slotwise.service.records import (
    AdjustmentEvent,
    ClickEvent,
    ConversionEvent,
    DecisionRecord,
)

__all__ = [
    "CLICKS",
    "LEVELS",
    "REVENUE",
    "Counters",
    "Group",
    "Level",
    "LinkCounters",
    "PageCounters",
    "StoredAdjustment",
    "StoredClick",
    "StoredConversion",
    "View",
]

Level = Literal[0, 1]
CLICKS: Level = 0
REVENUE: Level = 1
LEVELS: tuple[Level, ...] = (CLICKS, REVENUE)

Group = Literal["policy", "holdout"]


class StoredClick(msgspec.Struct, frozen=True, gc=False):
    """A click with the time by which it is judged."""

    event: ClickEvent
    received_us: int


class StoredConversion(msgspec.Struct, frozen=True, gc=False):
    """A conversion with the time by which it is judged."""

    event: ConversionEvent
    received_us: int


class StoredAdjustment(msgspec.Struct, frozen=True, gc=False):
    """An adjustment with the time by which it is judged."""

    event: AdjustmentEvent
    received_us: int


class View(msgspec.Struct, frozen=True, gc=False):
    """A decision with everything received for it: all that attribution needs."""

    decision: DecisionRecord
    clicks: tuple[StoredClick, ...] = ()
    conversions: tuple[StoredConversion, ...] = ()
    adjustments: tuple[StoredAdjustment, ...] = ()


class LinkCounters(msgspec.Struct, frozen=True):
    """Sums over the views of one link in one group; integers, so exact and order-free."""

    click_views: int = 0
    clicks: int = 0
    revenue_views: int = 0
    revenue_micros: int = 0
    late_clicks: int = 0
    late_revenue_micros: int = 0
    """Late conversions less late refunds."""


class PageCounters(msgspec.Struct, frozen=True):
    """Sums over the pages of one group, with the squares that an interval needs."""

    click_views: int = 0
    clicks: int = 0
    clicks_squared: int = 0
    revenue_views: int = 0
    revenue_micros: int = 0
    revenue_squared: int = 0
    """Sum over pages of the squared revenue in 1/10,000 of the page's `max_revenue_micros`."""


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """Every counter of a pool, or an increment to them."""

    links: dict[tuple[Group, str], LinkCounters] = msgspec.field(default_factory=dict)
    pages: dict[Group, PageCounters] = msgspec.field(default_factory=dict)
    visitors: dict[tuple[Group, str, str], PageCounters] = msgspec.field(default_factory=dict)
    """Pages of visitors by group, feature and value, as the segment of the decision has them."""
