"""The overview of one pool on the dashboard: figures over time, floor, changes and problems.

Used by `alert_conditions` and `api`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from slotwise.service.pool_notes import Note
from slotwise.service.records import (
    SECOND_US,
    ChangeRecord,
    FloorState,
    Pin,
    PoolSettings,
    to_time,
)
from slotwise.service.reporting.counts_since_start import OutcomesSinceStart, PageProblem
from slotwise.service.reporting.health import Health
from slotwise.service.reporting.link_table import LinkTable
from slotwise.service.reporting.network_shares import BusiestNetwork
from slotwise.service.reporting.pool_report import (
    Delays,
    describe_delays,
    describe_trouble,
    mean_rate,
)
from slotwise.service.reporting.report_records import (
    FrontierPoint,
    FrontierReport,
    GroupReport,
    OwnPageReport,
    PoolReport,
    RateReport,
    RuleStatus,
    SegmentFloorReport,
)
from slotwise.service.reporting.reporter import MAX_CHANGES_READ, Reporter
from slotwise.service.storage.activity import Activity, Span

_SILENT = {
    *("changed_us", "created_us", "counted_from_us", "known_us", "own_page_us", "since_us"),
    *("place", "pool_id", "link_id"),
}
_VERBS = {
    "create": "added",
    "change": "changed",
    "retire": "retired",
    "archive": "archived",
    "import": "imported counts of",
}
_TOGETHER_US = 60 * SECOND_US
_MAX_CHARS = 300


class ChangeLine(msgspec.Struct, frozen=True, kw_only=True):
    """One change, or several similar changes that were made together."""

    changed_us: int
    changed_by: str
    """The label of the key, or its id if it has none."""
    what: str
    is_marked: bool
    """Whether it is drawn on the charts: a change of settings or links, or a note."""
    note_id: str = ""
    """The text of a note; empty for a change."""


class FloorStep(msgspec.Struct, frozen=True, kw_only=True):
    """The click floor from a time on."""

    from_us: int
    click_floor: float


def floor_steps(
    pool_id: str, changes: Iterable[ChangeRecord], click_floor: float, since_us: int
) -> tuple[FloorStep, ...]:
    """Return the floors of a pool since a time, oldest first; `click_floor` is the present one."""
    steps: list[FloorStep] = []
    present = click_floor
    for change in sorted(changes, key=lambda one: one.changed_us, reverse=True):
        if change.subject != pool_id or not change.before or change.changed_us <= since_us:
            continue
        before = _fields(change.before).get("click_floor", present)
        if before != present:
            steps.append(FloorStep(from_us=change.changed_us, click_floor=present))
            present = before
    steps.append(FloorStep(from_us=since_us, click_floor=present))
    return tuple(reversed(steps))


def describe_changes(
    pool_id: str,
    changes: Iterable[ChangeRecord],
    names: Mapping[str, str],
    limit: int,
    read_since_us: int = -1,
) -> list[ChangeLine]:
    """Return the changes of a pool and its links, newest first; `names` are the labels of keys.

    Links that one key changed in the same way within a minute share a line. Changes of links up to
    `read_since_us` were not all read: a line with such changes says so.
    """
    seen = set()
    groups: list[list[ChangeRecord]] = []
    for change in sorted(changes, key=lambda one: one.changed_us, reverse=True):
        about_pool = change.subject == pool_id
        if not about_pool and not change.subject.startswith(f"{pool_id}/"):
            continue
        identity = (change.changed_us, change.action, change.subject)
        if identity in seen:
            continue
        seen.add(identity)
        last = groups[-1][-1] if groups else None
        if (
            last is not None
            and not about_pool
            and (last.action, last.changed_by) == (change.action, change.changed_by)
            and last.changed_us - change.changed_us <= _TOGETHER_US
        ):
            groups[-1].append(change)
        else:
            groups.append([change])
    return [_line(pool_id, group, names, read_since_us) for group in groups[:limit]]


def _line(
    pool_id: str, group: list[ChangeRecord], names: Mapping[str, str], read_since_us: int
) -> ChangeLine:
    first = group[0]
    kind, _, action = first.action.partition(".")
    verb = _VERBS.get(action, action)
    if len(group) > 1:
        more = " or more" if group[-1].changed_us <= read_since_us else ""
        what = f"{verb} {len(group):,}{more} links"
    else:
        name = "the pool" if kind == "pool" else f"link {first.subject.removeprefix(pool_id + '/')}"
        what = f"{verb} {name}{_differences(first)}"
    return ChangeLine(
        changed_us=first.changed_us,
        changed_by=names.get(first.changed_by) or first.changed_by,
        what=what if len(what) <= _MAX_CHARS else what[:_MAX_CHARS] + "…",
        is_marked=first.action != "pool.create",
    )


def _differences(change: ChangeRecord) -> str:
    """Return the fields that changed, with the values before and after."""
    if not change.before or not change.after:
        return ""
    before, after = _fields(change.before), _fields(change.after)
    rules = before.get("rules", []), after.get("rules", [])
    changed = [*_changed_fields(before, after, {*_SILENT, "rules"}), *_changed_rules(*rules)]
    return f": {', '.join(changed)}" if changed else ""


def _changed_fields(
    before: Mapping[str, object], after: Mapping[str, object], silent: Container[str]
) -> list[str]:
    return [
        f"{_label(name).replace('_', ' ')} {_value(name, before)} → {_value(name, after)}"
        for name in after
        if name not in silent and before.get(name) != after.get(name)
    ]


def _changed_rules(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[str]:
    """Return what became of each rule: added, removed, or which of its fields changed."""
    old, new = ({rule["name"]: rule for rule in rules} for rules in (before, after))
    silent = {*_SILENT, "name", "since_us"}
    found = []
    for name, rule in new.items():
        if name not in old:
            asks = {key: one for key, one in rule.items() if key not in silent}
            found.append(f"added the rule {name} ({_shown(asks).replace('_', ' ')})")
        elif fields := _changed_fields(old[name], rule, silent):
            found.append(f"rule {name}: {', '.join(fields)}")
    found += [f"removed the rule {name}" for name in old if name not in new]
    if not found and [*old] != [*new]:
        found.append(f"order of the rules {', '.join(new)}")
    return found


_fields = msgspec.json.Decoder(dict[str, Any]).decode


def _shown(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case {"link_id": link_id, "position": position}:
            return f"{link_id} at {position}"
        case {"views": views, "clicks": clicks, "discount": discount}:
            return f"{views:,} views with {clicks:,} clicks at {discount:g}"
        case dict():
            names = (name for name, one in value.items() if name not in _SILENT and one)
            parts = (f"{_label(name)} {_value(name, value)}" for name in names)
            return ", ".join(parts) or "none"
        case list():
            return ", ".join(map(_shown, value)) or "none"
        case None | "":
            return "none"
    return str(value)


def _label(name: str) -> str:
    return name.removesuffix("_us")


def _value(name: str, fields: Mapping[str, Any]) -> str:
    """Return a field as text; a name that ends with `_us` is a time, where 0 means none."""
    value = fields.get(name)
    if name.endswith("_us") and value:
        return f"{to_time(value):%Y-%m-%d %H:%M}"
    return "none" if name.endswith("_us") else _shown(value)


LONGEST_US = 48 * 3600 * SECOND_US
SPANS_US = tuple(seconds * SECOND_US for seconds in (10, 60, 300, 900, 3600))
MAX_SPANS = 50
MAX_FRONTIER_POINTS = 200
MAX_CHANGES = 50


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """How a pool is doing. Times are microseconds since the epoch, money is micro-units."""

    pool_id: str
    revision: int
    """Of the pool's settings and rules; sent back with a change."""
    now_us: int
    archived: bool
    currency: str
    max_revenue_micros: int
    slots: int
    click_floor: float
    click_window_s: int
    revenue_window_s: int
    holdout: float
    policy: str
    frontier_kinds: int
    """Kinds of visitors over which `frontier` is the average."""
    n_links: int
    n_retired: int
    allowed_hosts: tuple[str, ...]
    pins: tuple[Pin, ...]
    published_us: int
    folded_until_us: int
    floor: FloorState
    delivered_views: int
    clicks_delivered: RateReport | None
    delivered_since_us: int
    segment_floors: tuple[SegmentFloorReport, ...]
    rules: tuple[RuleStatus, ...]
    floor_steps: tuple[FloorStep, ...]
    expected_clicks: float
    expected_revenue_micros: int
    """Both per page of the latest versions, by the present estimates."""
    shadow_price_micros: int | None
    """The cost of one more click; None if by the estimates no page reaches the floor."""
    rules_below_floor: tuple[str, ...]
    """Rules without which a page could have more clicks, if no page reaches the floor."""
    groups: tuple[GroupReport, ...]
    comparison: OwnPageReport | None
    """The comparison with the own page."""
    own_page: tuple[str, ...]
    holdout_shows: str
    lift: RateReport | None
    lift_views_needed: int | None
    frontier: tuple[FrontierPoint, ...]
    span_us: int
    starts_us: tuple[int, ...]
    spans: tuple[Span, ...]
    click_ranges: tuple[RateReport, ...]
    """Clicks per view in each span with chosen pages; the intervals hold at all times at once."""
    click_delays: Delays
    sale_delays: Delays
    late_clicks: int
    late_sales: int
    invalid_clicks: int
    refused: int
    n_quarantined: int
    """Over all pools: events whose page is unknown have no pool."""
    duplicates: int
    """Repeated clicks and sales since `started_us`; they are not stored."""
    refused_since_start: int
    """Of all pools."""
    page_problems: tuple[PageProblem, ...]
    busiest_network: BusiestNetwork | None
    """Of the views that were reported with a page key."""
    """Reasons why scripts on pages failed since `started_us`."""
    started_us: int
    sales_missing: bool
    """Whether sales that are expected from open views do not arrive."""
    trouble: str
    """Why the pool cannot learn, in one sentence; empty if it can."""
    changes: tuple[ChangeLine, ...]
    has_view: bool
    has_click: bool
    has_sale: bool


class DashboardPool(NamedTuple):
    """The overview and the table of links, made from the same data."""

    overview: Overview
    table: LinkTable


def draw_pool(
    reporter: Reporter, pool_id: str, now_us: int, outcomes: OutcomesSinceStart, health: Health
) -> DashboardPool:
    """Read everything the dashboard shows about a pool. Reading: call it in a worker thread."""
    directory = reporter.directory
    pool = directory.pool(pool_id)
    since_us = max(now_us - LONGEST_US, pool.created_us)
    # the shortest span that gives at most `MAX_SPANS` spans
    fitting = (span for span in SPANS_US if now_us - since_us <= span * MAX_SPANS)
    span_us = next(fitting, SPANS_US[-1])
    starts_us = tuple(range(since_us // span_us * span_us, now_us + 1, span_us))
    with ThreadPoolExecutor(max_workers=1) as beside:
        # Half of the time is spent inside the store, where other threads can run.
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
    report = _with_forecast(reporter, report, pool, activity, now_us)
    table = LinkTable(pool, links, report, explained, activity, starts_us)
    frontier = reporter.frontier(pool_id)
    n_retired = sum(link.retired for link in links)
    overview = Overview(
        pool_id=report.pool_id,
        revision=pool.changed_us,
        now_us=now_us,
        archived=pool.archived,
        currency=report.currency,
        max_revenue_micros=pool.max_revenue_micros,
        slots=pool.slots,
        click_floor=pool.click_floor,
        click_window_s=pool.click_window_s,
        revenue_window_s=pool.revenue_window_s,
        holdout=pool.holdout,
        policy=pool.policy,
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
        rules=report.rules,
        floor_steps=floor_steps(pool_id, changes, pool.click_floor, starts_us[0]),
        expected_clicks=frontier.expected_clicks,
        expected_revenue_micros=round(frontier.expected_revenue * pool.max_revenue_micros),
        shadow_price_micros=_price_of_floor(pool, frontier),
        rules_below_floor=reporter.rules_below_floor(pool_id),
        groups=report.groups,
        comparison=report.comparison,
        own_page=pool.own_page,
        holdout_shows=pool.holdout_shows,
        lift=report.lift,
        lift_views_needed=report.lift_views_needed,
        frontier=_thinned(frontier.points),
        span_us=span_us,
        starts_us=starts_us,
        spans=activity.spans,
        click_ranges=tuple(
            mean_rate(span.clicks, span.clicks_squared, span.views, pool)
            for span in activity.spans
            if span.group == "policy"
        ),
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
        busiest_network=outcomes.networks.busiest(pool_id),
        started_us=outcomes.started_us,
        sales_missing=reporter.sales_missing(pool_id),
        trouble=describe_trouble(health, pool_id),
        changes=_with_notes(
            describe_changes(pool_id, changes, names, MAX_CHANGES, read_since_us),
            reporter.notes.all(pool_id),
            names,
        ),
        **_firsts(report, activity),
    )
    return DashboardPool(overview, table)


def _with_forecast(
    reporter: Reporter, report: PoolReport, pool: PoolSettings, activity: Activity, now_us: int
) -> PoolReport:
    """Return a report that says when the share of chosen pages is expected to grow."""
    compared = report.comparison
    if compared is None or compared.reason in (None, "all"):
        return report
    window_us = max(pool.click_window_s, pool.revenue_window_s) * SECOND_US
    n_open = sum(span.views for span in activity.spans if span.start_us > now_us - window_us)
    half, full = reporter.share_forecast(pool.pool_id, n_open)
    return replace(report, comparison=replace(compared, views_to_half=half, views_to_all=full))


def _price_of_floor(pool: PoolSettings, frontier: FrontierReport) -> int | None:
    """Return the cost of one more click, from the curve that is drawn.

    The price of the pages is not an estimate of it: it depends on the clicks owed at present.
    """
    price = frontier.shadow_price
    return None if price is None else round(price * pool.max_revenue_micros)


def _with_notes(
    changes: list[ChangeLine], notes: list[Note], names: Mapping[str, str]
) -> tuple[ChangeLine, ...]:
    """Merge notes into the changes, newest first, by the time they refer to."""
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


def _thinned(points: tuple[FrontierPoint, ...]) -> tuple[FrontierPoint, ...]:
    """Return at most `MAX_FRONTIER_POINTS` of the corners, including both ends."""
    step = -(-len(points) // MAX_FRONTIER_POINTS) if points else 1
    return (*points[:-1:step], *points[-1:])


def _firsts(report: PoolReport, activity: Activity) -> dict[str, bool]:
    """Return whether the first view, click and sale have been received."""
    settled = report.groups
    spans = activity.spans
    return {
        "has_view": bool(spans) or any(group.click_views for group in settled),
        "has_click": any(span.clicks for span in spans)
        or any(group.clicks_per_view.mean for group in settled),
        "has_sale": any(span.sales for span in spans)
        or any(group.revenue_per_view_micros.mean for group in settled),
    }
