"""The links of a pool as rows of a table: what each one does for the page, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from slotwise.service.records import LinkRecord, PoolSettings
from slotwise.service.reports import Explanation, LinkReport, PoolReport, Rate
from slotwise.service.stores.activity import Activity, LinkSpan

__all__ = ["LinkRow", "LinkRows", "LinkTable", "LinkTableQuery", "Role", "SortColumn"]

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
    views_by_span: tuple[int, ...]
    """The latest spans of time, oldest first; estimated where there are many pages."""
    clicks_by_span: tuple[int, ...]


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


class LinkTable:
    """The links of a pool; a row is made when somebody looks at it.

    `starts_us` are the spans of time to draw.
    """

    def __init__(
        self,
        pool: PoolSettings,
        links: Iterable[LinkRecord],
        report: PoolReport,
        explained: Iterable[Explanation],
        activity: Activity,
        starts_us: tuple[int, ...],
    ) -> None:
        self._pool = pool
        self._url_of = {link.link_id: link.url for link in links}
        self._explanation_of = {item.link_id: item for item in explained}
        self._links = [(link, _role(link, self._why_of(link))) for link in report.links]
        self._pending_views = activity.pending_views
        self._starts_us = starts_us
        self._spans_of: dict[str, list[LinkSpan]] = defaultdict(list)
        for span in activity.link_spans:
            self._spans_of[span.link_id].append(span)

    def select(self, asked: LinkTableQuery) -> LinkRows:
        """Return the rows that hold a text and play a role, sorted; ties stay in order."""
        wanted = asked.text.casefold()
        found = [
            (link, role)
            for link, role in self._links
            if asked.role in ("", role) and (not wanted or wanted in self._searched(link))
        ]
        down = asked.order == "down"
        found.sort(key=lambda one: self._sort_key(one[0], one[1], asked.sort), reverse=down)
        shown = found[asked.offset : asked.offset + asked.limit]
        return LinkRows(
            n_links=len(self._links),
            n_found=len(found),
            rows=tuple(self._row(link, role) for link, role in shown),
        )

    def _why_of(self, link: LinkReport) -> Explanation | None:
        return self._explanation_of.get(link.link_id)

    def _searched(self, link: LinkReport) -> str:
        return f"{link.link_id}\n{link.title}\n{self._url_of.get(link.link_id, '')}".casefold()

    def _sort_key(self, link: LinkReport, role: Role, column: SortColumn) -> float | str:
        match column:
            case "name":
                return (link.title or link.link_id).casefold()
            case "role":
                return role
            case "share":
                return link.probability
            case "settled":
                return link.click_views
            case "pending":
                return self._pending_views.get(link.link_id, 0)
            case "clicks":
                return link.click_rate.mean
            case "revenue":
                return link.revenue_per_view_micros.mean

    def _row(self, link: LinkReport, role: Role) -> LinkRow:
        in_span = {span.start_us: span for span in self._spans_of.get(link.link_id, ())}
        spans = [in_span.get(start_us) for start_us in self._starts_us]
        return LinkRow(
            link_id=link.link_id,
            title=link.title,
            url=self._url_of.get(link.link_id, ""),
            role=role,
            share=link.probability,
            settled_views=link.click_views,
            pending_views=self._pending_views.get(link.link_id, 0),
            click_rate=link.click_rate,
            revenue_per_view_micros=link.revenue_per_view_micros,
            why=_why(self._pool, role, self._why_of(link)),
            views_by_span=tuple(span.views if span else 0 for span in spans),
            clicks_by_span=tuple(span.clicks if span else 0 for span in spans),
        )


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
