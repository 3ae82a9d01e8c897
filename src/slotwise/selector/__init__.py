"""Selector, the object a program embeds, and what it reports."""

from slotwise.selector.report import LinkReport, PageReport, Rate, Report
from slotwise.selector.selector import Selector

__all__ = ["LinkReport", "PageReport", "Rate", "Report", "Selector"]
