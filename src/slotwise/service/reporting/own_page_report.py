"""Report how chosen pages compare with the own page, and what a promise does.

Used by `pool_report` and `reporter`.
"""

from __future__ import annotations

from slotwise.selection.promise import (
    ALL_SUM,
    AnytimeInterval,
    PageRevenue,
    PromiseEvidence,
    compare,
    expected_ramp,
)
from slotwise.service.counting.attribution import Counters, Group, PageCounters
from slotwise.service.counting.counters import SHARE_UNIT, sum_counters
from slotwise.service.deciding.installed_version import InstalledVersion
from slotwise.service.learning.promise_progress import evidence_of
from slotwise.service.pool_version import promise_terms
from slotwise.service.records import PoolSettings, to_time
from slotwise.service.reporting.report_records import OwnPageReport, RateReport

MOST_VIEWS = 20_000_000
"""No forecast is made for more page views than this."""


def report_own_page(
    counters: Counters,
    pool: PoolSettings,
    installed: InstalledVersion,
    own_clicks: RateReport | None,
) -> OwnPageReport | None:
    """Return the comparison with the own page; None if there is none, or no page is one.

    `own_clicks` are the clicks per view of own pages, None without views.
    """
    shares, promise = installed.groups.shares, installed.stored.promise
    if not pool.own_page or not (shares.own or counters.compared):
        return None
    evidence = evidence_of(counters, pool)
    found = compare(evidence, float(pool.slots))
    chosen, own = (_pages_of(counters, group) for group in ("policy", "own"))
    return OwnPageReport(
        since=to_time(pool.own_page_us),
        chosen_share=shares.chosen,
        own_share=shares.own,
        chosen_views=chosen.revenue_views,
        own_views=own.revenue_views,
        lift=None if found.lift is None else _rate(found.lift),
        is_worse=found.is_worse,
        gained_micros=_rate(found.gained, pool.max_revenue_micros),
        given_up_micros=round(found.given_up * pool.max_revenue_micros),
        keep=pool.keep or None,
        kept=_kept(counters, evidence, pool),
        reason=promise.reason if promise is not None and pool.keep else None,
        misses_floor=own_clicks is not None and own_clicks.high < pool.click_floor,
        missing_links=tuple(one for one in pool.own_page if one not in installed.pool.links),
    )


def forecast_share(
    counters: Counters, pool: PoolSettings, n_open: int
) -> tuple[int | None, int | None]:
    """Return the views until half and all pages are chosen; None for what is not known.

    `n_open` is the number of views that are not settled. Takes a tenth of a second or more.
    """
    own, chosen = (_revenue(_pages_of(counters, group), pool) for group in ("own", "policy"))
    if own is None or chosen is None or not own.mean:
        return None, None
    evidence = evidence_of(counters, pool)
    ramp = expected_ramp(
        promise_terms(pool), own, chosen, MOST_VIEWS, start=evidence, n_open=n_open
    )
    half, full = (None if one is None else round(one) for one in (ramp.half, ramp.all))
    return half, full


def _kept(counters: Counters, evidence: PromiseEvidence, pool: PoolSettings) -> float | None:
    """Return revenue so far over what the own page alone would have earned on all views."""
    of_own = float(evidence.sums[:, ALL_SUM].sum())
    groups: tuple[Group, ...] = ("policy", "own", "holdout")
    earned = sum(_pages_of(counters, group).revenue_micros for group in groups)
    return earned / pool.max_revenue_micros / of_own if of_own > 0.0 else None


def _pages_of(counters: Counters, group: Group) -> PageCounters:
    """Sum up the pages of a group over all shares."""
    total = PageCounters()
    for key, pages in counters.compared.items():
        total = sum_counters(total, pages) if key[0] == group else total
    return total


def _revenue(pages: PageCounters, pool: PoolSettings) -> PageRevenue | None:
    if not pages.revenue_views:
        return None
    mean = pages.revenue_micros / pool.max_revenue_micros / pages.revenue_views
    return PageRevenue(mean, pages.revenue_squared / SHARE_UNIT**2 / pages.revenue_views)


def _rate(one: AnytimeInterval, scale: float = 1.0) -> RateReport:
    return RateReport(mean=one.estimate * scale, low=one.low * scale, high=one.high * scale)
