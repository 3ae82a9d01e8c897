"""The report of a selector as text: a table of links, and lines on pages, visitors and rules.

Used by `report`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from slotwise.player.rules_in_force import RuleReport
from slotwise.player.slots import slot_lines
from slotwise.selector.accounting import AnytimeRate, DeliveredReport, Rate
from slotwise.selector.promised_pages import comparison_lines

if TYPE_CHECKING:
    from slotwise.selector.report import LinkReport, PageReport, Report, VisitorReport


def visitor_lines(rows: Sequence[VisitorReport]) -> list[str]:
    """Return a sentence for every value with page views."""
    return [
        f"{row.feature} {row.value}: {row.page_views} page views, "
        f"{_with_interval(row.clicks)} clicks{_floor(row)} and "
        f"{_with_interval(row.revenue)} revenue a page; "
        f"most likely {', '.join(map(str, row.top_links))}"
        for row in rows
    ]


def _with_interval(rate: Rate) -> str:
    return f"{rate.estimate:.4g} ({rate.low:.4g} to {rate.high:.4g})"


def _floor(row: VisitorReport) -> str:
    return "" if row.click_floor is None else f" (floor {row.click_floor:g})"


MAX_ROWS = 30
"""Links that a printed report shows before it says how many more there are."""

HEADINGS = (
    "link",
    "probability",
    "views",
    "click rate",
    "95 % interval",
    "revenue",
    "95 % interval",
)


def text_table(report: Report) -> str:
    """Return the report as lines of text, the links most likely to be shown first."""
    links = sorted(report.links, key=lambda link: -link.probability)
    rows = [HEADINGS, *(_cells(link) for link in links[:MAX_ROWS])]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    if len(links) > MAX_ROWS:
        lines.append(f"... and {len(links) - MAX_ROWS} more links")
    learned = [*visitor_lines(report.segments), *slot_lines(report.slots)]
    learned += [*rule_lines(report.rules), *comparison_lines(report.comparison)]
    page = [*_delivered_lines(report.delivered), *_page_lines(report.page)]
    return "\n".join([*lines, "", *page, *learned, _feedback_line(report)])


def rule_lines(rows: Sequence[RuleReport]) -> list[str]:
    """Return a sentence for every rule."""
    return [
        f"rule {row.name}: {row.slots_now:.3g} slots a page now, {row.slots_delivered:.3g} so far, "
        + (f"violated, {row.granted}; " if row.violated else "")
        + (
            f"costs {row.cost:.4g} a page view"
            if row.cost < math.inf
            else "gives up the click floor"
        )
        for row in rows
    ]


def _cells(link: LinkReport) -> tuple[str, ...]:
    return (
        str(link.link),
        f"{link.probability:.3f}",
        str(link.views),
        f"{link.click_rate.estimate:.4f}",
        _interval(link.click_rate),
        f"{link.revenue_rate.estimate:.4f}",
        _interval(link.revenue_rate),
    )


def _interval(rate: Rate | AnytimeRate) -> str:
    return f"{rate.low:.4f} to {rate.high:.4f}"


def _delivered_lines(delivered: DeliveredReport) -> list[str]:
    """Return the delivered clicks and revenue per page view, and the status of the floor."""
    if not delivered.page_views:
        return ["delivered: nothing is settled yet"]
    judged = f"floor {delivered.click_floor:g} {delivered.status}"
    clicks, revenue = (
        f"{one.estimate:.4g} {name} ({_interval(one)} at all times)"
        for name, one in (("clicks", delivered.clicks), ("revenue", delivered.revenue))
    )
    return [
        f"delivered per page view: {clicks}, {judged}",
        f"                         {revenue}",
    ]


def _page_lines(page: PageReport) -> list[str]:
    floor = f"floor {page.click_floor:g}, {page.status}"
    if page.status == "binding":
        floor += f": one more click a page costs {page.shadow_price:.4g}"
    elif page.status == "infeasible":
        floor += f": the most that a page can have is {page.most_clicks:.4g}"
    further = [
        f"               {floor.name}: {floor.expected:.4g} (floor {floor.floor:g})"
        for floor in page.floors[page.click_floor > 0.0 :]
    ]
    return [
        f"the next page: {page.expected_clicks:.4g} clicks expected ({floor})",
        *further,
        f"               {page.expected_revenue:.4g} revenue",
    ]


def _feedback_line(report: Report) -> str:
    return (
        f"{report.policy}: {report.n_pages} pages, {report.n_open_pages} open, "
        f"{report.n_forgotten_pages} forgotten; {report.n_clipped} amounts clipped"
    )
