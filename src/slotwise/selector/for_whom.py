"""What was learned for whom: page views, clicks and revenue by value of a feature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from slotwise.rounds import Link
from slotwise.selector.rate import Rate

__all__ = ["VisitorReport", "visitor_columns", "visitor_lines"]


@dataclass(frozen=True)
class VisitorReport:
    """What visitors with one value of one feature brought, a page view.

    `clicks` and `revenue` are means over page views whose feedback is settled, with a 95 %
    interval; `top_links` are the likeliest links on the next page of a visitor of whom only this
    is known. `click_floor` is the floor of these visitors, where they have one of their own.
    """

    feature: str
    value: str
    page_views: int
    clicks: Rate
    revenue: Rate
    top_links: tuple[Link, ...]
    click_floor: float | None = None


def visitor_columns(rows: Sequence[VisitorReport]) -> dict[str, list[object]]:
    """Return the rows as columns, as frames of polars and pandas take them."""
    columns: dict[str, list[object]] = {}
    for field in fields(VisitorReport):
        values = [getattr(row, field.name) for row in rows]
        if field.name in ("clicks", "revenue"):
            for part in ("estimate", "low", "high"):
                suffix = "" if part == "estimate" else f"_{part}"
                columns[field.name + suffix] = [getattr(rate, part) for rate in values]
        else:
            columns[field.name] = values
    return columns


def visitor_lines(rows: Sequence[VisitorReport]) -> list[str]:
    """Return a sentence for every value that was seen."""
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
