"""Reports, export, health and metrics over HTTP."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pyarrow.parquet as pq
import pytest
from prometheus_client.parser import text_string_to_metric_families

from slotwise.client import count_links, read_rounds
from slotwise.errors import MissingData
from slotwise.evaluation import BestMix, evaluate
from slotwise.service.api.bodies import answer_type
from slotwise.service.observability import METRICS
from slotwise.service.refusals import StoreUnavailable
from slotwise.service.reporting.report_records import (
    DecisionReport,
    FrontierReport,
    PoolReport,
    RoundRow,
)
from slotwise.service.server import BackgroundServer
from tests.service.api.test_decide import teach
from tests.service.conftest import problem_of


@pytest.fixture
def taught(
    admin: httpx.Client,
    make_pool: Callable[..., str],
    let_windows_close: Callable[[float], None],
) -> str:
    """Return a pool that has learned from some hundred views."""
    pool = make_pool(6, click_window_s=1, revenue_window_s=1, holdout=0.2)
    teach(admin, pool)
    let_windows_close(2)
    return pool


def test_stats_add_up_and_read_back_as_their_type(admin: httpx.Client, taught: str) -> None:
    answer = admin.get(f"/v1/pools/{taught}/stats")
    assert answer.status_code == 200, answer.text
    msgspec.json.decode(answer.content, type=answer_type(PoolReport))
    stats = answer.json()
    assert sum(link["click_views"] for link in stats["links"]) == 800
    assert sum(link["clicks"] for link in stats["links"]) > 0
    assert {group["group"] for group in stats["groups"]} == {"policy", "holdout"}
    assert sum(group["click_views"] for group in stats["groups"]) == 400
    for link in stats["links"]:
        rate = link["click_rate"]
        assert 0 <= rate["low"] <= rate["mean"] <= rate["high"] <= 1


def test_the_frontier_falls_and_ends_at_the_most_clicks(admin: httpx.Client, taught: str) -> None:
    answer = admin.get(f"/v1/pools/{taught}/frontier")
    msgspec.json.decode(answer.content, type=answer_type(FrontierReport))
    points = answer.json()["points"]
    floors = [point["click_floor"] for point in points]
    revenues = [point["revenue"] for point in points]
    assert floors == sorted(floors)
    assert revenues == sorted(revenues, reverse=True)


def test_every_active_link_is_explained(admin: httpx.Client, taught: str) -> None:
    admin.delete(f"/v1/pools/{taught}/links/l6")
    explained = admin.get(f"/v1/pools/{taught}/explain").json()["links"]
    assert [link["link_id"] for link in explained] == ["l1", "l2", "l3", "l4", "l5"]
    assert all(link["reason"] for link in explained)


def test_a_decision_reads_back_as_its_type(admin: httpx.Client, pool: str) -> None:
    page = admin.post(f"/v1/pools/{pool}/decide").json()
    answer = admin.get(f"/v1/decisions/{page['decision_id']}")
    msgspec.json.decode(answer.content, type=answer_type(DecisionReport))
    shown = answer.json()["decision"]["shown"]
    assert [one["link_id"] for one in shown] == [link["link_id"] for link in page["links"]]
    assert [one["propensity"] for one in shown] == [link["propensity"] for link in page["links"]]


def test_the_round_log_is_the_same_in_both_forms(admin: httpx.Client, taught: str) -> None:
    lines = admin.get(f"/v1/pools/{taught}/export")
    assert lines.headers["content-type"] == "application/jsonl"
    rows = msgspec.json.Decoder(RoundRow).decode_lines(lines.content)
    assert len(rows) == 400
    assert all(row.clicks_settled and row.revenue_settled for row in rows)
    parquet = admin.get(f"/v1/pools/{taught}/export", params={"format": "parquet"})
    table = pq.read_table(io.BytesIO(parquet.content)).to_pylist(maps_as_pydicts="strict")
    as_lists = [msgspec.json.decode(msgspec.json.encode(row)) for row in rows]
    assert table == as_lists


def test_the_round_log_can_be_cut_by_time(admin: httpx.Client, pool: str) -> None:
    pages = [admin.post(f"/v1/pools/{pool}/decide").json() for _ in range(4)]
    admin.get(f"/v1/decisions/{pages[-1]['decision_id']}")
    query = {"since": pages[1]["issued_at"], "until": pages[3]["issued_at"]}
    cut = admin.get(f"/v1/pools/{pool}/export", params=query).text.splitlines()
    ids = [msgspec.json.decode(line)["decision_id"] for line in cut]
    assert ids == [page["decision_id"] for page in pages[1:3]]


def test_an_export_without_the_store_is_refused(
    server: BackgroundServer, admin: httpx.Client, pool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*arguments: object) -> Iterator[list[RoundRow]]:
        raise StoreUnavailable("the store is away")
        yield []

    monkeypatch.setattr(server.context.service.reporter, "export", away)
    refused = admin.get(f"/v1/pools/{pool}/export")
    assert refused.status_code == 503
    assert problem_of(refused)["type"] == "store-away"


@pytest.mark.parametrize("report", ["stats", "frontier", "explain", "export"])
def test_reports_of_unknown_pools_are_not_found(admin: httpx.Client, report: str) -> None:
    assert problem_of(admin.get(f"/v1/pools/none/{report}"))["type"] == "unknown-pool"


@pytest.mark.parametrize("report", ["stats", "frontier", "explain", "export"])
def test_a_pool_that_has_seen_nothing_still_reports(
    admin: httpx.Client, make_pool: Callable[..., str], report: str
) -> None:
    for n_links in (0, 1, 3):
        assert admin.get(f"/v1/pools/{make_pool(n_links)}/{report}").status_code == 200


def test_the_service_is_alive_and_ready(visitor: httpx.Client) -> None:
    assert visitor.get("/healthz").json() == {"status": "ok"}
    assert visitor.get("/readyz").json() == {
        "ready": True,
        "store_available": True,
        "learning": True,
    }


def test_a_stopping_service_sends_traffic_elsewhere(
    server: BackgroundServer, visitor: httpx.Client
) -> None:
    server.context.stopping = True
    try:
        answer = visitor.get("/readyz")
        assert visitor.get("/healthz").status_code == 200
    finally:
        server.context.stopping = False
    assert problem_of(answer)["type"] == "stopping"


def metrics_of(admin: httpx.Client) -> dict[tuple[str, frozenset[str]], float]:
    """Return each value by the metric's name and the set of its labels' values."""
    return {
        (sample.name, frozenset(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(admin.get("/metrics").text)
        for sample in family.samples
    }


def test_metrics_count_what_happened(admin: httpx.Client, pool: str) -> None:
    before = metrics_of(admin)
    page: dict[str, Any] = {}
    for _ in range(3):
        page = admin.post(f"/v1/pools/{pool}/decide").json()
    click = {
        "type": "click",
        "decision_id": page["decision_id"],
        "link_id": page["links"][0]["link_id"],
    }
    admin.post("/v1/events", json=click)
    admin.post("/v1/events", json=click)
    after = metrics_of(admin)

    def grew(name: str, *labels: str) -> float:
        key = (name, frozenset(labels))
        return after.get(key, 0) - before.get(key, 0)

    assert grew("slotwise_decisions_total", pool, "policy") == 3
    assert grew("slotwise_requests_total", "decide", "200") == 3
    assert grew("slotwise_request_seconds_count", "decide") == 3
    assert grew("slotwise_events_total", "click", "accepted") == 1
    assert grew("slotwise_events_total", "click", "duplicate") == 1
    assert after["slotwise_ready", frozenset()] == 1
    assert after["slotwise_store_available", frozenset()] == 1
    assert after["slotwise_pool_version", frozenset({pool})] >= 1


def test_every_metric_is_exposed(admin: httpx.Client, taught: str) -> None:
    page = admin.post(f"/v1/pools/{taught}/decide").json()
    admin.get(page["links"][0]["click_url"])
    text = admin.get("/metrics").text
    exposed = set(re.findall(r"^# HELP (\w+)", text, re.MULTILINE))
    assert exposed == set(METRICS)


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_the_library_counts_an_export_as_the_service_does(
    admin: httpx.Client, taught: str, tmp_path: Path, form: str
) -> None:
    file = tmp_path / f"rounds.{form}"
    file.write_bytes(admin.get(f"/v1/pools/{taught}/export", params={"format": form}).content)
    counts = count_links(read_rounds(file))
    stats = admin.get(f"/v1/pools/{taught}/stats").json()
    for link in stats["links"]:
        link_id = link["link_id"]
        assert counts.click_views[link_id] == link["click_views"]
        assert counts.clicks[link_id] == link["clicks"]
        assert counts.revenue_views[link_id] == link["revenue_views"]
        earned = counts.revenue[link_id] * 50_000_000
        assert earned == pytest.approx(link["revenue_micros"])


def test_an_export_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match=r"`file` must be an export that exists, got '.*none'"):
        list(read_rounds(tmp_path / "none"))


def test_the_log_is_downloaded_and_asked(admin: httpx.Client, taught: str, tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    answer = admin.get(f"/v1/pools/{taught}/export", params={"format": "log"})
    assert "log.parquet" in answer.headers["content-disposition"]
    path.write_bytes(answer.content)
    told = evaluate(path, BestMix(0.5))
    asked = admin.get(f"/v1/pools/{taught}/evaluate", params={"click_floor": 0.5}).json()
    assert asked["revenue"]["value"] == pytest.approx(told.revenue.value)
    assert asked["n_pages"] == told.n_pages
    refused = admin.get(f"/v1/pools/{taught}/evaluate", params={"click_floor": 50})
    assert "must be below slots" in problem_of(refused)["detail"]


def test_evaluate_says_when_the_log_cannot_tell(
    admin: httpx.Client, make_pool: Callable[..., str]
) -> None:
    pool = make_pool(6)
    asked = admin.get(f"/v1/pools/{pool}/evaluate", params={"click_floor": 0.5})
    assert asked.status_code == 200
    said = asked.json()
    assert said["cannot_tell"].startswith("The log cannot tell: it has 0 settled pages")
    assert said["revenue"] is None
