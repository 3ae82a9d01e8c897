"""Sum attributed views to counters: integers, so that order and grouping do not matter.

Used by `learning`, `reporting` and `storage`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TypeVar

from msgspec.structs import astuple, replace

from slotwise.service.counting.attribution import (
    CLICKS,
    LEVELS,
    ComparedKey,
    Counters,
    FloorKey,
    Group,
    Level,
    LinkCounters,
    PageCounters,
    View,
    attribute,
)
from slotwise.service.giving_way import giving_way

Key = TypeVar("Key")
Sums = TypeVar("Sums", LinkCounters, PageCounters)

_link_id = attrgetter("link_id")

OWING_GROUPS: tuple[Group, ...] = ("policy", "own")
"""The groups whose clicks count for the floor."""
SHARE_UNIT = 10_000
"""Page revenue is squared as a whole number of 1/10,000 of `max_revenue_micros`."""


def group_of(view: View) -> Group:
    """Return the group in which a view is counted."""
    decision = view.decision
    return "own" if decision.is_own else "holdout" if decision.holdout else "policy"


def count_settled(
    views: Sequence[View],
    level: Level,
    counted_from_us: Mapping[str, int],
    floors: Iterable[FloorKey] = (),
    compared_us: int | None = None,
) -> Counters:
    """Sum up views that are settled at this level; their clicks also for each of `floors`.

    Views issued since `compared_us` also count for the comparison with the own page.

    `counted_from_us` has, for links whose statistics were reset, the time before which views
    no longer count. Pages are not reset.
    """
    shown: dict[Group, list[str]] = {"policy": [], "own": [], "holdout": []}
    sums: Counter[tuple[Group, str]] = Counter()
    pages: Counter[tuple[Group, int, int]] = Counter()
    """Pages by group, outcome and `max_revenue_micros`: few such keys occur."""
    visitors: Counter[tuple[tuple[Group, str, str], int, int]] = Counter()
    compared: Counter[tuple[ComparedKey, int, int]] = Counter()
    since_us = _FOREVER if compared_us is None else compared_us
    for view in giving_way(views):
        decision, group = view.decision, group_of(view)
        issued_us, most = decision.issued_us, decision.max_revenue_micros
        link_ids: Iterable[str] = map(_link_id, decision.shown)
        if counted_from_us:
            link_ids = [item for item in link_ids if issued_us >= counted_from_us.get(item, 0)]
        shown[group].extend(link_ids)
        total = 0
        # Most pages: no outcome can be positive.
        if view.clicks and (level == CLICKS or view.conversions):
            counted = _outcomes(view, level)
            total = sum(counted.values())
            for link_id, outcome in counted.items():
                if issued_us >= counted_from_us.get(link_id, 0):
                    sums[group, link_id] += outcome
        pages[group, total, most] += 1
        if decision.own_share > 0.0 and issued_us >= since_us:
            key = (group, since_us, decision.chosen_share, decision.own_share)
            compared[key, total, most] += 1
        for feature, label in decision.segment.items():
            visitors[(group, feature, label), total, most] += 1
    links = {
        (group, link_id): LinkCounters(click_views=n_shown, clicks=sums[group, link_id])
        if level == CLICKS
        else LinkCounters(revenue_views=n_shown, revenue_micros=sums[group, link_id])
        for group, all_shown in shown.items()
        for link_id, n_shown in Counter(all_shown).items()
    }
    counters = Counters(
        links=links,
        pages=_page_sums(pages, level),
        visitors=_page_sums(visitors, level),
        compared=_page_sums(compared, level),
    )
    if level == CLICKS and floors:
        return replace(counters, delivered=_delivered(views, floors, counters))
    return counters


def _delivered(
    views: Sequence[View], floors: Iterable[FloorKey], counted: Counters
) -> dict[FloorKey, PageCounters]:
    """Return the clicks under each floor; `counted` are those of all `views`."""
    delivered, counted_since = {}, {}
    for key in floors:
        feature, value, *_, since_us = key
        if since_us not in counted_since:
            shown = [view for view in views if view.decision.issued_us >= since_us]
            is_all = len(shown) == len(views)
            counted_since[since_us] = counted if is_all else count_settled(shown, CLICKS, {})
        since = counted_since[since_us]
        delivered[key] = PageCounters()
        for group in OWING_GROUPS:
            of_all = since.pages.get(group, PageCounters())
            of_segment = since.visitors.get((group, feature, value), PageCounters())
            delivered[key] = sum_counters(delivered[key], of_segment if feature else of_all)
    return delivered


def count_late(views: Iterable[View], counted_from_us: Mapping[str, int]) -> Counters:
    """Sum up feedback received after its window, over everything received so far."""
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
                links[key] = sum_counters(links.get(key, LinkCounters()), increment)
    return Counters(links=links)


def count_purged(
    views: Sequence[View],
    counted_from_us: Mapping[str, int],
    floors: Iterable[FloorKey],
    compared_us: int | None,
) -> Counters:
    """Sum up what views that are folded at every level have added to the counters."""
    counters = count_late(views, counted_from_us)
    learned = [view for view in views if view.decision.learned]
    for level in LEVELS:
        counted = count_settled(learned, level, counted_from_us, floors, compared_us)
        counters = add_counters(counters, counted)
    return counters


def compared_since(counters: Counters) -> int | None:
    """Return since when pages are compared with the own page; None if no page is."""
    return next((since_us for _, since_us, *_ in counters.compared), None)


def has_late_event(view: View) -> bool:
    """Return whether an event of the view was received after its window."""
    decision = view.decision
    return (
        any(item.received_us > decision.click_closes_us for item in view.clicks)
        or any(item.received_us > decision.revenue_until_us for item in view.conversions)
        or any(item.received_us > decision.revenue_until_us for item in view.adjustments)
    )


def add_counters(first: Counters, second: Counters, sign: int = 1) -> Counters:
    """Return one set of counters plus another, or minus it with the sign -1."""
    sums = {
        name: _sum_by_key(getattr(first, name), getattr(second, name), sign)
        for name in Counters.__struct_fields__
    }
    return Counters(**sums)


_FOREVER = 2**63 - 1


def _outcomes(view: View, level: Level) -> Mapping[str, int]:
    """Return the outcome of the level for each link that has one, when its windows close."""
    if level == CLICKS:
        return dict.fromkeys(attribute(view, view.decision.click_closes_us).clicked, 1)
    return attribute(view, view.decision.revenue_closes_us).revenue_micros


def _page_sums(pages: Mapping[tuple[Key, int, int], int], level: Level) -> dict[Key, PageCounters]:
    """Sum up numbers of pages by outcome and `max_revenue_micros`."""
    sums: dict[Key, PageCounters] = {}
    for (key, total, max_revenue_micros), n in pages.items():
        if level == CLICKS:
            page = PageCounters(click_views=n, clicks=n * total, clicks_squared=n * total * total)
        else:
            share = (total * SHARE_UNIT + max_revenue_micros // 2) // max_revenue_micros
            page = PageCounters(
                revenue_views=n, revenue_micros=n * total, revenue_squared=n * share * share
            )
        sums[key] = sum_counters(sums.get(key, PageCounters()), page)
    return sums


def _sum_by_key(
    first: Mapping[Key, Sums], second: Mapping[Key, Sums], sign: int
) -> dict[Key, Sums]:
    sums = dict(first)
    for key, one in second.items():
        sums[key] = sum_counters(sums.get(key, type(one)()), one, sign)
    return sums


def sum_counters(first: Sums, second: Sums, sign: int = 1) -> Sums:
    """Return one set of sums plus another, or minus it with the sign -1."""
    both = zip(astuple(first), astuple(second), strict=True)
    return type(first)(*[one + sign * other for one, other in both])
