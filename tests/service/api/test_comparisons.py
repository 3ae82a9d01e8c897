"""Pools side by side and periods side by side, over HTTP, against sums by hand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import httpx
import pytest

from slotwise.service.records import SECOND_US
from slotwise.service.reporting.pool_report import compare_periods
from slotwise.service.server import BackgroundServer
from slotwise.service.storage.activity import Span
from tests.service import rows
from tests.service.conftest import Clock, problem_of

DAY_S = 86_400


def at(us: int) -> str:
    return datetime.fromtimestamp(us / SECOND_US, UTC).isoformat()


def show(
    server: BackgroundServer, admin: httpx.Client, pool: str, n_clicked: int, n_views: int
) -> None:
    """Show pages of which the first ones are clicked, at their first link."""
    for number in range(n_views):
        page = admin.post(f"/v1/pools/{pool}/decide").json()
        named = {"decision_id": page["decision_id"], "link_id": page["links"][0]["link_id"]}
        if number < n_clicked:
            admin.post("/v1/events", json={"type": "click", **named}).raise_for_status()
        if number == 0:
            sale = {"conversion_id": page["decision_id"], "revenue_micros": 7_000_000}
            event = {"type": "conversion", **named, **sale, "currency": "EUR"}
            admin.post("/v1/events", json=event).raise_for_status()
    server.context.service.flush().result()


def test_a_period_stands_beside_the_one_before(
    server: BackgroundServer,
    admin: httpx.Client,
    visitor: httpx.Client,
    pool: str,
    clock: Clock,
) -> None:
    clock.advance(10 * DAY_S)
    show(server, admin, pool, 1, 4)
    clock.advance(3 * DAY_S)
    show(server, admin, pool, 3, 5)
    clock.advance(DAY_S)
    now_us = clock()
    week = {"since": at(now_us - 2 * DAY_S * SECOND_US), "until": at(now_us)}
    address = f"/dashboard/pools/{pool}/period"
    found = visitor.get(address, params=week).json()
    totals = {
        name: {group["group"]: group for group in found[name]["totals"]}["policy"]
        for name in ("this", "before")
    }
    assert [totals["this"][name] for name in ("views", "clicks", "sales")] == [5, 3, 1]
    assert totals["this"]["revenue_micros"] == 7_000_000
    assert totals["this"]["clicks_per_view"]["mean"] == pytest.approx(0.6)
    # Four days ago: just inside the two days before.
    early = {"since": at(now_us - 3 * DAY_S * SECOND_US), "until": at(now_us)}
    found = visitor.get(address, params=early).json()
    before = {group["group"]: group for group in found["before"]["totals"]}
    assert [before["policy"][name] for name in ("views", "clicks", "sales")] == [4, 1, 1]
    assert before["holdout"]["clicks_per_view"] is None
    for wrong in (
        {"since": week["until"], "until": week["since"]},
        {"since": at(0), "until": week["until"]},
        {"since": week["since"]},
        {"since": "yesterday", "until": week["until"]},
    ):
        assert problem_of(visitor.get(address, params=wrong))["type"] == "validation"


def test_spans_are_summed_as_by_hand() -> None:
    hour_us = 3600 * SECOND_US
    spans = [
        Span(start_us=hour * hour_us, group="policy", views=10, clicks=n, clicks_squared=n)
        for hour, n in ((0, 1), (100, 2), (199, 3), (200, 4), (300, 9))
    ]
    made = compare_periods(spans, rows.pool(), hour_us, 100 * hour_us - 1, 200 * hour_us - 1)
    assert (made.this.totals[0].views, made.this.totals[0].clicks) == (20, 5)
    assert (made.before.totals[0].views, made.before.totals[0].clicks) == (10, 1)
    assert made.this.totals[1].clicks_per_view is None
    assert made.span_us == 2 * hour_us  # a hundred hours are drawn in fifty spans
    assert [span.start_us // hour_us for span in made.this.spans] == [100, 198]
    assert made.before.until_us == made.this.from_us
    assert made.before.until_us - made.before.from_us == made.this.until_us - made.this.from_us


def test_all_pools_stand_side_by_side(
    server: BackgroundServer,
    admin: httpx.Client,
    visitor: httpx.Client,
    make_pool: Callable[..., str],
    let_windows_close: Callable[[float], None],
) -> None:
    pools = [make_pool(3), make_pool(5, click_floor=0.0)]
    show(server, admin, pools[0], 2, 4)
    let_windows_close(2 * DAY_S)
    admin.delete(f"/v1/pools/{pools[1]}").raise_for_status()
    rows = {row["pool_id"]: row for row in visitor.get("/dashboard/overview").json()["pools"]}
    found = visitor.get("/dashboard/overview").json()
    ids = [row["pool_id"] for row in found["pools"]]
    pages = [
        visitor.get("/dashboard/overview", params={"offset": k, "limit": 1}).json()
        for k in range(len(ids) + 1)
    ]
    assert {page["n_pools"] for page in pages} == {found["n_pools"]} == {len(ids)}
    assert [[row["pool_id"] for row in page["pools"]] for page in pages] == [
        *([one] for one in ids),
        [],
    ]
    assert visitor.get("/dashboard/overview", params={"limit": 201}).status_code == 422
    stats = admin.get(f"/v1/pools/{pools[0]}/stats").json()
    for name in ("floor", "clicks_delivered", "groups", "lift"):
        assert rows[pools[0]][name] == stats[name]
    assert rows[pools[0]]["clicks_delivered"]["mean"] == pytest.approx(0.5)
    assert (rows[pools[0]]["n_links"], rows[pools[0]]["archived"]) == (3, False)
    assert rows[pools[1]]["archived"]
