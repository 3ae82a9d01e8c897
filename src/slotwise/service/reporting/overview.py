"""Everything that the page shows of one pool, but for the rows of the link table."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, NamedTuple

import msgspec

from slotwise.service.notes import Note
from slotwise.service.pool import has_slot_weights
from slotwise.service.records import SECOND_US, FloorReport, Pin, PoolSettings
from slotwise.service.reporting.changes import (
    ChangeLine,
    FloorStep,
    describe_changes,
    floor_steps,
)
from slotwise.service.reporting.delays import Delays, describe_delays
from slotwise.service.reporting.link_table import LinkTable
from slotwise.service.reporting.outcomes import OutcomesSinceStart
from slotwise.service.reporting.page_problems import PageProblem
from slotwise.service.reporting.reporter import Reporter
from slotwise.service.reporting.reports import (
    FrontierPoint,
    FrontierReport,
    GroupReport,
    Health,
    PoolReport,
    Rate,
    SegmentFloorReport,
)
from slotwise.service.reporting.trouble import describe_trouble
from slotwise.service.storage.activity import Activity, Span

__all__ = ["Overview", "PoolPicture", "draw_pool"]

LONGEST_US = 48 * 3600 * SECOND_US
SPANS_US = tuple(seconds * SECOND_US for seconds in (10, 60, 300, 900, 3600))
MAX_SPANS = 50
MAX_FRONTIER_POINTS = 200
MAX_CHANGES = 50
MAX_CHANGES_READ = 1_000


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """How a pool is doing. Times are microseconds since the epoch, money is micro-units."""

    pool_id: str
    now_us: int
    archived: bool
    currency: str
    slots: int
    click_floor: float
    click_window_s: int
    revenue_window_s: int
    holdout: float
    policy: str
    frontier_ignores: tuple[Literal["visitors", "slots"], ...]
    """What pages are made for and `frontier` takes as alike."""
    frontier_kinds: int
    """Kinds of visitors that `frontier` knows."""
    n_links: int
    n_retired: int
    allowed_hosts: tuple[str, ...]
    pins: tuple[Pin, ...]
    published_us: int
    folded_until_us: int
    floor: FloorReport
    delivered_views: int
    clicks_delivered: Rate | None
    delivered_since_us: int
    segment_floors: tuple[SegmentFloorReport, ...]
    floor_steps: tuple[FloorStep, ...]
    expected_revenue_micros: int
    """Of a page of the present version, by the present estimates."""
    shadow_price_micros: int | None
    groups: tuple[GroupReport, ...]
    lift: Rate | None
    frontier: tuple[FrontierPoint, ...]
    span_us: int
    starts_us: tuple[int, ...]
    spans: tuple[Span, ...]
    click_delays: Delays
    sale_delays: Delays
    late_clicks: int
    late_sales: int
    invalid_clicks: int
    refused: int
    n_quarantined: int
    """Of all pools: whose page is unknown has no pool."""
    duplicates: int
    """Clicks and sales that came again since `started_us`: they leave no row."""
    refused_since_start: int
    """Of all pools."""
    page_problems: tuple[PageProblem, ...]
    """What kept scripts on pages from working since `started_us`."""
    started_us: int
    trouble: str
    """What keeps the pool from learning, in one sentence, or empty."""
    changes: tuple[ChangeLine, ...]
    has_view: bool
    has_click: bool
    has_sale: bool


class PoolPicture(NamedTuple):
    """The overview and the table of links, made together."""

    overview: Overview
    table: LinkTable


def draw_pool(
    reporter: Reporter, pool_id: str, now_us: int, outcomes: OutcomesSinceStart, health: Health
) -> PoolPicture:
    """Read all that the page shows of a pool. Reading: belongs in a worker thread."""
    directory = reporter.directory
    pool = directory.pool(pool_id)
    since_us = max(now_us - LONGEST_US, pool.created_us)
    span_us = _span_us(now_us - since_us)
    starts_us = tuple(range(since_us // span_us * span_us, now_us + 1, span_us))
    with ThreadPoolExecutor(max_workers=1) as beside:
        # Half of the time is spent inside the store, which leaves the interpreter to others.
        summed_up = beside.submit(reporter.activity, pool_id, starts_us[0], span_us)
        report = reporter.stats(pool_id)
        explained = reporter.explain_lately(pool_id)
        activity = summed_up.result()
    latest = directory.changes(f"{pool_id}/", MAX_CHANGES_READ)
    changes = [*directory.changes(pool_id, MAX_CHANGES), *latest]
    read_since_us = latest[-1].changed_us if len(latest) == MAX_CHANGES_READ else -1
    all_keys = directory.keys()
    names = {key.key_id: key.label for key in all_keys}
    links = directory.links(pool_id)
    table = LinkTable(pool, links, report, explained, activity, starts_us)
    frontier = reporter.frontier(pool_id)
    revenue = frontier.expected_revenue
    if revenue is None:
        revenue = sum(item.probability * item.revenue_rate for item in explained)
    n_retired = sum(link.retired for link in links)
    overview = Overview(
        pool_id=pool_id,
        now_us=now_us,
        archived=pool.archived,
        currency=pool.currency,
        slots=pool.slots,
        click_floor=pool.click_floor,
        click_window_s=pool.click_window_s,
        revenue_window_s=pool.revenue_window_s,
        holdout=pool.holdout,
        policy=pool.policy,
        frontier_ignores=_ignored(pool, frontier.n_kinds),
        frontier_kinds=frontier.n_kinds,
        n_links=len(links) - n_retired,
        n_retired=n_retired,
        allowed_hosts=pool.allowed_hosts,
        pins=pool.pins,
        published_us=report.published_us,
        folded_until_us=report.folded_until_us,
        floor=report.floor,
        delivered_views=report.delivered_views,
        clicks_delivered=report.clicks_delivered,
        delivered_since_us=report.delivered_since_us,
        segment_floors=report.segment_floors,
        floor_steps=floor_steps(pool_id, changes, pool.click_floor, starts_us[0]),
        expected_revenue_micros=round(revenue * pool.max_revenue_micros),
        shadow_price_micros=_price_of_floor(pool, report, frontier),
        groups=report.groups,
        lift=report.lift,
        frontier=_thinned(frontier.points),
        span_us=span_us,
        starts_us=starts_us,
        spans=activity.spans,
        click_delays=describe_delays(activity.click_delays_us),
        sale_delays=describe_delays(activity.sale_delays_us),
        late_clicks=activity.late_clicks,
        late_sales=activity.late_sales,
        invalid_clicks=activity.invalid_clicks,
        refused=activity.refused,
        n_quarantined=report.n_quarantined,
        duplicates=outcomes.duplicates(pool_id, reporter.pool_of_decision),
        refused_since_start=outcomes.refused,
        page_problems=outcomes.pages.of(pool_id),
        started_us=outcomes.started_us,
        trouble=describe_trouble(health, pool_id),
        changes=_with_notes(
            describe_changes(pool_id, changes, names, MAX_CHANGES, read_since_us),
            reporter.notes.all(pool_id),
            names,
        ),
        **_firsts(report, activity),
    )
    return PoolPicture(overview, table)


def _price_of_floor(pool: PoolSettings, report: PoolReport, frontier: FrontierReport) -> int | None:
    """Return what one more click costs, by the curve where it knows the kinds of visitors.

    The price of their pages is no estimate of it: it follows the clicks that are owed at present.
    """
    if not frontier.n_kinds:
        return report.shadow_price_micros
    price = frontier.shadow_price
    return None if price is None else round(price * pool.max_revenue_micros)


def _ignored(pool: PoolSettings, n_kinds: int) -> tuple[Literal["visitors", "slots"], ...]:
    ignored: list[Literal["visitors", "slots"]] = []
    if pool.features and not n_kinds:
        ignored.append("visitors")
    if has_slot_weights(pool):
        ignored.append("slots")
    return tuple(ignored)


def _with_notes(
    changes: list[ChangeLine], notes: list[Note], names: Mapping[str, str]
) -> tuple[ChangeLine, ...]:
    """Put notes between the changes, newest first, by the moment they are about."""
    lines = [
        ChangeLine(
            changed_us=note.at_us,
            changed_by=names.get(note.by) or note.by,
            what=note.text,
            is_marked=True,
            note_id=note.note_id,
        )
        for note in notes[:MAX_CHANGES]
    ]
    return tuple(sorted([*changes, *lines], key=lambda line: line.changed_us, reverse=True))


def _span_us(length_us: int) -> int:
    """Return the shortest span of which no more than `MAX_SPANS` fit."""
    return next((span for span in SPANS_US if length_us <= span * MAX_SPANS), SPANS_US[-1])


def _thinned(points: tuple[FrontierPoint, ...]) -> tuple[FrontierPoint, ...]:
    """Return at most `MAX_FRONTIER_POINTS` of the corners, both ends among them."""
    step = -(-len(points) // MAX_FRONTIER_POINTS) if points else 1
    return (*points[:-1:step], *points[-1:])


def _firsts(report: PoolReport, activity: Activity) -> dict[str, bool]:
    """Say which of the first view, click and sale have been received."""
    settled = report.groups
    spans = activity.spans
    return {
        "has_view": bool(spans) or any(group.click_views for group in settled),
        "has_click": any(span.clicks for span in spans)
        or any(group.clicks_per_view.mean for group in settled),
        "has_sale": any(span.sales for span in spans)
        or any(group.revenue_per_view_micros.mean for group in settled),
    }
