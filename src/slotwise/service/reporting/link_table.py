"""The table of a pool's links: the role of each link, and why it is shown.

Used by `overview` and `api`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from slotwise.service.limits import MAX_TITLE_CHARS
from slotwise.service.records import LinkRecord, PoolSettings, time_if_any
from slotwise.service.reporting.pool_report import describe_worth
from slotwise.service.reporting.report_records import (
    Explanation,
    LinkStatistics,
    PoolReport,
    RateReport,
)
from slotwise.service.reporting.segments import MOST_LIKELY
from slotwise.service.storage.activity import Activity, LinkSpan

Role = Literal["pinned", "earner", "click carrier", "exploring", "resting", "retired"]
SortColumn = Literal["name", "role", "share", "settled", "pending", "clicks", "revenue"]

MIN_VIEWS = 100
"""With fewer settled views a link is still being tried."""
SHOWN = 0.01
"""A link on a smaller share of pages than this, apart from exploration, is resting."""
NEAR = 0.9
"""A link whose score is above this share of the best page's threshold may be on some pages."""


class LinkRow(msgspec.Struct, frozen=True, kw_only=True):
    """One link, as shown to a merchandiser."""

    link_id: str
    title: str
    url: str
    group: str
    starts_at: datetime | None
    ends_at: datetime | None
    role: Role
    share: float
    """The present inclusion probability of the link, which determines `role`."""
    share_lately: float | None
    """The share of the latest views that showed it; None without views."""
    settled_views: int
    pending_views: int
    click_rate: RateReport
    revenue_per_view_micros: RateReport
    why: str
    views_by_span: tuple[int, ...]
    """The latest spans of time, oldest first; estimated where there are many pages."""
    clicks_by_span: tuple[int, ...]


class LinkTableQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which rows to return, in which order."""

    text: Annotated[str, Meta(max_length=MAX_TITLE_CHARS)] = ""
    role: Role | Literal[""] = ""
    sort: SortColumn = "share"
    order: Literal["up", "down"] = "down"
    offset: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    limit: Annotated[int, Meta(ge=1, le=200)] = 25


class LinkRows(msgspec.Struct, frozen=True, kw_only=True):
    """Some rows of the table."""

    n_links: int
    n_found: int
    """The number of rows that match the filter."""
    rows: tuple[LinkRow, ...]


class LinkTable:
    """The links of a pool; rows are made on request.

    `starts_us` are the spans of time in the charts.
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
        links = list(links)
        self._link_of = {link.link_id: link for link in links}
        self._imported = {link.link_id for link in links if link.start_counts}
        self._explanation_of = {item.link_id: item for item in explained}
        n_links = len(self._explanation_of)
        self._links = [
            (link, _role(pool, link, self._explanation(link), n_links)) for link in report.links
        ]
        self._pending_views = activity.pending_views
        self._starts_us = starts_us
        self._n_pages = sum(span.views for span in activity.spans)
        self._spans_of: dict[str, list[LinkSpan]] = defaultdict(list)
        for span in activity.link_spans:
            self._spans_of[span.link_id].append(span)

    def select(self, query: LinkTableQuery) -> LinkRows:
        """Return the rows that contain a text and have a role, sorted; the sort is stable."""
        wanted = query.text.casefold()
        found = [
            (link, role)
            for link, role in self._links
            if query.role in ("", role) and (not wanted or wanted in self._searched(link))
        ]
        down = query.order == "down"
        found.sort(key=lambda one: self._sort_key(one[0], one[1], query.sort), reverse=down)
        shown = found[query.offset : query.offset + query.limit]
        return LinkRows(
            n_links=len(self._links),
            n_found=len(found),
            rows=tuple(self._row(link, role) for link, role in shown),
        )

    def _why(self, link: LinkStatistics, role: Role) -> str:
        if role == "exploring" and link.click_views == 0 and link.link_id in self._imported:
            return "It starts from the counts that were imported; no view of its own has settled."
        return _why(self._pool, link, role, self._explanation(link))

    def _explanation(self, link: LinkStatistics) -> Explanation | None:
        return self._explanation_of.get(link.link_id)

    def _searched(self, link: LinkStatistics) -> str:
        return f"{link.link_id}\n{link.title}\n{self._stored(link).url}".casefold()

    def _stored(self, link: LinkStatistics) -> LinkRecord:
        """Return a link's record in the pool; it may have been added since the table was made."""
        return self._link_of.get(link.link_id, LinkRecord(self._pool.pool_id, link.link_id, ""))

    def _sort_key(self, link: LinkStatistics, role: Role, column: SortColumn) -> float | str:
        match column:
            case "name":
                return (link.title or link.link_id).casefold()
            case "role":
                return role
            case "share":
                lately = self._share_lately(link.link_id)
                return self._share(link) if lately is None else lately
            case "settled":
                return link.click_views
            case "pending":
                return self._pending_views.get(link.link_id, 0)
            case "clicks":
                return link.click_rate.mean
            case "revenue":
                return link.revenue_per_view_micros.mean

    def _share(self, link: LinkStatistics) -> float:
        explanation = self._explanation(link)
        return link.probability if explanation is None else explanation.probability

    def _share_lately(self, link_id: str) -> float | None:
        if not self._n_pages:
            return None
        n_views = sum(span.views for span in self._spans_of.get(link_id, ()))
        return min(n_views / self._n_pages, 1.0)

    def _row(self, link: LinkStatistics, role: Role) -> LinkRow:
        in_span = {span.start_us: span for span in self._spans_of.get(link.link_id, ())}
        spans = [in_span.get(start_us) for start_us in self._starts_us]
        stored = self._stored(link)
        return LinkRow(
            link_id=link.link_id,
            title=link.title,
            url=stored.url,
            group=stored.group,
            starts_at=time_if_any(stored.starts_us),
            ends_at=time_if_any(stored.ends_us),
            role=role,
            share=self._share(link),
            share_lately=self._share_lately(link.link_id),
            settled_views=link.click_views,
            pending_views=self._pending_views.get(link.link_id, 0),
            click_rate=link.click_rate,
            revenue_per_view_micros=link.revenue_per_view_micros,
            why=self._why(link, role),
            views_by_span=tuple(span.views if span else 0 for span in spans),
            clicks_by_span=tuple(span.clicks if span else 0 for span in spans),
        )


def _pin_of(pool: PoolSettings, link: LinkStatistics) -> int | None:
    """Return the position at which a link is pinned."""
    return next((pin.position for pin in pool.pins if pin.link_id == link.link_id), None)


def _role(
    pool: PoolSettings, link: LinkStatistics, explanation: Explanation | None, n_links: int
) -> Role:
    if link.retired:
        return "retired"
    if _pin_of(pool, link) is not None:
        return "pinned"
    if link.click_views < MIN_VIEWS or explanation is None:
        return "exploring"
    # An average over the latest versions: a policy may keep the floor by alternating pages.
    random = min(pool.slots / n_links, 1.0)
    if explanation.probability - pool.explore * random < SHOWN:
        return "resting"
    # Shown less often than on random pages, with a score far below the threshold: exploration.
    if explanation.probability < random and explanation.score < NEAR * explanation.threshold:
        return "exploring"
    price = explanation.shadow_price
    if price is None or price * explanation.click_rate > explanation.revenue_rate:
        return "click carrier"
    if link.revenue_micros <= 0:  # nothing was sold yet, although the estimate is not 0
        return "click carrier" if price else "exploring"
    return "earner"


def _why(
    pool: PoolSettings, link: LinkStatistics, role: Role, explanation: Explanation | None
) -> str:
    """Return two or three short sentences on why a link is shown as often as it is."""
    if role == "retired":
        return "It is retired: it is no longer shown, and late feedback still counts."
    if explanation is None or link.click_views == 0:
        return "Nothing is known about it yet: it is shown to learn."
    position = _pin_of(pool, link)
    if position is not None:
        return f"It is pinned to position {position} of every page."
    if role == "exploring" and link.click_views < MIN_VIEWS:
        return f"It has fewer than {MIN_VIEWS} settled views: it is shown to learn more."
    if role == "exploring" and link.revenue_micros <= 0:
        return "It has no sale yet: it is shown to learn more."
    known = describe_worth(pool, explanation)
    if explanation.segments.startswith(MOST_LIKELY):
        return f"{known} These are averages over visitors: it is {explanation.segments}."
    earns = explanation.score >= explanation.threshold * (1 - 1e-6)
    if earns and role == "resting":
        return f"{known} It is shown on some pages in turn, and is not shown at the moment."
    if earns:
        return f"{known} It is on the best page."
    if role == "resting":
        return known
    if role == "exploring":
        return f"{known} It is shown to learn more about it."
    return f"{known} It is shown on some pages in turn, or to learn more about it."
