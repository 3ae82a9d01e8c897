"""What is wrong with a pool, by the figures that the dashboard shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from slotwise.service.records import SECOND_US, FloorReport
from slotwise.service.reporting.overview import Overview
from slotwise.service.reporting.reports import Rate
from slotwise.service.storage.activity import Span

__all__ = ["Alert", "AlertKind", "alerts_of"]

AlertKind = Literal["floor-missed", "feedback-stopped", "learning-failed", "test"]

MIN_VIEWS = 100
"""Settled views since the floor was set, before it can be missed."""
EXPECTED_EVENTS = 20.0
"""So many clicks or sales must be missing: by chance that happens once in 500 million times."""


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is wrong with a pool."""

    kind: AlertKind
    pool_id: str
    detail: str
    """One sentence for people."""


def alerts_of(pool: Overview) -> Iterator[Alert]:
    """Go through everything that is wrong with a pool now."""
    if pool.archived or pool.n_links == 0:
        return
    if pool.trouble:
        yield Alert(kind="learning-failed", pool_id=pool.pool_id, detail=pool.trouble)
    missed = [_missed_floor("", pool.floor, pool.delivered_views, pool.clicks_delivered)]
    for one in pool.segment_floors:
        whom = f" for visitors with {one.feature} {one.value}"
        missed.append(_missed_floor(whom, one.floor, one.delivered_views, one.clicks_delivered))
    if any(missed):
        detail = " ".join(filter(None, missed))
        yield Alert(kind="floor-missed", pool_id=pool.pool_id, detail=detail)
    stopped = _stopped(pool)
    if stopped:
        yield Alert(kind="feedback-stopped", pool_id=pool.pool_id, detail=stopped)


def _missed_floor(whom: str, floor: FloorReport, n_views: int, delivered: Rate | None) -> str:
    """Say in one sentence that a floor is missed; nothing where it is not."""
    if floor.clicks <= 0:
        return ""
    if floor.status == "infeasible":
        return (
            f"No page of these links reaches the floor of {floor.clicks:g} clicks per view{whom}: "
            f"the most is about {floor.attainable:.3f}."
        )
    if delivered is None or n_views < MIN_VIEWS or delivered.high >= floor.clicks:
        return ""
    return (
        f"Pages{whom} delivered {delivered.mean:.3f} ({delivered.low:.3f} to {delivered.high:.3f}) "
        f"clicks per view since the floor of {floor.clicks:g} was set."
    )


def _stopped(pool: Overview) -> str:
    """Say whether clicks or sales no longer come although pages are shown."""
    for name, window_s, count in (
        ("click", pool.click_window_s, _clicks),
        ("sale", max(pool.click_window_s, pool.revenue_window_s), _sales),
    ):
        closed_us = pool.now_us - window_s * SECOND_US
        n_silent = _silent_views(pool, closed_us, count)
        if n_silent:
            return f"No {name} came for the last {n_silent:,} views, although pages are shown."
    return ""


def _clicks(span: Span) -> int:
    return span.clicks


def _sales(span: Span) -> int:
    return span.sales


def _silent_views(pool: Overview, closed_us: int, count: Callable[[Span], int]) -> int:
    """Return the latest views without an event, if the views before them say that some are missing.

    Views whose window is still open do not count: their events may yet come.
    """
    closed = [span for span in pool.spans if span.start_us + pool.span_us <= closed_us]
    n_silent = 0
    n_before = n_events = 0
    for span in reversed(closed):
        if n_events == 0 and count(span) == 0:
            n_silent += span.views
        else:
            n_before += span.views
            n_events += count(span)
    if n_before == 0 or n_silent * n_events / n_before < EXPECTED_EVENTS:
        return 0
    return n_silent
