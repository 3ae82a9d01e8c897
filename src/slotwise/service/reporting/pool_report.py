"""Make reports about a pool from its counters and estimates.

Used by `link_table`, `overview`, `reporter`, `segments` and `api`.
"""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from slotwise.arrays import Floats
from slotwise.compile import switching
from slotwise.selection.confidence import kl_lower, kl_upper
from slotwise.selection.frontier import frontier
from slotwise.selection.mean_interval import mean_interval
from slotwise.service.clock import MAX_STEP_US
from slotwise.service.counting.attribution import Counters, Group, LinkCounters, PageCounters
from slotwise.service.counting.counters import SHARE_UNIT, sum_counters
from slotwise.service.counting.rates import clicks_delivered
from slotwise.service.deciding.averaged_version import AveragedVersion
from slotwise.service.deciding.installed_version import InstalledVersion
from slotwise.service.deciding.page_request import NO_CONSTRAINTS
from slotwise.service.deciding.visitor_mixes import VisitorPage
from slotwise.service.pool import has_slot_weights, slots_of_pool
from slotwise.service.records import DAY_US, SECOND_US, FloorState, PoolSettings
from slotwise.service.refusals import describe_unreadable
from slotwise.service.reporting.health import Health
from slotwise.service.reporting.own_page_report import report_own_page
from slotwise.service.reporting.report_records import (
    Explanation,
    FrontierPoint,
    FrontierReport,
    GroupReport,
    LinkStatistics,
    PoolReport,
    RateReport,
    SegmentFloorReport,
)
from slotwise.service.storage.activity import Span
from slotwise.service.storage.sql_reads import StoreReader

FAILURE_PROBABILITY = 0.05
MAX_KIND_LINKS = 20_000
"""Kinds of visitors times links used for the frontier: about 0.2 s."""
MOST_VIEWS = 1_000.0
"""No forecast is made if a lift needs more than this many times the present views."""
GROUPS: tuple[Group, ...] = ("policy", "own", "holdout")
_UNCOUNTED = LinkCounters()


def report_pool(reader: StoreReader, pool: PoolSettings, installed: InstalledVersion) -> PoolReport:
    """Return the stored statistics of a pool, and the version in use."""
    counters, progress = reader.counters(pool.pool_id), reader.progress()
    stored = installed.stored
    price = stored.shadow_price
    totals = report_totals(counters, pool, installed)
    probability = installed.shares()
    links = []
    for link in reader.links(pool.pool_id):
        counted = _all_groups(counters, link.link_id)
        revenue = (counted.revenue_micros, counted.revenue_views, pool.max_revenue_micros)
        links.append(
            LinkStatistics(
                link_id=link.link_id,
                title=link.title,
                retired=link.retired,
                probability=probability.get(link.link_id, 0.0),
                click_views=counted.click_views,
                clicks=counted.clicks,
                revenue_views=counted.revenue_views,
                revenue_micros=counted.revenue_micros,
                late_clicks=counted.late_clicks,
                late_revenue_micros=counted.late_revenue_micros,
                click_rate=share_rate(counted.clicks, counted.click_views, 1),
                revenue_per_view_micros=share_rate(*revenue),
            )
        )
    return PoolReport(
        pool_id=pool.pool_id,
        policy=installed.policy,
        policy_version=installed.version,
        published_us=stored.published_us,
        folded_until_us=progress.closed_until_us,
        currency=pool.currency,
        floor=totals.floor,
        delivered_views=stored.delivered.click_views,
        clicks_delivered=totals.clicks_delivered,
        delivered_since_us=stored.delivered_since_us,
        shadow_price=stored.shadow_price,
        shadow_price_micros=None if price is None else round(price * pool.max_revenue_micros),
        groups=totals.groups,
        lift=totals.lift,
        n_quarantined=reader.n_quarantined(),
        links=tuple(links),
        segment_floors=report_segment_floors(pool, installed),
        lift_views_needed=views_needed(counters, pool),
        comparison=report_own_page(counters, pool, installed, _own_clicks(counters, pool)),
    )


def _own_clicks(counters: Counters, pool: PoolSettings) -> RateReport | None:
    pages = counters.pages.get("own")
    return None if pages is None else report_group("own", pages, pool).clicks_per_view


def report_segment_floors(
    pool: PoolSettings, installed: InstalledVersion
) -> tuple[SegmentFloorReport, ...]:
    """Return the state of each floor of a segment."""
    return tuple(
        SegmentFloorReport(
            feature=one.feature,
            value=one.value,
            floor=one.floor,
            delivered_views=one.delivered.click_views,
            clicks_delivered=_delivered(one.delivered, pool, one.floor.clicks),
            shadow_price_micros=round(one.shadow_price * pool.max_revenue_micros),
        )
        for one in installed.stored.segment_floors
    )


class PoolTotals(NamedTuple):
    """Totals of a pool."""

    floor: FloorState
    clicks_delivered: RateReport | None
    groups: tuple[GroupReport, ...]
    lift: RateReport | None


def report_totals(
    counters: Counters, pool: PoolSettings, installed: InstalledVersion
) -> PoolTotals:
    """Sum up a pool without its links."""
    groups = tuple(
        report_group(group, counters.pages[group], pool)
        for group in GROUPS
        if group in counters.pages
    )
    delivered = _delivered(installed.stored.delivered, pool, pool.click_floor)
    return PoolTotals(_floor(installed), delivered, groups, report_lift(counters, pool))


def _floor(installed: InstalledVersion) -> FloorState:
    """Return the state of the pool's floor; delivered clicks decide, also with pins."""
    floor = installed.page(NO_CONSTRAINTS).floor
    if floor.status == "infeasible" or not installed.stored.delivered.click_views:
        return floor
    return replace(floor, status=installed.stored.floor.status)


def _delivered(pages: PageCounters, pool: PoolSettings, click_floor: float) -> RateReport | None:
    if not pages.click_views:
        return None
    low, high = clicks_delivered(pages, pool.slots, click_floor)
    return RateReport(mean=pages.clicks / pages.click_views, low=low, high=high)


def report_frontier(
    pool: PoolSettings, installed: InstalledVersion, averaged: AveragedVersion
) -> FrontierReport:
    """Return the frontier by the estimates of a version, and the averages of its pages.

    Like pages, it uses the rules and pins of the pool, the order of slots and the most frequent
    kinds of visitors: under these estimates no page earns more.
    """
    points: list[FrontierPoint] = []
    n_links = len(installed.link_ids)
    kinds = installed.rates_of_kinds(MAX_KIND_LINKS // n_links or 1) if n_links else []
    n_kinds, clicks, revenue = len(kinds), 0.0, 0.0
    if n_links > len(installed.off):
        n_slots, rates = min(pool.slots, n_links - len(installed.off)), installed.rates
        if not kinds:
            is_same = averaged.link_ids == installed.link_ids
            shown = averaged.probabilities if is_same else installed.shown_probabilities()
            kinds = [(1.0, VisitorPage(shown, rates.revenue, rates.clicks))]
        weights: Floats | None = None
        if has_slot_weights(pool):
            weights = slots_of_pool(pool, installed.stored.slot_clicks).order.weights
        shares = np.array([share for share, _ in kinds])
        shares /= shares.sum()
        values, all_clicks = (np.stack([one[part] for _, one in kinds]) for part in (1, 2))
        rules = installed.page_rules() or ()
        curve = frontier(values, all_clicks, n_slots, shares, rules, weights)
        for share, (_, one) in zip(shares.tolist(), kinds, strict=True):
            exposure = _exposure(one, installed.stored.shadow_price or 0.0, weights)
            clicks += share * float(exposure @ one.clicks)
            revenue += share * float(exposure @ one.value)
        prices = [0.0, *curve.shadow_prices.tolist()]
        points = [
            FrontierPoint(
                click_floor=floor,
                revenue=value,
                revenue_micros=round(value * pool.max_revenue_micros),
                shadow_price=price,
            )
            for floor, value, price in zip(
                curve.floors.tolist(), curve.values.tolist(), prices, strict=False
            )
        ]
    return FrontierReport(
        pool_id=pool.pool_id,
        policy_version=installed.version,
        currency=pool.currency,
        click_floor=pool.click_floor,
        points=tuple(points),
        n_kinds=n_kinds,
        expected_clicks=clicks,
        expected_revenue=revenue,
    )


def _exposure(page: VisitorPage, price: float, weights: Floats | None) -> Floats:
    """Return each link's probability times slot weight; links worth most get the best slots."""
    if weights is None:
        return page.probabilities
    order = np.argsort(-(page.value + price * page.clicks), kind="stable")
    ends = np.cumsum(page.probabilities[order])
    sums = np.concatenate([[0.0], np.cumsum(-np.sort(-weights))])
    found = np.empty(len(order))
    found[order] = np.diff(np.interp(np.concatenate([[0.0], ends]), np.arange(len(sums)), sums))
    return found


def explain_links(
    pool: PoolSettings, installed: InstalledVersion, averaged: AveragedVersion | None = None
) -> list[Explanation]:
    """Return for each link of a version why it is shown as often as it is.

    With `averaged`, its probabilities and price replace those of the version.
    """
    if not installed.link_ids:
        return []
    rates, price, shares = installed.rates, installed.stored.shadow_price, installed.shares()
    if averaged is not None and averaged.link_ids == installed.link_ids:
        price = averaged.shadow_price
        shares = dict(zip(averaged.link_ids, averaged.probabilities.tolist(), strict=True))
    # Where no page reaches the floor, clicks alone decide.
    scores = rates.clicks if price is None else rates.revenue + price * rates.clicks
    n_slots = min(pool.slots, len(installed.link_ids))
    threshold = float(np.sort(scores)[-n_slots])
    explained = []
    for place, link_id in enumerate(installed.link_ids):
        one = Explanation(
            link_id=link_id,
            probability=shares[link_id],
            click_rate=float(rates.clicks[place]),
            revenue_rate=float(rates.revenue[place]),
            shadow_price=price,
            score=float(scores[place]),
            threshold=threshold,
            reason="It is outside its dates, or its budget is spent.",
        )
        is_off = link_id in installed.off
        explained.append(one if is_off else replace(one, reason=_reason(installed, one)))
    return explained


@functools.lru_cache(maxsize=4096)  # many links of a large pool have the same few counts
def share_rate(total: int, n_views: int, scale: int) -> RateReport:
    """Estimate total / n_views, where each view gave from 0 to `scale`, with an interval.

    The interval holds for all numbers of views at once with 95 %: it contains the confidence
    sequence of the beta-binomial mixture with parameters 1/2, since for every sequence
    ln(mixture) >= n kl(mean, rate) - ln(n)/2 - ln 2 (Krichevsky and Trofimov 1981).

    >>> share_rate(0, 0, 1)
    RateReport(mean=0.0, low=0.0, high=1.0)
    >>> rate = share_rate(30, 100, 1)
    >>> rate.mean, round(rate.low, 3), round(rate.high, 3)
    (0.3, 0.161, 0.47)
    """
    if n_views == 0:
        return RateReport(mean=0.0, low=0.0, high=float(scale))
    # After `max_revenue_micros` was lowered, old views may exceed the scale.
    share = min(total / scale, float(n_views))
    width = math.log(2.0 / FAILURE_PROBABILITY) + 0.5 * math.log(n_views)
    return RateReport(
        mean=total / n_views,
        low=scale * float(switching(kl_lower)(share, float(n_views), width)),
        high=scale * float(switching(kl_upper)(share, float(n_views), width)),
    )


def _all_groups(counters: Counters, link_id: str) -> LinkCounters:
    of_groups = (counters.links.get((group, link_id), _UNCOUNTED) for group in GROUPS)
    return functools.reduce(sum_counters, of_groups)


def report_group(group: Group, pages: PageCounters, pool: PoolSettings) -> GroupReport:
    """Return the outcomes of these pages per view, with intervals."""
    revenue = _page_revenue(pages, pool)
    micros = pool.max_revenue_micros
    return GroupReport(
        group=group,
        click_views=pages.click_views,
        clicks_per_view=mean_rate(pages.clicks, pages.clicks_squared, pages.click_views, pool),
        revenue_views=pages.revenue_views,
        revenue_per_view_micros=RateReport(
            mean=pages.revenue_micros / max(pages.revenue_views, 1),
            low=revenue.low * micros,
            high=revenue.high * micros,
        ),
    )


def _page_revenue(
    pages: PageCounters,
    pool: PoolSettings,
    failure_probability: float = FAILURE_PROBABILITY,
    times: float = 1.0,
) -> RateReport:
    """Return the revenue of a page as a share of `max_revenue_micros`, with `times` the views."""
    total = times * pages.revenue_micros / pool.max_revenue_micros
    squares = times * pages.revenue_squared / SHARE_UNIT**2
    return mean_rate(total, squares, times * pages.revenue_views, pool, failure_probability)


def mean_rate(
    total: float,
    squares: float,
    n_views: float,
    pool: PoolSettings,
    failure_probability: float = FAILURE_PROBABILITY,
) -> RateReport:
    """Return a mean over pages, each from 0 to the number of slots, with its interval."""
    low, high = mean_interval(
        n_views, total, squares, float(pool.slots), failure_probability=failure_probability
    )
    return RateReport(mean=total / max(n_views, 1), low=low, high=high)


def views_needed(counters: Counters, pool: PoolSettings) -> int | None:
    """Estimate how many further page views the lift needs until its interval excludes 0.

    Assumes that they are like those so far. 0 if it already does, None if there is no basis.
    """
    n_views, times = sum(pages.revenue_views for pages in counters.pages.values()), 1.0
    while times < MOST_VIEWS and any(pages.revenue_micros for pages in counters.pages.values()):
        lift = report_lift(counters, pool, times)
        if lift is not None and not lift.low <= 0.0 <= lift.high:
            return round((times - 1.0) * n_views)
        times *= 1.25
    return None


def report_lift(counters: Counters, pool: PoolSettings, times: float = 1.0) -> RateReport | None:
    """Return policy over holdout less 1, with an interval that holds at all times at once.

    Each of the two means may miss its interval with half of the failure probability. None until the
    lower bound of the holdout's revenue is above 0: before that, the ratio has no upper bound.
    """
    compared: tuple[Group, ...] = ("policy", "holdout")
    if any(group not in counters.pages for group in compared):
        return None
    policy, holdout = (
        _page_revenue(counters.pages[group], pool, FAILURE_PROBABILITY / 2.0, times)
        for group in compared
    )
    if holdout.low <= 0.0:
        return None
    return RateReport(
        mean=policy.mean / holdout.mean - 1.0,
        low=policy.low / holdout.high - 1.0,
        high=policy.high / holdout.low - 1.0,
    )


def _reason(installed: InstalledVersion, link: Explanation) -> str:
    if installed.stored.fallback:
        return f"The pool shows its own page ({installed.stored.fallback})."
    pool, is_best = installed.pool.settings, link.score >= link.threshold
    if link.probability > 0.0:
        asking = [
            repr(rule.name)
            for rule in installed.pool.rules(installed.stored.paced_rules)
            if rule.at_least > 0.0 and link.link_id in rule.links
        ]
        others = "shown to learn more about it, or to mix pages that together keep the floor"
        if asking:
            others = f"shown because rules ask for it ({', '.join(asking)})"
            if len(asking) == 1:
                others = f"shown because the rule {asking[0]} asks for it"
        place = "on the best page by the present estimates" if is_best else others
    else:
        place = "left out by a rule" if is_best and pool.rules else "not shown now"
    return f"{describe_worth(pool, link)} It is {place}."


def describe_worth(pool: PoolSettings, link: Explanation) -> str:
    """Return what a view of a link is worth, and what the best page needs, in two sentences."""

    def money(share: float) -> str:
        amount = share * pool.max_revenue_micros / 1e6
        return f"{amount:,.2f}" if amount >= 0.1 else f"{amount:,.2g}"

    price = link.shadow_price
    if price is None:
        return (
            f"No page reaches the floor, so only clicks count: it has about "
            f"{link.click_rate:.3f} per view. The best page needs at least "
            f"{link.threshold:.3f} clicks per view."
        )
    worth = f"A view is worth {money(link.score)} {pool.currency}"
    as_clicks = price * link.click_rate
    if as_clicks * pool.max_revenue_micros >= 1.0:  # a price decays towards 0 and stays above it
        revenue, clicks = money(link.revenue_rate), money(as_clicks)
        worth += f": {revenue} as revenue, {clicks} as clicks for the floor"
    return f"{worth}. The best page needs at least {money(link.threshold)} {pool.currency}."


_FINE_US, _COARSE_US = 900 * SECOND_US, 3600 * SECOND_US
_FINE_DAYS = 7
"""Periods up to this length begin and end at a quarter of an hour, longer ones at an hour."""
MAX_SPANS = 62
"""Spans of a period in the charts."""


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The outcomes of one group's pages in a period, as reported so far."""

    group: Group
    views: int
    clicks: int
    sales: int
    revenue_micros: int
    clicks_per_view: RateReport | None
    """None without views."""


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """The pages shown in a period."""

    from_us: int
    until_us: int
    totals: tuple[Totals, ...]
    spans: tuple[Span, ...]


class PeriodComparison(msgspec.Struct, frozen=True, kw_only=True):
    """A period, and the preceding period of the same length."""

    currency: str
    span_us: int
    this: Period
    before: Period


def period_span_us(length_us: int) -> int:
    """Return the span in which the pages of a period are counted."""
    return _FINE_US if length_us <= _FINE_DAYS * DAY_US else _COARSE_US


def compare_periods(
    spans: Iterable[Span], pool: PoolSettings, span_us: int, from_us: int, until_us: int
) -> PeriodComparison:
    """Sum up the spans from `from_us` to `until_us`, and those of the preceding period.

    Both times are moved to the next start of a span, so that every page is in one period.
    """
    spans = tuple(spans)
    from_us, until_us = (-(-time // span_us) * span_us for time in (from_us, until_us))
    length_us = max(until_us - from_us, span_us)
    drawn_us = -(-length_us // (MAX_SPANS * span_us)) * span_us
    return PeriodComparison(
        currency=pool.currency,
        span_us=drawn_us,
        this=_period(spans, pool, from_us, from_us + length_us, drawn_us),
        before=_period(spans, pool, from_us - length_us, from_us, drawn_us),
    )


def _period(
    spans: Iterable[Span], pool: PoolSettings, from_us: int, until_us: int, drawn_us: int
) -> Period:
    inside = tuple(span for span in spans if from_us <= span.start_us < until_us)
    return Period(
        from_us=from_us,
        until_us=until_us,
        totals=tuple(_totals(group, inside, pool) for group in GROUPS),
        spans=_joined(inside, from_us, drawn_us),
    )


def _joined(spans: Iterable[Span], from_us: int, drawn_us: int) -> tuple[Span, ...]:
    """Join spans into longer ones that start with the period."""
    together: dict[tuple[int, Group], list[Span]] = defaultdict(list)
    for span in spans:
        start_us = from_us + (span.start_us - from_us) // drawn_us * drawn_us
        together[start_us, span.group].append(span)
    return tuple(_sum_of_spans(*key, joined) for key, joined in sorted(together.items()))


def _sum_of_spans(start_us: int, group: Group, spans: Sequence[Span]) -> Span:
    names = ("views", "clicks", "clicks_squared", "sales", "revenue_micros")
    sums = {name: sum(getattr(span, name) for span in spans) for name in names}
    return Span(start_us=start_us, group=group, **sums)


def _totals(group: Group, spans: Iterable[Span], pool: PoolSettings) -> Totals:
    total = _sum_of_spans(0, group, [span for span in spans if span.group == group])
    rate = None
    if total.views:
        rate = mean_rate(total.clicks, total.clicks_squared, total.views, pool)
    return Totals(
        group=total.group,
        views=total.views,
        clicks=total.clicks,
        sales=total.sales,
        revenue_micros=total.revenue_micros,
        clicks_per_view=rate,
    )


MIN_EVENTS = 50
"""With fewer events no window is suggested."""
WINDOWS_S = (
    *(60 * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(3600 * hours for hours in (1, 2, 4, 8, 12)),
    *(86_400 * days for days in (1, 2, 3, 7, 14, 30, 60, 90, 180)),
)


class Delays(msgspec.Struct, frozen=True, kw_only=True):
    """Delays from page to event, over the latest events, in seconds; None without events."""

    n_events: int
    median_s: float | None
    late_s: float | None
    """99 of 100 events arrive within this time."""
    suggested_window_s: int | None
    """The shortest usual window that includes 99 of 100 events; None with too few events."""


def describe_delays(delays_us: Sequence[int]) -> Delays:
    """Describe increasing delays.

    >>> describe_delays([n * 1_000_000 for n in range(1, 101)])
    Delays(n_events=100, median_s=51.0, late_s=100.0, suggested_window_s=120)
    >>> describe_delays([])
    Delays(n_events=0, median_s=None, late_s=None, suggested_window_s=None)
    """
    n_events = len(delays_us)
    if n_events == 0:
        return Delays(n_events=0, median_s=None, late_s=None, suggested_window_s=None)
    late_s = max(delays_us[min(n_events - 1, n_events * 99 // 100)], 0) / 1e6
    suggested = next((window for window in WINDOWS_S if window >= late_s), WINDOWS_S[-1])
    return Delays(
        n_events=n_events,
        median_s=max(delays_us[n_events // 2], 0) / 1e6,
        late_s=late_s,
        suggested_window_s=suggested if n_events >= MIN_EVENTS else None,
    )


def describe_trouble(health: Health, pool_id: str) -> str:
    """Return a sentence on why a pool cannot learn, or an empty text."""
    if not health.store_available:
        return (
            "The store does not answer: pages are still filled, but clicks and sales are refused "
            "until it is back."
        )
    for pool in health.pools:
        if pool.pool_id == pool_id and pool.unreadable:
            return describe_unreadable(pool.unreadable)
        if pool.pool_id == pool_id and pool.failure:
            return f"The pool cannot learn, so it shows its own page ({pool.failure})."
    if health.clock_jump_us:
        return (
            f"The time of day of this machine jumped by {health.clock_jump_us / 1e6:,.0f} s: the "
            "service uses its own clock. Correct the time, or restart the service."
        )
    if health.store_ahead_us > MAX_STEP_US:
        return (
            f"The store has times {health.store_ahead_us / 1e6:,.0f} s in the future: until then "
            "all feedback is late. `slotwise set-back` repairs the store."
        )
    return ""
