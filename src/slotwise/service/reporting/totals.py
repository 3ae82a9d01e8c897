"""Sums over a period and the period of the same length before it, chosen and random pages apart."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

import msgspec

from slotwise.service.counting.views import Group
from slotwise.service.records import DAY_US, SECOND_US
from slotwise.service.reporting.pool_report import NORMAL_QUANTILE
from slotwise.service.reporting.reports import Rate
from slotwise.service.storage.activity import Span

__all__ = ["Period", "PeriodComparison", "Totals", "compare_periods", "period_span_us"]

_FINE_US, _COARSE_US = 900 * SECOND_US, 3600 * SECOND_US
_FINE_DAYS = 7
"""Up to this length a period begins and ends at a quarter of an hour, else at an hour."""
MAX_SPANS = 62
"""Spans of a period that are drawn."""


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """What the pages of one group brought in a period, as reported so far."""

    group: Group
    views: int
    clicks: int
    sales: int
    revenue_micros: int
    clicks_per_view: Rate | None
    """With a normal 95 % interval; None without views."""


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """The pages shown in a period."""

    from_us: int
    until_us: int
    totals: tuple[Totals, ...]
    spans: tuple[Span, ...]


class PeriodComparison(msgspec.Struct, frozen=True, kw_only=True):
    """A period and the one of the same length before it."""

    currency: str
    span_us: int
    this: Period
    before: Period


def period_span_us(length_us: int) -> int:
    """Return the span in which the pages of a period are counted."""
    return _FINE_US if length_us <= _FINE_DAYS * DAY_US else _COARSE_US


def compare_periods(
    spans: Iterable[Span], currency: str, span_us: int, from_us: int, until_us: int
) -> PeriodComparison:
    """Sum up the spans from `from_us` to `until_us`, and those of the same time before.

    Both times are moved to the next start of a span, so that every page is in one period.
    """
    spans = tuple(spans)
    from_us, until_us = (-(-time // span_us) * span_us for time in (from_us, until_us))
    length_us = max(until_us - from_us, span_us)
    drawn_us = -(-length_us // (MAX_SPANS * span_us)) * span_us
    return PeriodComparison(
        currency=currency,
        span_us=drawn_us,
        this=_period(spans, from_us, from_us + length_us, drawn_us),
        before=_period(spans, from_us - length_us, from_us, drawn_us),
    )


def _period(spans: Iterable[Span], from_us: int, until_us: int, drawn_us: int) -> Period:
    inside = tuple(span for span in spans if from_us <= span.start_us < until_us)
    groups: tuple[Group, ...] = ("policy", "holdout")
    return Period(
        from_us=from_us,
        until_us=until_us,
        totals=tuple(_totals(group, inside) for group in groups),
        spans=_joined(inside, from_us, drawn_us),
    )


def _joined(spans: Iterable[Span], from_us: int, drawn_us: int) -> tuple[Span, ...]:
    """Join spans into longer ones that start with the period."""
    together: dict[tuple[int, Group], list[Span]] = defaultdict(list)
    for span in spans:
        start_us = from_us + (span.start_us - from_us) // drawn_us * drawn_us
        together[start_us, span.group].append(span)
    sums = ("views", "clicks", "clicks_squared", "sales", "revenue_micros")
    return tuple(
        Span(
            start_us=start_us,
            group=group,
            **{name: sum(getattr(span, name) for span in joined) for name in sums},
        )
        for (start_us, group), joined in sorted(together.items())
    )


def _totals(group: Group, spans: Iterable[Span]) -> Totals:
    own = [span for span in spans if span.group == group]
    views, clicks = sum(span.views for span in own), sum(span.clicks for span in own)
    rate = None
    if views:
        mean = clicks / views
        squares = sum(span.clicks_squared for span in own) / views
        half = NORMAL_QUANTILE * math.sqrt(max(squares - mean * mean, 0.0) / views)
        rate = Rate(mean=mean, low=max(mean - half, 0.0), high=mean + half)
    return Totals(
        group=group,
        views=views,
        clicks=clicks,
        sales=sum(span.sales for span in own),
        revenue_micros=sum(span.revenue_micros for span in own),
        clicks_per_view=rate,
    )
