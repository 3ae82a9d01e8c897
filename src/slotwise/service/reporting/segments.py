"""Segments: outcomes and pages of visitors with each feature value, and slot weights.

Used by `link_table`, `reporter` and `api`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from slotwise.arrays import Floats
from slotwise.service.counting.attribution import Counters, PageCounters
from slotwise.service.deciding.installed_version import InstalledVersion
from slotwise.service.pool import has_slot_weights, slots_of_pool
from slotwise.service.records import PoolSettings
from slotwise.service.reporting.pool_report import report_group, report_segment_floors
from slotwise.service.reporting.report_records import Explanation, RateReport, SegmentFloorReport

N_TOP_LINKS = 3
N_PAGES = 200
"""Pages drawn to find the most frequent link of each slot."""
ALIKE = 0.01
"""Probabilities that differ by no more than this are reported as equal."""
MAX_VALUES = 200
"""Maximum number of values in a report, those with most page views first."""


class LinkForValue(msgspec.Struct, frozen=True, kw_only=True):
    """A link, and how likely visitors with a value are to see it."""

    link_id: str
    title: str
    probability: float


class ValueReport(msgspec.Struct, frozen=True, kw_only=True):
    """Outcomes per page view of visitors with one feature value, with 95 % intervals."""

    feature: str
    value: str
    page_views: int
    """Page views whose click window has closed, random pages not included."""
    clicks_per_view: RateReport
    revenue_per_view_micros: RateReport
    top_links: tuple[LinkForValue, ...]
    """The likeliest links of a visitor with only this feature known."""
    floor: SegmentFloorReport | None = None
    """Set if visitors with this value have their own floor."""


class SlotWeight(msgspec.Struct, frozen=True, kw_only=True):
    """How often links are clicked in a slot, relative to the average slot."""

    position: int
    weight: float
    low: float
    high: float
    clicks: int
    """Clicks on pages in random order, from which weights are learned."""
    mostly: LinkForValue | None = None
    """The most frequent link of the slot, and its share of the pages now."""


class SegmentsReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was learned about segments, compared with all visitors, and about slots."""

    pool_id: str
    policy_version: int
    currency: str
    depends_on_visitors: bool
    """Whether the policy shows different visitors different pages."""
    page_views: int
    clicks_per_view: RateReport
    revenue_per_view_micros: RateReport
    values: tuple[ValueReport, ...]
    slots: tuple[SlotWeight, ...]
    learns_slots: bool


def report_segments(
    counters: Counters, pool: PoolSettings, installed: InstalledVersion
) -> SegmentsReport:
    """Return the counts of visitors by feature value, and what a version shows them."""
    average = report_group("policy", counters.pages.get("policy", PageCounters()), pool)
    floors = {(one.feature, one.value): one for one in report_segment_floors(pool, installed)}
    values = []
    for feature, value, pages in counted_values(counters, pool):
        counted = report_group("policy", pages, pool)
        values.append(
            ValueReport(
                feature=feature,
                value=value,
                page_views=pages.click_views,
                clicks_per_view=counted.clicks_per_view,
                revenue_per_view_micros=counted.revenue_per_view_micros,
                top_links=_top_links(installed, installed.probabilities_for({feature: value})),
                floor=floors.get((feature, value)),
            )
        )
    return SegmentsReport(
        pool_id=pool.pool_id,
        policy_version=installed.version,
        currency=pool.currency,
        depends_on_visitors=installed.depends_on_visitors,
        page_views=average.click_views,
        clicks_per_view=average.clicks_per_view,
        revenue_per_view_micros=average.revenue_per_view_micros,
        values=tuple(values),
        slots=_slots(pool, installed),
        learns_slots=pool.learn_slot_weights,
    )


def counted_values(counters: Counters, pool: PoolSettings) -> list[tuple[str, str, PageCounters]]:
    """Return the values of declared features that were seen, by feature, the most seen first.

    Values that have a floor are included, seen or not.
    """
    seen = {
        (feature, value): pages
        for (group, feature, value), pages in counters.visitors.items()
        if group == "policy" and feature in pool.features
    }
    with_floor = {(name, value) for name, values in pool.segment_floors.items() for value in values}
    found = [(*one, seen.get(one, PageCounters())) for one in {**seen, **dict.fromkeys(with_floor)}]
    found.sort(key=lambda one: (one[:2] not in with_floor, -one[2].click_views))
    found = sorted(found[:MAX_VALUES], key=lambda one: -one[2].click_views)
    order = {name: place for place, name in enumerate(pool.features)}
    return sorted(found, key=lambda one: order[one[0]])


MOST_LIKELY = "most likely for"
"""How the words about a link begin that some visitors see more often than others."""


def describe_segments(
    explained: Sequence[Explanation],
    counters: Counters,
    pool: PoolSettings,
    installed: InstalledVersion,
) -> list[Explanation]:
    """Add to each explanation which visitors are most and least likely to see the link."""
    values = [(feature, value) for feature, value, _ in counted_values(counters, pool)]
    if not installed.depends_on_visitors or not values:
        return list(explained)
    probabilities = np.stack([installed.probabilities_for({name: one}) for name, one in values])
    most, least = probabilities.argmax(axis=0).tolist(), probabilities.argmin(axis=0).tolist()
    spoken = []
    for place, one in enumerate(explained):
        high, low = probabilities[most[place], place], probabilities[least[place], place]
        words = f"all visitors are as likely to see it ({high:.2g})"
        if high - low > ALIKE:
            best, worst = (" ".join(values[at[place]]) for at in (most, least))
            words = f"{MOST_LIKELY} {best} ({high:.2g}), least for {worst} ({low:.2g})"
        spoken.append(replace(one, segments=words))
    return spoken


def _top_links(installed: InstalledVersion, probabilities: Floats) -> tuple[LinkForValue, ...]:
    likeliest = np.argsort(-probabilities, kind="stable")[:N_TOP_LINKS].tolist()
    return tuple(
        _link_for_value(installed, installed.link_ids[place], float(probabilities[place]))
        for place in likeliest
        if probabilities[place] > 0.0
    )


def _link_for_value(installed: InstalledVersion, link_id: str, probability: float) -> LinkForValue:
    title = installed.pool.links[link_id].title
    return LinkForValue(link_id=link_id, title=title, probability=probability)


def _slots(pool: PoolSettings, installed: InstalledVersion) -> tuple[SlotWeight, ...]:
    if not has_slot_weights(pool):
        return ()
    pages = installed.sample_pages(N_PAGES) if installed.order is not None else []
    stand = Counter((shown.position, shown.link_id) for page in pages for shown in page)
    mostly: dict[int, LinkForValue] = {}
    for (position, link_id), n_pages in stand.most_common():
        share = n_pages / len(pages)
        mostly.setdefault(position, _link_for_value(installed, link_id, share))
    return tuple(
        SlotWeight(
            position=row.slot,
            weight=row.weight,
            low=row.low,
            high=row.high,
            clicks=row.clicks,
            mostly=mostly.get(row.slot),
        )
        for row in slots_of_pool(pool, installed.stored.slot_clicks).rows()
    )
