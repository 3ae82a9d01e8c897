"""Every refusal is a problem answer, and nothing a caller sends is our failure."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from tests.service.conftest import POOL, http, problem_of

JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    "path",
    ["/v1", "/v1/", "/v1/pool", "/v1/pools/", "/v1/pools/a/b/c", "//v1/pools", "/r/", "/r"],
)
def test_an_address_that_is_not_there(admin: httpx.Client, path: str) -> None:
    assert problem_of(admin.get(path))["type"] == "unknown-route"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/v1/pools/home", {"GET", "PUT", "PATCH", "DELETE"}),
        ("GET", "/v1/events", {"POST"}),
        ("OPTIONS", "/v1/events", {"POST"}),
        ("TRACE", "/healthz", {"GET"}),
        ("PUT", "/r/token", {"GET", "HEAD", "POST"}),
    ],
)
def test_a_method_that_is_not_there(
    admin: httpx.Client, method: str, path: str, allowed: set[str]
) -> None:
    refused = admin.request(method, path)
    assert problem_of(refused)["type"] == "method-not-allowed"
    assert set(refused.headers["allow"].split(", ")) == allowed


def test_what_is_not_http_is_a_problem_too(server: BackgroundServer) -> None:
    address = httpx.URL(server.url)
    for sent in (
        b"BREW /v1/keys HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\r\n\r\n",
        b"GET / HTTP/9\r\n\r\n",
    ):
        with socket.create_connection((address.host, address.port or 80), timeout=600) as line:
            line.sendall(sent)
            answer = b"".join(iter(lambda: line.recv(65536), b""))
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 "), sent
        assert b"content-type: application/problem+json" in head
        assert json.loads(body)["type"] == "invalid-http"


@pytest.mark.parametrize("pool", ["a b", "ä", "x" * 65, "a%0A", "a%00", "~", "'", "<script>"])
def test_an_id_that_is_none(admin: httpx.Client, pool: str) -> None:
    problem = problem_of(admin.get(f"/v1/pools/{pool}"))
    assert problem["type"] == "validation"
    [error] = problem["errors"]
    assert error["parameter"] == "pool_id"
    assert "`pool_id` must be 1 to 64 characters of A-Z a-z 0-9 . _ : -" in error["detail"]


@pytest.mark.parametrize(
    ("body", "status", "slug"),
    [
        (b"{", 400, "invalid-json"),
        (b"nonsense", 400, "invalid-json"),
        (b"\xff\xfe", 400, "invalid-json"),
        (b'{"a": NaN}', 422, "validation"),
        (b"[" * 17, 422, "too-deep"),
        (b'{"a":' * 100_000, 422, "too-deep"),
        (b"[]", 422, "validation"),
        (b"null", 422, "validation"),
        (b"x" * 1_048_577, 413, "body-too-large"),
        (b"", 400, "invalid-json"),
    ],
)
def test_a_body_that_cannot_be_read(
    admin: httpx.Client, body: bytes, status: int, slug: str
) -> None:
    refused = admin.put("/v1/pools/unread", content=body, headers=JSON)
    assert (refused.status_code, problem_of(refused)["type"]) == (status, slug), refused.text


def test_a_body_that_is_announced_too_small_is_still_measured(admin: httpx.Client) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(200):
            yield b"x" * 10_000

    refused = admin.put("/v1/pools/unread", content=chunks(), headers=JSON)
    assert problem_of(refused)["type"] == "body-too-large"


@pytest.mark.parametrize(
    ("content_type", "fine"),
    [
        ("application/json", True),
        ("application/json; charset=utf-8", True),
        ("Application/JSON", True),
        ("application/merge-patch+json", True),
        ("text/plain", False),
        ("application/x-www-form-urlencoded", False),
        ("", False),
    ],
)
def test_only_json_is_read(admin: httpx.Client, content_type: str, fine: bool) -> None:
    answer = admin.put(
        "/v1/pools/typed",
        content=httpx.Request("PUT", "http://x", json=POOL).content,
        headers={"content-type": content_type},
    )
    if fine:
        assert answer.status_code == 200
    else:
        assert problem_of(answer)["type"] == "unsupported-media-type"


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("format=xml", "format"),
        ("since=yesterday", "since"),
        ("since=2026-01-01T00:00:00", "since"),
        ("until=2026-01-01T00:00:00Z&since=2026-01-02T00:00:00Z", "until"),
        ("color=red", "color"),
        ("since=null", "since"),
        ("until=0.5", "until"),
        ("format=jsonl&format=jsonl", "format"),
        ("%FF=%FE", "\ufffd"),
    ],
)
def test_a_query_that_breaks_a_rule(
    admin: httpx.Client, pool: str, query: str, parameter: str
) -> None:
    problem = problem_of(admin.get(f"/v1/pools/{pool}/export?{query}"))
    assert problem["type"] == "validation"
    assert [error["parameter"] for error in problem["errors"]] == [parameter]


def test_a_request_id_is_kept_when_it_is_one_and_made_otherwise(visitor: httpx.Client) -> None:
    kept = visitor.get("/healthz", headers={"x-request-id": "trace:1.a"})
    assert kept.headers["x-request-id"] == "trace:1.a"
    for given in ("", "a b", "x" * 65, "<script>"):
        made = visitor.get("/healthz", headers={"x-request-id": given})
        assert made.headers["x-request-id"] not in ("", given)


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[BackgroundServer]:
    """A server with small limits."""
    settings = Settings(
        port=0,
        store=f"sqlite:///{tmp_path / 'narrow.db'}",
        max_pool_links=3,
        max_pools=1,
        max_batch=5,
        max_body_bytes=1000,
        max_depth=4,
        decide_per_s=0.001,
        events_per_s=0.001,
        clicks_per_s=0.001,
    )
    with BackgroundServer(settings) as server:
        yield server


def test_limits_are_named_with_their_number(narrow: BackgroundServer) -> None:
    with http(narrow.url, narrow.admin_key) as admin:
        assert admin.put("/v1/pools/one", json=POOL).status_code == 200
        problem = problem_of(admin.put("/v1/pools/two", json=POOL))
        assert problem["type"] == "pool-too-large"
        assert "1" in problem["detail"]
        links = [{"link_id": f"l{n}", "url": "https://shop.example/"} for n in range(6)]
        path = "/v1/pools/one/links:batch"
        assert problem_of(admin.post(path, json={"links": links}))["type"] == "batch-too-large"
        problem = problem_of(admin.post(path, json={"links": links[:4]}))
        assert problem["type"] == "pool-too-large"
        assert "3" in problem["detail"]
        assert admin.post(path, json={"links": links[:3]}).status_code == 200
        refused = admin.put("/v1/pools/one", content=b" " * 1001, headers=JSON)
        assert problem_of(refused)["detail"].startswith("`body` must be at most 1000 bytes")
        refused = admin.put("/v1/pools/one", content=b"[[[[[]]]]]", headers=JSON)
        assert problem_of(refused)["detail"].startswith("`body` must be nested at most 4 deep")


def test_rates_are_limited_for_each_kind_of_call(narrow: BackgroundServer) -> None:
    """With a burst below one call, the first passes as a whole and the second waits."""
    with http(narrow.url, narrow.admin_key) as admin:
        admin.put("/v1/pools/one", json=POOL)
        admin.put("/v1/pools/one/links/l1", json={"url": "https://shop.example/"})
        click = {"type": "click", "decision_id": "d", "link_id": "l1"}
        page = admin.post("/v1/pools/one/decide")
        assert page.status_code == 200
        assert admin.post("/v1/events", json=click).status_code == 200
        url = page.json()["links"][0]["click_url"]
        assert admin.get(url).status_code == 302
        assert admin.get("/r/garbage").status_code == 404
        for refused in (
            admin.post("/v1/pools/one/decide"),
            admin.post("/v1/events", json=click),
            admin.post("/v1/events:batch", json={"events": [click]}),
            admin.get("/r/garbage"),
        ):
            assert refused.status_code == 429
            assert problem_of(refused)["type"] == "rate-limited"
            assert int(refused.headers["retry-after"]) >= 1
        assert admin.get(url).status_code == 302
        assert admin.get("/v1/pools/one").status_code == 200


def test_unknown_parameters_of_an_address_are_refused(admin: httpx.Client, pool: str) -> None:
    body = {"url": "https://shop.example/1"}
    path = f"/v1/pools/{pool}/links/l1?reset_statistics=true"
    problem = problem_of(admin.put(path, json=body))
    assert problem["type"] == "validation"
    assert problem["errors"][0]["parameter"] == "reset_statistics"
    assert problem_of(admin.get(f"/v1/pools/{pool}?x=1"))["type"] == "validation"
    problem = problem_of(admin.post(f"/v1/pools/{pool}/decide?slots=1", json={}))
    assert problem["errors"][0]["parameter"] == "slots"
    assert admin.get("/healthz?x=1").status_code == 200


def test_a_body_that_is_not_utf8_is_refused_in_plain_words(admin: httpx.Client, pool: str) -> None:
    headers = {"content-type": "application/json"}
    for path in (f"/v1/pools/{pool}", "/ofrep/v1/evaluate/flags"):
        method = "POST" if "ofrep" in path else "PUT"
        body = b'{"context": {"x": "\xff"}, "slots": "\xff"}'
        answer = admin.request(method, path, content=body, headers=headers)
        assert "codec" not in answer.text, answer.text
        assert answer.status_code in (400, 422)
