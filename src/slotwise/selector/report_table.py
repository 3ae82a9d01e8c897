"""A report as text: the likeliest links, then the page in one paragraph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slotwise.selector.for_whom import visitor_lines
from slotwise.selector.page_slots import slot_lines

if TYPE_CHECKING:
    from slotwise.selector.delivered import DeliveredReport
    from slotwise.selector.rate import Rate
    from slotwise.selector.report import LinkReport, PageReport, Report

__all__ = ["MAX_ROWS", "text_table"]

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
    learned = [*visitor_lines(report.for_whom), *slot_lines(report.slots)]
    page = [*_delivered_lines(report.delivered), *_page_lines(report.page)]
    return "\n".join([*lines, "", *page, *learned, _feedback_line(report)])


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


def _interval(rate: Rate) -> str:
    return f"{rate.low:.4f} to {rate.high:.4f}"


def _delivered_lines(delivered: DeliveredReport) -> list[str]:
    """Return what page views brought so far, and whether that keeps the floor."""
    if not delivered.page_views:
        return ["delivered: nothing is settled yet"]
    clicks, revenue = delivered.clicks, delivered.revenue
    judged = f"floor {delivered.click_floor:g} {delivered.status}"
    return [
        f"delivered per page view: {clicks.estimate:.4g} clicks ({_interval(clicks)}), {judged}",
        f"                         {revenue.estimate:.4g} revenue ({_interval(revenue)})",
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
