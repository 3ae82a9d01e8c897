"""Keys of each scope against each operation, and the life of a key."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from slotwise.service.access.keys import SCOPES
from slotwise.service.api.app import ALL_OPERATIONS
from slotwise.service.api.context import Operation
from slotwise.service.records import Scope
from slotwise.service.server import BackgroundServer
from tests.service.conftest import http, problem_of

EXPECTED_SCOPES: dict[str, Scope | None] = {
    "put_pool": "admin",
    "patch_pool": "admin",
    "get_pool": "read",
    "archive_pool": "admin",
    "list_pools": "read",
    "put_link": "admin",
    "patch_link": "admin",
    "retire_link": "admin",
    "get_link": "read",
    "list_links": "read",
    "put_links": "admin",
    "get_rules": "read",
    "put_rules": "admin",
    "check_rules": "read",
    "decide": "decide",
    "evaluate_flag": "page",
    "evaluate_flags": "page",
    "allow_flag": None,
    "allow_flags": None,
    "snippet": None,
    "propose_page": "page",
    "allow_page": None,
    "record_view": None,
    "record_event": "track",
    "record_events": "track",
    "follow_click": None,
    "probe_click": None,
    "report_click": None,
    "get_decision": "read",
    "stats": "read",
    "frontier": "read",
    "explain": "read",
    "evaluate": "read",
    "export": "read",
    "plan": "read",
    "plan_page": None,
    "import_counts": "admin",
    "known_counts": "read",
    "make_key": "admin",
    "list_keys": "admin",
    "revoke_key": "admin",
    "forget_views": "admin",
    "healthz": None,
    "readyz": None,
    "metrics": "read",
    "openapi": None,
    "dashboard": None,
    "dashboard_file": None,
    "dashboard_pools": "read",
    "dashboard_figures": "read",
    "dashboard_links": "read",
    "dashboard_segments": "read",
    "show_alerts": "admin",
    "add_receiver": "admin",
    "remove_receiver": "admin",
    "send_test_alert": "admin",
    "add_note": "admin",
    "list_notes": "read",
    "remove_note": "admin",
    "dashboard_overview": "read",
    "dashboard_period": "read",
    "check_links": "admin",
    "show_session": None,
    "sign_in": None,
    "renew_session": None,
    "sign_out": None,
}
SESSIONS = ("sign_in", "renew_session", "sign_out")
"""Made by pages of the service only, whatever key a call brings."""
FROM_ELSEWHERE = {"x-forwarded-for": "203.0.113.9"}
"""A request that was passed on: a person at this machine may look at the dashboard."""


def test_every_operation_is_in_the_table() -> None:
    assert {operation.name: operation.scope for operation in ALL_OPERATIONS} == EXPECTED_SCOPES


def path_of(operation: Operation) -> str:
    return operation.path.replace("{", "").replace("}", "")


@pytest.mark.parametrize("operation", ALL_OPERATIONS, ids=lambda operation: operation.name)
@pytest.mark.parametrize("scope", SCOPES)
def test_a_key_opens_exactly_the_operations_of_its_scope(
    keyed: Callable[[Scope], httpx.Client], operation: Operation, scope: Scope
) -> None:
    needed = EXPECTED_SCOPES[operation.name]
    held = ("page", "decide", "admin") if needed == "page" else (needed, "admin")
    answer = keyed(scope).request(operation.method, path_of(operation))
    if needed == scope == "page":  # the scope is right, the page's host is not
        assert problem_of(answer)["type"] == "wrong-host"
    elif operation.name in SESSIONS:
        assert problem_of(answer)["type"] in ("other-origin", "unsupported-media-type")
    elif needed is None or scope in held:
        assert answer.status_code not in (401, 403)
        assert answer.status_code < 500
    else:
        assert answer.status_code == 403
        problem = problem_of(answer)
        assert problem["type"] == "wrong-scope"
        assert problem["detail"].startswith(f"the call needs a key with scope {needed}")


@pytest.mark.parametrize("operation", ALL_OPERATIONS, ids=lambda operation: operation.name)
def test_without_a_key_only_public_operations_answer(
    visitor: httpx.Client, operation: Operation
) -> None:
    answer = visitor.request(operation.method, path_of(operation), headers=FROM_ELSEWHERE)
    if operation.name in SESSIONS:
        assert problem_of(answer)["type"] in ("other-origin", "unsupported-media-type")
    elif EXPECTED_SCOPES[operation.name] is None:
        assert answer.status_code not in (401, 403)
    else:
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == 'Bearer realm="slotwise"'
        assert problem_of(answer)["type"] == "missing-key"


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer x",
        "Bearer sw_ak_" + "A" * 43,
        "Basic c3c6c3c=",
        "sw_ak_" + "A" * 43,
        "Bearer " + "x" * 5000,
        "Bearer \xff\xfe",
    ],
)
def test_what_is_no_key_opens_nothing(visitor: httpx.Client, authorization: str) -> None:
    headers = {b"authorization": authorization.encode("latin-1")}
    answer = visitor.get("/v1/pools", headers=headers)
    assert answer.status_code == 401
    assert problem_of(answer)["type"] == "unknown-key"


def test_a_key_in_the_address_opens_nothing(
    server: BackgroundServer, visitor: httpx.Client
) -> None:
    for name in ("key", "api_key", "access_token", "authorization"):
        answer = visitor.get("/v1/pools", params={name: server.admin_key})
        assert answer.status_code == 401


def test_a_key_is_shown_once_and_useless_when_revoked(
    server: BackgroundServer, admin: httpx.Client
) -> None:
    made = admin.post("/v1/keys", json={"scopes": ["read"], "label": "laptop"})
    assert made.status_code == 201
    key = made.json()
    with http(server.url, key["key"]) as reader:
        assert reader.get("/v1/pools").status_code == 200
        listed = admin.get("/v1/keys").json()["keys"]
        assert [one for one in listed if one["key_id"] == key["key_id"]] == [
            {name: key[name] for name in key if name != "key"}
        ]
        revoked = admin.delete(f"/v1/keys/{key['key_id']}").json()
        assert revoked["revoked_at"]
        assert reader.get("/v1/pools").status_code == 401


def test_the_secret_of_click_tokens_is_no_key(
    server: BackgroundServer, admin: httpx.Client
) -> None:
    keys = server.context.service.directory.keys()
    [secret] = [key for key in keys if not key.scopes]
    listed = [key["key_id"] for key in admin.get("/v1/keys").json()["keys"]]
    assert secret.key_id not in listed
    refused = admin.delete(f"/v1/keys/{secret.key_id}")
    assert problem_of(refused)["type"] == "unknown-key-id"


def test_the_last_admin_key_cannot_be_revoked(
    server: BackgroundServer, admin: httpx.Client
) -> None:
    listed = admin.get("/v1/keys").json()["keys"]
    admins = [key for key in listed if "admin" in key["scopes"] and not key["revoked_at"]]
    first, *others = sorted(admins, key=lambda key: key["created_at"])
    for other in others:
        assert admin.delete(f"/v1/keys/{other['key_id']}").status_code == 200
    refused = admin.delete(f"/v1/keys/{first['key_id']}")
    assert problem_of(refused)["type"] == "conflict"
    assert admin.get("/v1/keys").status_code == 200


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/scopes"),
        ({"scopes": []}, "/scopes"),
        ({"scopes": ["root"]}, "/scopes/0"),
        ({"scopes": ["read", "read"]}, "/scopes"),
        ({"scopes": ["read"], "key": "mine"}, "/key"),
    ],
)
def test_a_key_that_makes_no_sense_is_refused(
    admin: httpx.Client, body: dict[str, object], pointer: str
) -> None:
    refused = admin.post("/v1/keys", json=body)
    assert problem_of(refused)["errors"][0]["pointer"] == pointer
