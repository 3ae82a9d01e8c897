"""Selector, the object a program embeds, and what it reports.

A `Selector` is a player with open pages (`open_pages`), a lock, a report and a file format
(`selector_file`). Programs and commands use it. It may import `player` and what is below, so it
needs no optional package.
"""

from slotwise.player.known_counts import KnownCounts, read_known_counts
from slotwise.selector.accounting import AnytimeRate, DeliveredReport, Rate, RevenueClipped
from slotwise.selector.floor_advice import PriceOfFloor
from slotwise.selector.report import (
    FloorReport,
    LevelReport,
    LinkReport,
    PageReport,
    Report,
    VisitorReport,
)
from slotwise.selector.selector import Selector, start_from_counts

__all__ = [
    "AnytimeRate",
    "DeliveredReport",
    "FloorReport",
    "KnownCounts",
    "LevelReport",
    "LinkReport",
    "PageReport",
    "PriceOfFloor",
    "Rate",
    "Report",
    "RevenueClipped",
    "Selector",
    "VisitorReport",
    "read_known_counts",
    "start_from_counts",
]
