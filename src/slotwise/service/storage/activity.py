"""Sums over the pages of a pool since a time, by span of time, for the dashboard's charts.

A click or sale belongs to the span in which its page was shown, so that a click rate divides clicks
by the pages they were made on. Unlike the counters, these sums include feedback in open windows, so
the newest spans still grow. Used by `alert_conditions`, `reporting` and `sql_reads`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from slotwise.service.counting.attribution import Group

MICROS = 1_000_000
MAX_DELAYS = 2_000
"""How many of the latest clicks and sales are read to measure the delay of feedback."""
MAX_PAGES = 5_000
"""How many pages are read to count their links; beyond this, every n-th page is read."""


class Span(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """The pages of one group that were shown in one span of time."""

    start_us: int
    group: Group
    views: int
    clicks: int = 0
    clicks_squared: int = 0
    """Sum over pages of their squared number of clicks."""
    sales: int = 0
    cut_sales: int = 0
    """Sales above the `max_revenue_micros` of their page, which count as that."""
    revenue_micros: int = 0
    """Sales in the currency of their page, each less its refunds and cut at the most that counts,
    as in all other figures."""


class LinkSpan(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One link on the pages shown in one span of time."""

    link_id: str
    start_us: int
    views: int = 0
    """Exact up to `MAX_PAGES` pages in total, otherwise estimated from an even sample of them."""
    clicks: int = 0


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """All spans of a pool since a time, by start; spans without a page are left out."""

    spans: tuple[Span, ...]
    link_spans: tuple[LinkSpan, ...]
    pending_views: dict[str, int]
    """By link: views whose click window is open; estimated like the views of a span."""
    click_delays_us: tuple[int, ...]
    """Delays from page to click of the latest clicks, late ones included; increasing."""
    sale_delays_us: tuple[int, ...]
    late_clicks: int
    late_sales: int
    invalid_clicks: int
    refused: int
    """Events for one of the pages that break a rule; repeated events count once."""


def spans_of(found: Mapping[tuple[int, int], Mapping[str, int]], span_us: int) -> tuple[Span, ...]:
    """Return spans from sums by span number and number of the group."""
    groups: tuple[Group, ...] = ("policy", "holdout", "own")
    return tuple(
        sorted(
            Span(start_us=span * span_us, group=groups[group], **sums)
            for (span, group), sums in found.items()
        )
    )


def link_spans_of(
    found: Mapping[tuple[str, int], Mapping[str, int]], span_us: int
) -> tuple[LinkSpan, ...]:
    """Return spans from sums by link and span number."""
    return tuple(
        sorted(
            LinkSpan(link_id=link_id, start_us=span * span_us, **sums)
            for (link_id, span), sums in found.items()
        )
    )
