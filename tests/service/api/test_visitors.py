"""Features and visitors over HTTP: what is taken, what is refused, and what is answered."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from slotwise.service.server import BackgroundServer
from tests.service.conftest import POOL, problem_of

FEATURES = {"device": ["phone", "desktop"], "country": "text", "returning": "bool", "days": [1, 7]}
CHANGED = POOL | {"policy": {"name": "paced-bayes"}, "features": FEATURES}


@pytest.fixture(scope="module")
def whom(admin: httpx.Client) -> tuple[httpx.Client, str]:
    """Return a client and the address of pages of a pool that no test changes."""
    admin.put("/v1/pools/whom", json=CHANGED).raise_for_status()
    links = [{"link_id": one, "url": f"https://shop.example/{one}"} for one in ("l1", "l2", "l3")]
    admin.post("/v1/pools/whom/links:batch", json={"links": links}).raise_for_status()
    return admin, "/v1/pools/whom/decide"


def test_features_are_answered_as_they_were_declared(admin: httpx.Client) -> None:
    admin.put("/v1/pools/answered", json=CHANGED).raise_for_status()
    assert admin.get("/v1/pools/answered").json()["features"] == FEATURES
    patched = admin.patch("/v1/pools/answered", json={"click_floor": 0.1}).json()
    assert patched["features"] == FEATURES
    fewer = admin.patch("/v1/pools/answered", json={"features": {"device": ["phone"]}}).json()
    assert fewer["features"] == {"device": ["phone"]}


def test_a_decision_keeps_the_visitor(whom: tuple[httpx.Client, str]) -> None:
    client, decide = whom
    said = {"device": "phone", "country": "DE", "returning": False, "days": 3}
    answer = client.post(decide, json={"visitor": said}).json()
    stored = client.get(f"/v1/decisions/{answer['decision_id']}").json()["decision"]
    assert stored["visitor"] == {
        "device": "phone",
        "country": "DE",
        "returning": "False",
        "days": "1 to 7",
    }
    assert stored["segment"] == stored["visitor"] | {"country": "(rare)"}
    unknown = {"device": "watch", "country": None, "days": 1e300}
    answer = client.post(decide, json={"visitor": unknown}).json()
    stored = client.get(f"/v1/decisions/{answer['decision_id']}").json()["decision"]
    assert stored["visitor"] == {"days": "from 7"}


@pytest.mark.parametrize(
    ("visitor", "pointer"),
    [
        ({"browser": "lynx"}, "/visitor"),
        ({"returning": "yes"}, "/visitor"),
        ({"days": "soon"}, "/visitor"),
        ({"device": True}, "/visitor"),
        ({"country": {"code": "DE"}}, "/visitor"),
        ({"country": ["DE"]}, "/visitor"),
        ({"country": "x" * 1_001}, "/visitor"),
        ({f"f{k}": 1 for k in range(65)}, "/visitor"),
        ({"": 1}, "/visitor"),
        ({"n" * 100_000: 1}, "/visitor"),
        ("phone", "/visitor"),
        ([], "/visitor"),
    ],
)
def test_a_visitor_that_cannot_be_is_refused(
    whom: tuple[httpx.Client, str], visitor: Any, pointer: str
) -> None:
    client, decide = whom
    refused = client.post(decide, json={"visitor": visitor})
    assert refused.status_code == 422, refused.text
    assert problem_of(refused)["errors"][0]["pointer"].startswith(pointer)
    assert len(refused.content) < 2_000


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "9" * 400])
def test_a_number_that_is_none_is_refused(whom: tuple[httpx.Client, str], number: str) -> None:
    client, decide = whom
    body = f'{{"visitor": {{"days": {number}}}}}'
    refused = client.post(decide, content=body, headers={"content-type": "application/json"})
    assert refused.status_code in (400, 422)


@pytest.mark.parametrize(
    "features",
    [
        {"link": "text"},
        {"x": "number"},
        {"x": [1, "a"]},
        {"x": [True]},
        {"x": []},
        {"x": [2, 1]},
        {"x": ["w" * 101]},
        {"x": [str(k) for k in range(65)]},
        {f"f{k}": "bool" for k in range(17)},
        {"not a name": "bool"},
        ["device"],
        {"x": None},
        {"": "bool"},
        {"n" * 100_000: "bool"},
    ],
)
def test_features_that_cannot_be_are_refused(admin: httpx.Client, features: Any) -> None:
    refused = admin.put("/v1/pools/never", json=CHANGED | {"features": features})
    assert refused.status_code == 422, refused.text
    assert problem_of(refused)["errors"][0]["pointer"].startswith("/features")
    assert len(refused.content) < 2_000


@pytest.mark.parametrize("weights", ["learn", "equal", [1.5, 0.5], []])
def test_slot_weights_are_answered_as_they_were_set(admin: httpx.Client, weights: Any) -> None:
    put = admin.put("/v1/pools/slots", json=CHANGED | {"slot_weights": weights})
    assert put.json()["slot_weights"] == weights
    patched = admin.patch("/v1/pools/slots", json={"click_floor": 0.1})
    assert patched.json()["slot_weights"] == weights
    patched = admin.patch("/v1/pools/slots", json={"slot_weights": None})
    assert patched.json()["slot_weights"] == "learn"


def test_pools_learn_slots_by_default_and_equal_weights_are_alike(admin: httpx.Client) -> None:
    assert admin.put("/v1/pools/slots", json=CHANGED).json()["slot_weights"] == "learn"
    put = admin.put("/v1/pools/slots", json=CHANGED | {"slot_weights": [2, 2]})
    assert put.json()["slot_weights"] == "equal"


@pytest.mark.parametrize(
    "weights",
    ["guess", [1], [1, -1], [1, 1e-6], [1, 1e300], [0, 1], [1, 2, 3], {"a": 1}, 3, [True]],
)
def test_slot_weights_that_cannot_be_are_refused(admin: httpx.Client, weights: Any) -> None:
    refused = admin.put("/v1/pools/never", json=CHANGED | {"slot_weights": weights})
    assert refused.status_code == 422, refused.text
    assert problem_of(refused)["errors"][0]["pointer"].startswith("/slot_weights")


def test_explain_and_the_dashboard_describe_segments(whom: tuple[httpx.Client, str]) -> None:
    client, _ = whom
    explained = client.get("/v1/pools/whom/explain").json()
    assert explained["segments"]["depends_on_visitors"] is True
    assert client.get("/dashboard/pools/whom/segments").json() == explained["segments"]


def test_every_export_has_the_visitor(whom: tuple[httpx.Client, str]) -> None:
    client, decide = whom
    client.post(decide, json={"visitor": {"device": "phone"}, "decision_id": "with-visitor"})
    client.get("/v1/decisions/with-visitor").raise_for_status()
    lines = client.get("/v1/pools/whom/export").text.splitlines()
    [row] = [one for one in map(json.loads, lines) if one["decision_id"] == "with-visitor"]
    assert row["visitor"] == {"device": "phone"}
    assert row["segment"]["country"] == "(not known)"
    for name in ("parquet", "log"):
        table = pq.read_table(
            io.BytesIO(client.get(f"/v1/pools/whom/export?format={name}").content)
        )
        assert table.num_rows


def test_a_page_takes_a_visitor_and_drops_what_was_not_declared(
    whom: tuple[httpx.Client, str], server: BackgroundServer
) -> None:
    client, _ = whom
    page = client.post(
        "/v1/pools/whom/page", json={"visitor": {"returning": True}, "hints": {"device": "tablet"}}
    ).json()
    assert client.post(page["view_url"]).status_code == 204
    stored = client.get(f"/v1/decisions/{page['decision_id']}").json()["decision"]
    assert stored["visitor"] == {"returning": "True"}  # a tablet is not in the list of devices
    longest = {"country": "\U0001f600" * 100, "device": "phone", "days": 0}
    page = client.post("/v1/pools/whom/page", json={"visitor": longest}).json()
    assert client.post(page["view_url"]).status_code == 204
    refused = client.post("/v1/pools/whom/page", json={"visitor": {"mood": "good"}})
    assert refused.status_code == 422
    assert client.post("/v1/pools/whom/page").status_code == 200


def test_the_raw_log_as_csv(
    server: BackgroundServer, admin: httpx.Client, make_pool: Callable[..., str]
) -> None:
    pool = make_pool(3, features={"country": "text"})
    body = {"visitor": {"country": "=1+1"}}
    page = admin.post(f"/v1/pools/{pool}/decide", json=body).json()
    server.context.service.flush().result()
    answer = admin.get(f"/v1/pools/{pool}/export?format=csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["link"] for row in rows] == [link["link_id"] for link in page["links"]]
    assert {row["page_id"] for row in rows} == {page["decision_id"]}
    assert {row["visitor.country"] for row in rows} == {"'=1+1"}
