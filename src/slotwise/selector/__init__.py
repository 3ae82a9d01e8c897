"""Selector, the object a program embeds, and what it reports."""

from slotwise.selector.delivered import DeliveredReport
from slotwise.selector.for_whom import VisitorReport
from slotwise.selector.known_counts import KnownCounts, read_known_counts, start_from_counts
from slotwise.selector.money import RevenueClipped
from slotwise.selector.price_of_floor import PriceOfFloor
from slotwise.selector.rate import Rate
from slotwise.selector.report import FloorReport, LevelReport, LinkReport, PageReport, Report
from slotwise.selector.selector import Selector

__all__ = [
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
