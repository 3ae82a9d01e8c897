"""From attributed views to counters: sums of integers, so order and grouping cannot matter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from slotwise.service.counting.attribution import attribute, counted_clicks
from slotwise.service.counting.views import (
    CLICKS,
    LEVELS,
    REVENUE,
    Counters,
    Group,
    Level,
    LinkCounters,
    PageCounters,
    View,
)

__all__ = [
    "SHARE_UNIT",
    "add_counters",
    "count_late",
    "count_purged",
    "count_settled",
    "group_of",
    "has_late_event",
    "subtract_counters",
]

Key = TypeVar("Key")

SHARE_UNIT = 10_000
"""Page revenue enters its square as a whole number of 1/10,000 of `max_revenue_micros`."""


def group_of(view: View) -> Group:
    """Return the group a view is counted in."""
    return "holdout" if view.decision.holdout else "policy"


def count_settled(
    views: Iterable[View], level: Level, counted_from_us: Mapping[str, int]
) -> Counters:
    """Sum up views that are settled at this level.

    `counted_from_us` has, for links whose statistics were reset, the time before which views
    no longer count. Pages are not reset.
    """
    shown: dict[Group, list[str]] = {"policy": [], "holdout": []}
    sums: Counter[tuple[Group, str]] = Counter()
    pages: dict[Group, PageCounters] = {}
    visitors: dict[tuple[Group, str, str], PageCounters] = {}
    n_empty: Counter[Group] = Counter()
    n_empty_visitors: Counter[tuple[Group, str, str]] = Counter()
    for view in views:
        decision, group = view.decision, group_of(view)
        link_ids = [link.link_id for link in decision.shown]
        if counted_from_us:
            issued_us = decision.issued_us
            link_ids = [item for item in link_ids if issued_us >= counted_from_us.get(item, 0)]
        shown[group] += link_ids
        # Most pages: nothing can have counted.
        if not view.clicks or (level == REVENUE and not view.conversions):
            n_empty[group] += 1
            n_empty_visitors.update((group, *value) for value in decision.segment.items())
            continue
        counted = _outcomes(view, level)
        for link_id in link_ids:
            if link_id in counted:
                sums[group, link_id] += counted[link_id]
        page = _page_increment(1, sum(counted.values()), level, decision.max_revenue_micros)
        _add_page(pages, group, page)
        for feature, label in decision.segment.items():
            _add_page(visitors, (group, feature, label), page)
    for group, n_pages in n_empty.items():
        _add_page(pages, group, _page_increment(n_pages, 0, level, 1))
    for value, n_pages in n_empty_visitors.items():
        _add_page(visitors, value, _page_increment(n_pages, 0, level, 1))
    links = {
        (group, link_id): _link_increment(n_shown, sums[group, link_id], level)
        for group, all_shown in shown.items()
        for link_id, n_shown in Counter(all_shown).items()
    }
    return Counters(links=links, pages=pages, visitors=visitors)


def count_late(views: Iterable[View], counted_from_us: Mapping[str, int]) -> Counters:
    """Sum up what came after its window, over everything received so far."""
    links: dict[tuple[Group, str], LinkCounters] = {}
    for view in views:
        if not has_late_event(view):
            continue
        late = attribute(view, _FOREVER)
        for shown in view.decision.shown:
            link_id = shown.link_id
            if view.decision.issued_us < counted_from_us.get(link_id, 0):
                continue
            increment = LinkCounters(
                late_clicks=int(link_id in late.late_clicks),
                late_revenue_micros=late.late_revenue_micros.get(link_id, 0),
            )
            if increment != LinkCounters():
                key = (group_of(view), link_id)
                links[key] = _sum_links(links.get(key, LinkCounters()), increment)
    return Counters(links=links)


def count_purged(views: Sequence[View], counted_from_us: Mapping[str, int]) -> Counters:
    """Sum up all that views which are folded at every level have added to the counters."""
    counters = count_late(views, counted_from_us)
    learned = [view for view in views if view.decision.learned]
    for level in LEVELS:
        counters = add_counters(counters, count_settled(learned, level, counted_from_us))
    return counters


def has_late_event(view: View) -> bool:
    """Say whether an event of the view came after its window."""
    decision = view.decision
    return (
        any(item.received_us > decision.click_closes_us for item in view.clicks)
        or any(item.received_us > decision.revenue_until_us for item in view.conversions)
        or any(item.received_us > decision.revenue_until_us for item in view.adjustments)
    )


def add_counters(first: Counters, second: Counters) -> Counters:
    """Return the sum of two sets of counters."""
    return _combine(first, second, 1)


def subtract_counters(first: Counters, second: Counters) -> Counters:
    """Return the first set of counters less the second."""
    return _combine(first, second, -1)


_FOREVER = 2**63 - 1


def _outcomes(view: View, level: Level) -> Mapping[str, int]:
    """Return the outcome of the level for each link that has one, when its windows close."""
    if level == CLICKS:
        return dict.fromkeys(counted_clicks(view), 1)
    return attribute(view, view.decision.revenue_closes_us).revenue_micros


def _link_increment(n_views: int, total: int, level: Level) -> LinkCounters:
    if level == CLICKS:
        return LinkCounters(click_views=n_views, clicks=total)
    return LinkCounters(revenue_views=n_views, revenue_micros=total)


def _page_increment(
    n_pages: int, total: int, level: Level, max_revenue_micros: int
) -> PageCounters:
    """Count pages, at most one of which has an outcome."""
    if level == CLICKS:
        return PageCounters(click_views=n_pages, clicks=total, clicks_squared=total * total)
    share = (total * SHARE_UNIT + max_revenue_micros // 2) // max_revenue_micros
    return PageCounters(revenue_views=n_pages, revenue_micros=total, revenue_squared=share * share)


def _combine(first: Counters, second: Counters, sign: int) -> Counters:
    links = dict(first.links)
    for key, increment in second.links.items():
        links[key] = _sum_links(links.get(key, LinkCounters()), increment, sign)
    pages, visitors = dict(first.pages), dict(first.visitors)
    for group, page in second.pages.items():
        _add_page(pages, group, page, sign)
    for value, page in second.visitors.items():
        _add_page(visitors, value, page, sign)
    return Counters(links=links, pages=pages, visitors=visitors)


def _add_page(pages: dict[Key, PageCounters], key: Key, page: PageCounters, sign: int = 1) -> None:
    pages[key] = _sum_pages(pages.get(key, PageCounters()), page, sign)


def _sum_links(first: LinkCounters, second: LinkCounters, sign: int = 1) -> LinkCounters:
    return LinkCounters(
        click_views=first.click_views + sign * second.click_views,
        clicks=first.clicks + sign * second.clicks,
        revenue_views=first.revenue_views + sign * second.revenue_views,
        revenue_micros=first.revenue_micros + sign * second.revenue_micros,
        late_clicks=first.late_clicks + sign * second.late_clicks,
        late_revenue_micros=first.late_revenue_micros + sign * second.late_revenue_micros,
    )


def _sum_pages(first: PageCounters, second: PageCounters, sign: int = 1) -> PageCounters:
    return PageCounters(
        click_views=first.click_views + sign * second.click_views,
        clicks=first.clicks + sign * second.clicks,
        clicks_squared=first.clicks_squared + sign * second.clicks_squared,
        revenue_views=first.revenue_views + sign * second.revenue_views,
        revenue_micros=first.revenue_micros + sign * second.revenue_micros,
        revenue_squared=first.revenue_squared + sign * second.revenue_squared,
    )
