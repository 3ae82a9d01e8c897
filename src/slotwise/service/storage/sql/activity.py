"""What happened in a pool since a time, summed up by the SQL of the store."""

from __future__ import annotations

from collections import defaultdict

from slotwise.service.storage.activity import (
    MAX_DELAYS,
    MAX_PAGES,
    MICROS,
    Activity,
    link_spans_of,
    spans_of,
)
from slotwise.service.storage.sql.session import SqlSession

__all__ = ["read_activity"]


def read_activity(
    session: SqlSession, pool_id: str, since_us: int, span_us: int, closed_until_us: int
) -> Activity:
    """Sum up the rows of a store.

    Equals the sums over the same views one by one, but for the views of links of more than
    `MAX_PAGES`.
    """
    asked: dict[str, object] = {
        "pool_id": pool_id,
        "since_us": since_us,
        "span_us": span_us,
        "closed_until_us": closed_until_us,
        "n_rows": MAX_DELAYS,
    }

    def rows(query: str) -> list[tuple[int, ...]]:
        return session.fetch(session.statements.activity[query], **asked)

    spans: dict[tuple[int, int], dict[str, int]] = defaultdict(dict)
    for query, names in (
        ("views", ("views",)),
        ("clicks", ("clicks", "clicks_squared")),
        ("sales", ("sales", "revenue_units", "revenue_rest")),
        ("refunds", ("refund_units", "refund_rest")),
    ):
        for span, holdout, *sums in rows(query):
            spans[span, holdout].update(zip(names, sums, strict=True))
    for sums_of_span in spans.values():
        for name, part in (("revenue_micros", "revenue"), ("refunds", "refund")):
            units = sums_of_span.pop(f"{part}_units", 0)
            sums_of_span[name] = units * MICROS + sums_of_span.pop(f"{part}_rest", 0)
    n_pages = sum(sums.get("views", 0) for sums in spans.values())
    asked["every"] = _step(n_pages)
    asked["every_open"] = _step(rows("n_open")[0][0])
    links: dict[tuple[str, int], dict[str, int]] = defaultdict(dict)
    for query, name in (("link_views", "views"), ("link_clicks", "clicks")):
        for link_id, span, total in rows(query):
            links[str(link_id), span][name] = total
    [(invalid_clicks, late_clicks)] = rows("odd_clicks")
    return Activity(
        spans=spans_of(spans, span_us),
        link_spans=link_spans_of(links, span_us),
        pending_views={str(link_id): views for link_id, views in rows("pending")},
        click_delays_us=tuple(sorted(delay for (delay,) in rows("click_delays"))),
        sale_delays_us=tuple(sorted(delay for (delay,) in rows("sale_delays"))),
        late_clicks=late_clicks,
        late_sales=rows("late_sales")[0][0],
        invalid_clicks=invalid_clicks,
        refused=rows("refused")[0][0],
    )


def _step(n_pages: int) -> int:
    """Return n such that at most `MAX_PAGES` are opened when it is every n-th."""
    return max(1, -(-n_pages // MAX_PAGES))
