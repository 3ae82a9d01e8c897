"""OpenFeature: pages as values of flags, for the official provider and for hostile clients."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from openfeature import api as openfeature
from openfeature.client import OpenFeatureClient
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import Reason

from slotwise.service.api.ofrep import PAGES_LAST_S
from slotwise.service.api.page_json import DecideAnswer
from slotwise.service.http.routing import RateLimit
from slotwise.service.limits import MAX_ATTRIBUTES, MAX_BULK_POOLS
from slotwise.service.records import Scope
from slotwise.service.server import BackgroundServer
from tests.service.conftest import Clock, http, problem_of

FEATURES = {"device": ["phone", "desktop"], "country": "text", "returning": "bool", "days": [1, 7]}
BULK = "/ofrep/v1/evaluate/flags"
ON_PAGE = {"origin": "https://shop.example"}


@pytest.fixture
def flag(make_pool: Callable[..., str]) -> str:
    return make_pool(features=FEATURES)


@pytest.fixture
def decider(keyed: Callable[[Scope], httpx.Client]) -> httpx.Client:
    return keyed("decide")


@pytest.fixture
def page(server: BackgroundServer, admin: httpx.Client, flag: str) -> Iterator[httpx.Client]:
    """Return a client with a page key of the pool `flag`, on a page of the pool's host."""
    made = admin.post("/v1/keys", json={"scopes": ["page"], "pool_id": flag})
    with http(server.url, made.json()["key"]) as client:
        client.headers.update(ON_PAGE)
        yield client


def evaluate(client: httpx.Client, flag: str, **context: Any) -> dict[str, Any]:
    answer = client.post(f"{BULK}/{flag}", json={"context": context})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert found["key"] == flag
    return found


def failure_of(answer: httpx.Response, status: int) -> dict[str, str]:
    """Return a failure after checking that it has the form of the protocol."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert len(answer.content) < 2_000
    failure: dict[str, str] = answer.json()
    assert failure.keys() <= {"key", "errorCode", "errorDetails"}
    assert failure["errorDetails"]
    return failure


def test_the_value_is_the_page_and_counts_as_shown(
    admin: httpx.Client, decider: httpx.Client, flag: str
) -> None:
    found = evaluate(decider, flag, targetingKey="v17", device="phone", days=3, returning=True)
    assert (found["reason"], found["variant"]) == ("TARGETING_MATCH", "policy")
    value = found["value"]
    assert value.keys() == {*DecideAnswer.__struct_fields__}
    assert len(value["links"]) == 2
    for link in value["links"]:
        assert link["url"].startswith("https://shop.example/")
        assert "/r/" in link["click_url"]
    stored = admin.get(f"/v1/decisions/{value['decision_id']}").json()["decision"]
    assert stored["visitor"] == {"device": "phone", "days": "1 to 7", "returning": "True"}
    assert "v17" not in json.dumps(stored)


def test_reason_and_variant_say_what_chose_the_page(
    decider: httpx.Client, make_pool: Callable[..., str]
) -> None:
    held = make_pool(holdout=0.5)
    found = {
        (one["reason"], one["variant"], one["value"]["holdout"])
        for one in (evaluate(decider, held) for _ in range(60))  # one kind only: 2^-59
    }
    assert found == {("TARGETING_MATCH", "policy", False), ("SPLIT", "holdout", True)}
    empty = evaluate(decider, make_pool(n_links=0))
    assert (empty["reason"], empty["variant"]) == ("DEFAULT", "fallback")
    assert empty["value"]["links"] == []


def test_unknown_attributes_are_ignored_and_counted(
    admin: httpx.Client, decider: httpx.Client, flag: str
) -> None:
    evaluate(decider, flag, browser="lynx", plan={"tier": ["gold"]}, big=10**300, device="phone")
    evaluate(decider, flag, targetingKey="v17")
    line = f'slotwise_ignored_attributes_total{{pool="{flag}"}} 3.0'
    assert line in admin.get("/metrics").text


@pytest.mark.parametrize(
    "context",
    [
        {"returning": "yes"},
        {"days": "soon"},
        {"device": True},
        {"country": {"code": "DE"}},
        {"country": ["DE"]},
        {"country": "x" * 1_001},
        {"days": 10**400},
        {"targetingKey": 17},
        {"targetingKey": None},
        {f"f{k}": 1 for k in range(MAX_ATTRIBUTES + 1)},
        "phone",
        [],
        None,
    ],
)
def test_a_wrong_type_is_an_invalid_context(
    decider: httpx.Client, flag: str, context: object
) -> None:
    failure = failure_of(decider.post(f"{BULK}/{flag}", json={"context": context}), 400)
    assert failure["errorCode"] in ("INVALID_CONTEXT", "PARSE_ERROR")
    assert failure["key"] == flag


@pytest.mark.parametrize(
    "name", ["", "__proto__", "visitor", "key_id", "\x00", "'; --", "x" * 9_000]
)
def test_odd_names_of_attributes_are_ignored(decider: httpx.Client, flag: str, name: str) -> None:
    sent = json.dumps({"context": {name: [[{}]], "device": "phone"}}).encode()
    twice = sent.replace(b'"device"', b'"device": "desktop", "device"')
    for body in (sent, twice):
        headers = {"content-type": "application/json"}
        answer = decider.post(f"{BULK}/{flag}", content=body, headers=headers)
        assert answer.status_code == 200, answer.text
        assert name not in ("x" * 9_000, "__proto__") or name not in answer.text


@pytest.mark.parametrize(
    "body",
    [b"{", b"nothing", b'{"context": {"days": NaN}}', b"\xff", b"{}{}", b"[" * 100, b"\x00"],
)
def test_a_body_that_is_no_json_is_a_parse_error(
    decider: httpx.Client, flag: str, body: bytes
) -> None:
    sent = {"content-type": "application/json"}
    for path in (f"{BULK}/{flag}", BULK):
        failure = failure_of(decider.post(path, content=body, headers=sent), 400)
        assert failure["errorCode"] == "PARSE_ERROR"


def test_bodies_have_a_limit_and_a_type(decider: httpx.Client, flag: str) -> None:
    large = decider.post(f"{BULK}/{flag}", json={"context": {"note": "x" * 20_000}})
    assert problem_of(large)["type"] == "body-too-large"
    typeless = decider.post(f"{BULK}/{flag}", content=b"{}")
    assert problem_of(typeless)["type"] == "unsupported-media-type"
    for nothing in (b"", b"{}", b'{"other": 1}'):
        sent = {"content-type": "application/json"}
        answer = decider.post(f"{BULK}/{flag}", content=nothing, headers=sent)
        assert answer.status_code == 200


@pytest.mark.parametrize("key", ["nothing", "two%20words", "%F0%9F%8E%88", "x" * 5_000, "%00"])
def test_a_flag_that_is_no_pool_is_not_found(decider: httpx.Client, key: str) -> None:
    answer = decider.post(f"{BULK}/{key}", json={})
    assert answer.status_code == 404
    assert answer.json()["errorCode"] == "FLAG_NOT_FOUND"
    assert len(answer.json()["errorDetails"]) < 300


def test_an_archived_pool_is_not_found(
    admin: httpx.Client, decider: httpx.Client, flag: str
) -> None:
    admin.delete(f"/v1/pools/{flag}").raise_for_status()
    failure = failure_of(decider.post(f"{BULK}/{flag}", json={}), 404)
    assert failure["errorCode"] == "FLAG_NOT_FOUND"
    keys = [one["key"] for one in decider.post(BULK, json={}).json()["flags"]]
    assert flag not in keys
    assert keys


def test_a_page_key_proposes_a_page_of_its_pool(
    admin: httpx.Client, page: httpx.Client, flag: str, pool: str
) -> None:
    value = evaluate(page, flag, device="phone")["value"]
    unseen = admin.get(f"/v1/decisions/{value['decision_id']}")
    assert problem_of(unseen)["type"] == "unknown-decision"
    assert page.post(value["view_url"]).status_code == 204
    assert admin.get(f"/v1/decisions/{value['decision_id']}").status_code == 200
    assert problem_of(page.post(f"{BULK}/{pool}", json={}))["type"] == "wrong-scope"
    elsewhere = page.post(BULK, json={}, headers={"origin": "https://evil.example"})
    assert problem_of(elsewhere)["type"] == "wrong-host"
    assert "access-control-allow-origin" not in elsewhere.headers


def test_bulk_pages_count_once_they_were_seen(
    admin: httpx.Client, page: httpx.Client, flag: str
) -> None:
    answer = page.post(BULK, json={"context": {"targetingKey": "v17", "device": "phone"}})
    assert answer.headers["access-control-allow-origin"] == ON_PAGE["origin"]
    assert "etag" in answer.headers["access-control-expose-headers"]
    [one] = answer.json()["flags"]
    assert (one["key"], one["variant"]) == (flag, "policy")
    seen = one["value"]["decision_id"]
    assert admin.get(f"/v1/decisions/{seen}").status_code == 404
    for _ in range(2):
        assert page.post(one["value"]["view_url"]).status_code == 204
    stored = admin.get(f"/v1/decisions/{seen}").json()["decision"]
    assert stored["visitor"] == {"device": "phone"}


def test_a_client_that_polls_has_its_pages_until_something_changes(
    server: BackgroundServer, admin: httpx.Client, page: httpx.Client, flag: str, clock: Clock
) -> None:
    def poll(tag: str, **context: Any) -> httpx.Response:
        return page.post(BULK, json={"context": context}, headers={"if-none-match": tag})

    tag = page.post(BULK, json={"context": {"device": "phone"}}).headers["etag"]
    for given in (tag, f"W/{tag}", f'"other", {tag}'):
        same = poll(given, device="phone", ignored=1)
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    server.context.service.learner.learn(clock())  # a version is no change
    assert poll(tag, device="phone").status_code == 304
    for context in ({}, {"device": "desktop"}, {"device": "phone", "targetingKey": "v18"}):
        assert poll(tag, **context).status_code == 200
    for given in ("", "*", '"', '"0-"', '"-1-' + "0" * 32 + '"', tag[:-2] + '"', "x" * 5_000):
        assert poll(given, device="phone").status_code == 200, given
    admin.patch(f"/v1/pools/{flag}/links/l1", json={"title": "New"}).raise_for_status()
    changed = poll(tag, device="phone")
    assert changed.status_code == 200
    clock.advance(PAGES_LAST_S - 1)
    assert poll(changed.headers["etag"], device="phone").status_code == 304
    clock.advance(1)
    assert poll(changed.headers["etag"], device="phone").status_code == 200


def test_a_decide_key_is_answered_every_pool(
    admin: httpx.Client, decider: httpx.Client, flag: str, pool: str
) -> None:
    answer = decider.post(BULK, json={"context": {"days": "soon"}})
    assert answer.status_code == 200
    flags = {one["key"]: one for one in answer.json()["flags"]}
    assert flags[flag]["errorCode"] == "INVALID_CONTEXT"
    assert flags[pool]["variant"] in ("policy", "holdout")
    assert flags[pool]["value"]["view_url"]
    made = admin.get(f"/v1/decisions/{flags[pool]['value']['decision_id']}")
    assert made.status_code == 404


def test_a_bulk_answer_has_a_limit(
    server: BackgroundServer, decider: httpx.Client, monkeypatch: pytest.MonkeyPatch, pool: str
) -> None:
    settings = server.context.service.directory.pool(pool)
    many = [settings] * (MAX_BULK_POOLS + 1)
    monkeypatch.setattr(server.context.service.directory, "pools", lambda: many)
    failure = failure_of(decider.post(BULK, json={}), 400)
    assert failure["errorCode"] == "GENERAL"
    assert f"at most {MAX_BULK_POOLS} pools" in failure["errorDetails"]
    assert "key" not in failure


def test_a_bulk_call_spends_a_decision_a_pool(
    server: BackgroundServer,
    decider: httpx.Client,
    monkeypatch: pytest.MonkeyPatch,
    pool: str,
    flag: str,
) -> None:
    monkeypatch.setitem(server.context.limits, "decide", RateLimit(1e-3, 2))
    assert decider.post(f"{BULK}/{pool}", json={}).status_code == 200
    n_pools = len([one for one in server.context.service.directory.pools() if not one.archived])
    assert n_pools >= 2
    refused = decider.post(BULK, json={})
    assert problem_of(refused)["type"] == "rate-limited"
    assert int(refused.headers["retry-after"]) >= 1


def test_browsers_are_allowed_to_ask_from_hosts_of_pools(visitor: httpx.Client, pool: str) -> None:
    asked = {"access-control-request-method": "POST"}
    for path in (BULK, f"{BULK}/{pool}", f"{BULK}/nothing"):
        allowed = visitor.options(path, headers=ON_PAGE | asked)
        assert allowed.status_code == 204, allowed.text
        assert allowed.headers["access-control-allow-origin"] == ON_PAGE["origin"]
        assert "if-none-match" in allowed.headers["access-control-allow-headers"]
    assert visitor.options(f"{BULK}/%F0%9F%8E%88", headers=ON_PAGE | asked).status_code == 404
    for origin in ("https://evil.example", "null", "\xff"):
        refused = visitor.options(BULK, headers={b"origin": origin.encode("latin-1")})
        assert "access-control-allow-origin" not in refused.headers
    keyless = visitor.post(BULK, json={}, headers=ON_PAGE)
    assert keyless.status_code == 401
    assert keyless.headers["access-control-allow-origin"] == ON_PAGE["origin"]


def test_the_description_says_that_pages_may_be_unchanged(visitor: httpx.Client) -> None:
    paths = visitor.get("/openapi.json").json()["paths"]
    bulk, one = (paths[path]["post"] for path in (BULK, f"{BULK}/{{pool_id}}"))
    assert [item["name"] for item in bulk["parameters"]] == ["If-None-Match"]
    assert "ETag" in bulk["responses"]["200"]["headers"]
    assert "content" not in bulk["responses"]["304"]
    assert "304" not in one["responses"]


def test_no_answer_is_ours_when_the_service_fails(
    server: BackgroundServer, decider: httpx.Client, monkeypatch: pytest.MonkeyPatch, pool: str
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(server.context.page_writer, "write", fail)
    failure = failure_of(decider.post(f"{BULK}/{pool}", json={}), 500)
    assert failure["errorCode"] == "GENERAL"
    assert "secret" not in failure["errorDetails"]


@pytest.fixture
def client_of(server: BackgroundServer) -> Iterator[Callable[[str], OpenFeatureClient]]:
    """Return a client of the official SDK and provider with a key."""

    def make(key: str) -> OpenFeatureClient:
        headers = {"Authorization": f"Bearer {key}"}
        openfeature.set_provider(OFREPProvider(server.url, headers_factory=lambda: headers))
        return openfeature.get_client()

    yield make
    openfeature.shutdown()


def test_the_official_provider_shows_pages(
    server: BackgroundServer,
    admin: httpx.Client,
    client_of: Callable[[str], OpenFeatureClient],
    flag: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = admin.post("/v1/keys", json={"scopes": ["decide"]}).json()["key"]
    client = client_of(key)
    visitor = EvaluationContext("v17", {"device": "phone", "browser": "lynx"})
    details = client.get_object_details(flag, {}, visitor)
    assert details.error_code is None
    assert (details.reason, details.variant) == (Reason.TARGETING_MATCH, "policy")
    assert isinstance(details.value, dict)
    decision = admin.get(f"/v1/decisions/{details.value['decision_id']}").json()["decision"]
    assert decision["visitor"] == {"device": "phone"}
    default: dict[str, Any] = {"links": []}
    unknown = client.get_object_details("nothing", default)
    assert (unknown.value, unknown.error_code) == (default, ErrorCode.FLAG_NOT_FOUND)
    invalid = client.get_object_details(flag, default, EvaluationContext(None, {"days": "soon"}))
    assert (invalid.value, invalid.error_code) == (default, ErrorCode.INVALID_CONTEXT)
    assert "days" in (invalid.error_message or "")
    mistyped = client.get_boolean_details(flag, False)
    assert (mistyped.value, mistyped.error_code) == (False, ErrorCode.TYPE_MISMATCH)
    monkeypatch.setitem(server.context.limits, "decide", RateLimit(1e-3, 1))
    assert client.get_object_details(flag, default).error_code is None
    limited = client.get_object_details(flag, default)
    assert "Rate limited, retry after" in (limited.error_message or "")
    wrong = client_of("sw_dk_" + "A" * 43).get_object_details(flag, default)
    assert (wrong.value, wrong.error_message) == (default, "unauthorized")
