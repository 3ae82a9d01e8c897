"""The conditions of a pool that people are alerted of.

Used by `alerting`, `webhook` and `api`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Literal

import msgspec

from slotwise.service.records import SECOND_US, FloorState
from slotwise.service.reporting.overview import Overview
from slotwise.service.reporting.report_records import OwnPageReport, RateReport
from slotwise.service.storage.activity import Span

AlertKind = Literal[
    "floor-missed",
    "rule-violated",
    "feedback-stopped",
    "learning-failed",
    "one-network",
    "own-page-better",
    "test",
]

MIN_VIEWS = 100
"""Settled views since the floor was set that are required before it can count as missed."""
EXPECTED_EVENTS = 20.0
"""Expected clicks or sales that must be missing: by chance that happens once in 500 million."""


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """A problem of a pool."""

    kind: AlertKind
    pool_id: str
    detail: str
    """One sentence for people."""


def alerts_of(pool: Overview) -> Iterator[Alert]:
    """Yield the present problems of a pool."""
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
    violated = " ".join(rule.detail for rule in pool.rules if rule.violated)
    if violated:
        yield Alert(kind="rule-violated", pool_id=pool.pool_id, detail=violated)
    stopped = _stopped(pool)
    if stopped:
        yield Alert(kind="feedback-stopped", pool_id=pool.pool_id, detail=stopped)
    if pool.comparison is not None and pool.comparison.is_worse:
        detail = _own_page_better(pool.comparison)
        yield Alert(kind="own-page-better", pool_id=pool.pool_id, detail=detail)
    one_network = _one_network(pool)
    if one_network:
        yield Alert(kind="one-network", pool_id=pool.pool_id, detail=one_network)


def _own_page_better(compared: OwnPageReport) -> str:
    """Return a sentence on chosen pages that are certainly worse than the own page."""
    lift = compared.lift
    assert lift is not None
    share = f"{compared.chosen_share:.2g} of the pages are chosen now"
    then = f"the promise limits their share: {share}" if compared.keep else share
    return (
        f"Chosen pages earn {-lift.mean:.0%} less than your own page ({-lift.high:.0%} to "
        f"{-lift.low:.0%} less); {then}."
    )


def _one_network(pool: Overview) -> str:
    """Return a sentence if one network reports most views, or an empty text."""
    busiest = pool.busiest_network
    if busiest is None or busiest.views < MIN_VIEWS or 2 * busiest.views <= busiest.all_views:
        return ""
    return (
        f"{busiest.views:,} of the latest {busiest.all_views:,} page views were reported from the "
        f"network {busiest.network}. If that is a proxy, set `trusted_proxies`; if these are not "
        "visitors, make another page key and forget the views of this one."
    )


def _missed_floor(whom: str, floor: FloorState, n_views: int, delivered: RateReport | None) -> str:
    """Return a sentence about a missed floor, or an empty text."""
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
    """Return a sentence if clicks or sales no longer arrive although pages are shown."""
    for name, window_s, count in (
        ("click", pool.click_window_s, attrgetter("clicks")),
        ("sale", max(pool.click_window_s, pool.revenue_window_s), attrgetter("sales")),
    ):
        closed_us = pool.now_us - window_s * SECOND_US
        n_silent = _silent_views(pool, closed_us, count)
        if n_silent:
            return f"No {name} came for the last {n_silent:,} views, although pages are shown."
    if pool.sales_missing:
        return (
            "Far fewer sales were reported than recent clicks suggest. "
            "Until this ends, revenue is learned from closed windows only."
        )
    return ""


def _silent_views(pool: Overview, closed_us: int, count: Callable[[Span], int]) -> int:
    """Return the latest views without an event, if earlier views suggest that some are missing.

    Views whose window is open do not count: their events may still arrive.
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
