"""Floors of segments over HTTP: taken, refused, answered, measured and told."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from slotwise.service.server import BackgroundServer
from tests.service.conftest import POOL, problem_of

FEATURES = {"device": ["phone", "desktop"], "country": "text", "returning": "bool", "days": [1, 7]}
FLOORS = {"country": {"DE": 0.4}, "returning": {"yes": 0.3}, "days": {"1 to 7": 0.2}}
LABELLED = FLOORS | {"returning": {"True": 0.3}}


def new_pool(admin: httpx.Client, pool_id: str) -> None:
    body = POOL | {
        "policy": {"name": "paced-bayes"},
        "features": FEATURES,
        "segment_floors": FLOORS,
    }
    admin.put(f"/v1/pools/{pool_id}", json=body).raise_for_status()
    links = [{"link_id": one, "url": f"https://shop.example/{one}"} for one in ("l1", "l2", "l3")]
    admin.post(f"/v1/pools/{pool_id}/links:batch", json={"links": links}).raise_for_status()


@pytest.fixture(scope="module")
def floors(admin: httpx.Client) -> httpx.Client:
    """Return a client of a server with the pool `floors`, which no test changes."""
    new_pool(admin, "floors")
    return admin


@pytest.fixture
def changing(admin: httpx.Client) -> httpx.Client:
    """Return a client of a server with the pool `changing`, as new."""
    new_pool(admin, "changing")
    return admin


def test_floors_are_answered_by_the_labels_of_values(changing: httpx.Client) -> None:
    assert changing.get("/v1/pools/changing").json()["segment_floors"] == LABELLED
    patched = changing.patch("/v1/pools/changing", json={"click_floor": 0.1}).json()
    assert patched["segment_floors"] == LABELLED
    fewer = changing.patch("/v1/pools/changing", json={"segment_floors": {"country": {}}}).json()
    assert fewer["segment_floors"] == {}
    assert changing.get("/v1/pools/changing/stats").json()["segment_floors"] == []


@pytest.mark.parametrize(
    ("segment_floors", "sentence"),
    [
        ({"browser": {"lynx": 0.3}}, "declared features (device, country, returning, days)"),
        ({"device": {"fridge": 0.3}}, "values of device ((not known), phone, desktop)"),
        ({"device": {"phone": 2}}, "below slots (2) for device phone, got 2.0"),
        ({"days": {"1": 0.1}}, "values of days ((not known), below 1, 1 to 7, from 7), got '1'"),
        ({"returning": {"yes": 0.1, "True": 0.2}}, "one floor for each value of returning"),
        ({"country": {"\u0000": 0.1}}, "at most 100 printable characters"),
        ({"country": {"x" * 100_000: 0.1}}, "at most 100 printable characters"),
        ({"device": {"phone": -1}}, "must be a number, at least 0"),
        ({"device": {"phone": "0.3"}}, "must be a number"),
        ({"device": {"phone": True}}, "must be a number"),
        ({"device": {"phone": None}}, "must be a number"),
        ({"device": {"phone": 1e308}}, "must be a number, less than"),
        ({"device": 0.3}, "must be an object"),
        ([["device", "phone", 0.3]], "must be an object"),
        ({"country": {f"c{k}": 0.1 for k in range(5_000)}}, "length at most 32"),
        ({f"f{k}": {} for k in range(17)}, "length at most 16"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(
    floors: httpx.Client, segment_floors: Any, sentence: str
) -> None:
    refused = floors.patch("/v1/pools/floors", json={"segment_floors": segment_floors})
    assert refused.status_code == 422, refused.text
    [error] = problem_of(refused)["errors"]
    assert error["pointer"].startswith("/segment_floors")
    assert sentence in error["detail"]
    assert len(error["detail"]) < 400
    assert floors.get("/v1/pools/floors").json()["segment_floors"] == LABELLED


def test_a_feature_with_a_floor_cannot_be_taken_away(changing: httpx.Client) -> None:
    refused = changing.patch("/v1/pools/changing", json={"features": {"device": ["phone"]}})
    assert problem_of(refused)["errors"][0]["pointer"] == "/segment_floors"
    both = {"features": {"device": ["phone"]}, "segment_floors": {"device": {"phone": 0.1}}}
    assert changing.patch("/v1/pools/changing", json=both).status_code == 200
    ucb = {"policy": {"name": "con-ucb", "settings": {"horizon": 100}}}
    refused = changing.patch("/v1/pools/changing", json=ucb)
    assert problem_of(refused)["errors"][0]["pointer"] == "/policy/name"


def test_a_decision_says_which_floors_held(changing: httpx.Client) -> None:
    said = {"device": "phone", "country": "DE", "returning": True}
    page = changing.post("/v1/pools/changing/decide", json={"visitor": said}).json()
    other = changing.post("/v1/pools/changing/decide", json={"visitor": {"country": "FR"}}).json()
    changing.patch("/v1/pools/changing", json={"segment_floors": {"country": {"DE": 0.1}}})
    later = changing.post("/v1/pools/changing/decide", json={"visitor": said}).json()

    def held(answer: dict[str, Any]) -> dict[tuple[str, str], float]:
        report = changing.get(f"/v1/decisions/{answer['decision_id']}").json()
        rows = report["segment_floors"]
        return {(row["feature"], row["value"]): row["click_floor"] for row in rows}

    assert held(page) == {("country", "DE"): 0.4, ("returning", "True"): 0.3}
    assert held(other) == {}
    assert held(later) == {("country", "DE"): 0.1}


def test_it_is_told_whether_they_are_kept(floors: httpx.Client) -> None:
    stats = floors.get("/v1/pools/floors/stats").json()["segment_floors"]
    assert [(one["feature"], one["value"]) for one in stats] == [
        ("country", "DE"),
        ("returning", "True"),
        ("days", "1 to 7"),
    ]
    assert {one["floor"]["status"] for one in stats} == {"learning"}
    values = floors.get("/v1/pools/floors/explain").json()["segments"]["values"]
    told = {(one["feature"], one["value"]): one["floor"] for one in values if one["floor"]}
    assert told["country", "DE"]["floor"]["clicks"] == 0.4
    assert set(told) == {("country", "DE"), ("returning", "True"), ("days", "1 to 7")}
    families = text_string_to_metric_families(floors.get("/metrics").text)
    [family] = [one for one in families if one.name == "slotwise_pool_segment_floor"]
    rows = [one for one in family.samples if one.labels["pool"] == "floors"]
    assert len(rows) == 9
    assert sum(one.value for one in rows) == 3
    assert {one.labels["status"] for one in rows if one.value} == {"learning"}


def test_many_changes_at_once_leave_one_of_them(
    changing: httpx.Client, server: BackgroundServer
) -> None:
    asked = [{"country": {"DE": k / 100, f"c{k}": 0.1}} for k in range(1, 9)]

    def change(segment_floors: Any) -> int:
        return changing.patch(
            "/v1/pools/changing", json={"segment_floors": segment_floors}
        ).status_code

    with ThreadPoolExecutor(4) as threads:
        decided = threads.submit(
            lambda: [
                changing.post("/v1/pools/changing/decide", json={"visitor": {"country": "DE"}})
                for _ in range(50)
            ]
        )
        assert set(threads.map(change, asked)) == {200}
    assert {one.status_code for one in decided.result()} == {200}
    stored = changing.get("/v1/pools/changing").json()["segment_floors"]
    assert stored in asked
    told = changing.get("/v1/pools/changing/stats").json()["segment_floors"]
    assert {one["value"]: one["floor"]["clicks"] for one in told} == stored["country"]
    health = {one.pool_id: one for one in server.context.service.health().pools}
    assert (health["changing"].failure, health["changing"].fallback) == ("", "")
