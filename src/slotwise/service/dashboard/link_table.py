"""The links of a pool as rows of a table: what each one does for the page, and why."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from slotwise.service.records import LinkRecord, PoolSettings
from slotwise.service.reports import Explanation, LinkReport, PoolReport, Rate
from slotwise.service.stores.activity import Activity

__all__ = [
    "LinkRow",
    "LinkRows",
    "LinkTableQuery",
    "Role",
    "SortColumn",
    "link_rows",
    "select_rows",
]

Role = Literal["earner", "click carrier", "exploring", "resting", "retired"]
SortColumn = Literal["name", "role", "share", "settled", "pending", "clicks", "revenue"]

MIN_VIEWS = 100
"""With fewer settled views a link is still being tried."""
SHOWN = 0.01
"""A link on fewer pages than this rests."""


class LinkRow(msgspec.Struct, frozen=True, kw_only=True):
    """One link as a merchandiser sees it."""

    link_id: str
    title: str
    url: str
    role: Role
    share: float
    """The chance that a page has the link."""
    settled_views: int
    pending_views: int
    click_rate: Rate
    revenue_per_view_micros: Rate
    why: str
    clicks_by_span: tuple[int, ...]
    """The latest spans of time, oldest first."""


class LinkTableQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which rows, in which order."""

    text: Annotated[str, Meta(max_length=200)] = ""
    role: Role | Literal[""] = ""
    sort: SortColumn = "share"
    order: Literal["up", "down"] = "down"
    offset: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    limit: Annotated[int, Meta(ge=1, le=200)] = 25


class LinkRows(msgspec.Struct, frozen=True, kw_only=True):
    """Some rows of the table."""

    n_links: int
    n_found: int
    """How many the filter leaves."""
    rows: tuple[LinkRow, ...]


def link_rows(
    pool: PoolSettings,
    links: Iterable[LinkRecord],
    report: PoolReport,
    explained: Iterable[Explanation],
    activity: Activity,
    starts_us: tuple[int, ...],
) -> list[LinkRow]:
    """Return a row for each link; `starts_us` are the spans of time to draw."""
    url_of = {link.link_id: link.url for link in links}
    explanation_of = {item.link_id: item for item in explained}
    clicks: dict[str, dict[int, int]] = {}
    for span in activity.link_spans:
        clicks.setdefault(span.link_id, {})[span.start_us] = span.clicks
    rows = []
    for link in report.links:
        explanation = explanation_of.get(link.link_id)
        role = _role(link, explanation)
        in_span = clicks.get(link.link_id, {})
        rows.append(
            LinkRow(
                link_id=link.link_id,
                title=link.title,
                url=url_of.get(link.link_id, ""),
                role=role,
                share=link.probability,
                settled_views=link.click_views,
                pending_views=activity.pending_views.get(link.link_id, 0),
                click_rate=link.click_rate,
                revenue_per_view_micros=link.revenue_per_view_micros,
                why=_why(pool, role, explanation),
                clicks_by_span=tuple(in_span.get(start_us, 0) for start_us in starts_us),
            )
        )
    return rows


def _role(link: LinkReport, explanation: Explanation | None) -> Role:
    if link.retired:
        return "retired"
    if link.click_views < MIN_VIEWS or explanation is None:
        return "exploring"
    if link.probability < SHOWN:
        return "resting"
    price = explanation.shadow_price
    if price is None or price * explanation.click_rate > explanation.revenue_rate:
        return "click carrier"
    return "earner"


def _why(pool: PoolSettings, role: Role, explanation: Explanation | None) -> str:
    """Say in one or two sentences why a link is shown as often as it is."""
    if role == "retired":
        return "It is retired: shown no more, still counted."
    if explanation is None:
        return "It is new: the next version of the page decides about it."

    def money(share: float) -> str:
        return f"{share * pool.max_revenue_micros / 1e6:,.4f} {pool.currency}"

    price = explanation.shadow_price
    if price is None:
        worth, needed = f"{explanation.click_rate:.3f} clicks", f"{explanation.threshold:.3f}"
        known = f"No page reaches the floor, so clicks alone count: about {worth} a view"
    else:
        known = f"A view brings about {money(explanation.revenue_rate)}"
        if price > 0:
            known += f", and its clicks are worth {money(price * explanation.click_rate)} more"
        needed = money(explanation.threshold)
    if role == "exploring":
        return f"It is tried to learn more about it. {known}."
    if role == "resting":
        return f"{known}. A place on the page takes {needed}."
    return f"{known}. It earns its place: a place takes {needed}."


def _sort_key(row: LinkRow, column: SortColumn) -> float | str:
    match column:
        case "name":
            return (row.title or row.link_id).casefold()
        case "role":
            return row.role
        case "share":
            return row.share
        case "settled":
            return row.settled_views
        case "pending":
            return row.pending_views
        case "clicks":
            return row.click_rate.mean
        case "revenue":
            return row.revenue_per_view_micros.mean


def select_rows(rows: list[LinkRow], asked: LinkTableQuery) -> LinkRows:
    """Return the rows that hold a text and play a role, sorted; ties stay in order."""
    wanted = asked.text.casefold()
    found = [
        row
        for row in rows
        if asked.role in ("", row.role)
        and wanted in f"{row.link_id}\n{row.title}\n{row.url}".casefold()
    ]
    found.sort(key=lambda row: _sort_key(row, asked.sort), reverse=asked.order == "down")
    return LinkRows(
        n_links=len(rows),
        n_found=len(found),
        rows=tuple(found[asked.offset : asked.offset + asked.limit]),
    )
