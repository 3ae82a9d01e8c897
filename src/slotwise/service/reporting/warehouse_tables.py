"""The tables of the export to a data warehouse: their columns, and the row of each record.

`warehouse` writes them as Parquet files, a folder for each table. The columns of a table are in the
order of the row that its function returns. Used by `warehouse`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from operator import attrgetter
from typing import Any

import pyarrow as pa
from msgspec.structs import astuple

from slotwise.service.counting.attribution import StoredEvent, View, attribute
from slotwise.service.records import DAY_US, DecisionRecord, LinkRecord
from slotwise.service.reporting.page_view_files import ExportTable

_TYPES = {
    "text": pa.string(),
    "time": pa.timestamp("us", "UTC"),
    "day": pa.date32(),
    "flag": pa.bool_(),
    "whole": pa.int64(),
    "real": pa.float64(),
    "texts": pa.map_(pa.string(), pa.string()),
}


def _columns(text: str, **others: pa.DataType) -> pa.Schema:
    """Return columns that are written as `name:type`, and `others`."""
    named = [pair.split(":") for pair in text.split()]
    return pa.schema([*((name, _TYPES[kind]) for name, kind in named), *others.items()])


def _list_of(columns: str) -> pa.DataType:
    return pa.list_(pa.struct(list(_columns(columns))))


_PAGE = (
    "decision_id:text pool_id:text issued:time page_group:text group_probability:real "
    "policy:text policy_version:whole "
    "key_id:text currency:text max_revenue_micros:whole issued_day:day "
)
_SHOWN = "link_id:text position:whole probability:real "
"""Columns of every table of pages, and of each link shown; rows begin with those of a page."""
_page_fields = attrgetter(
    *("decision_id", "pool_id", "issued_us", "group", "group_probability"),
    *("policy", "policy_version"),
    *("key_id", "currency", "max_revenue_micros"),
)
_window_fields = attrgetter(
    *("stored_us", "click_closes_us", "revenue_until_us", "revenue_closes_us"),
    *("fallback", "floor.clicks", "floor.status"),
)


def _page(decision: DecisionRecord) -> tuple[Any, ...]:
    return (*_page_fields(decision), decision.issued_us // DAY_US)


def _decision(decision: DecisionRecord) -> tuple[object, ...]:
    shown, visitor = list(map(astuple, decision.shown)), list(decision.visitor.items())
    return (*_page(decision), *_window_fields(decision), shown, visitor)


def _event(stored: StoredEvent) -> tuple[object, ...]:
    event, of = stored.event, partial(getattr, stored.event)
    amount = of("revenue_micros", of("refund_micros", None))
    ids = [of(name, None) for name in ("decision_id", "link_id", "conversion_id", "adjustment_id")]
    rest = (of("currency", None), of("invalid", ""), stored.received_us, event.client_time)
    return (event.kind, *ids, amount, *rest)


def _settled_view(view: View) -> tuple[object, ...]:
    decision = view.decision
    clicked: frozenset[str] = frozenset()
    revenue: Mapping[str, int] = {}
    if view.clicks:  # without a click nothing can have counted
        counted = attribute(view, decision.revenue_closes_us)
        clicked, revenue = counted.clicked, counted.revenue_micros
    links = [
        (*astuple(shown), shown.link_id in clicked, revenue.get(shown.link_id, 0))
        for shown in decision.shown
    ]
    total = sum(revenue.values())
    return (*_page(decision), decision.revenue_closes_us, len(clicked), total, links)


def _link(link: LinkRecord) -> tuple[object, ...]:
    ids = (link.pool_id, link.link_id)
    return (*ids, link.title, link.url, link.retired, link.counted_from_us or None)


SLICED = {
    "decisions": ExportTable(
        _columns(
            f"{_PAGE} stored:time click_closes:time revenue_until:time revenue_closes:time "
            "fallback:text click_floor:real floor_status:text",
            links=_list_of(_SHOWN),
            visitor=_TYPES["texts"],
        ),
        _decision,
    ),
    "events": ExportTable(
        _columns(
            "type:text decision_id:text link_id:text conversion_id:text adjustment_id:text "
            "amount_micros:whole currency:text invalid:text received:time client_time:text"
        ),
        _event,
    ),
    "settled_views": ExportTable(
        _columns(
            f"{_PAGE} settled:time clicks:whole revenue_micros:whole",
            links=_list_of(f"{_SHOWN} clicked:flag revenue_micros:whole"),
        ),
        _settled_view,
    ),
}
"""Tables with a file for each slice: decisions by the time they were stored, events by the time
they were received, page views that count by the time when their last window closed."""

WHOLE = {
    "links": ExportTable(
        _columns("pool_id:text link_id:text title:text url:text retired:flag counted_from:time"),
        _link,
    ),
    "forgotten": ExportTable(_columns("key_id:text since:time forgotten:time"), tuple),
}
"""Small tables that are rewritten with every new slice: the present links, and keys whose views
were excluded, possibly after they had been exported."""
