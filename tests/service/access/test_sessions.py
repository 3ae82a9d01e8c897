"""Sessions over HTTP: who may start one, what it opens, what ends it, who cannot use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from slotwise.service.access.keys import click_secrets
from slotwise.service.access.sessions import Session, SessionSigner
from slotwise.service.limits import MAX_SESSION_S, SESSION_S
from slotwise.service.records import SECOND_US, Scope
from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from tests.service import rows
from tests.service.conftest import POOL, Clock, OpenService, http, problem_of

ADDRESS = "/dashboard/session"
OWN_PAGE = {"sec-fetch-site": "same-origin"}
ELSEWHERE = {"x-forwarded-for": "203.0.113.9"}
"""Not at this machine, where figures may be read without a key."""


@pytest.fixture
def browser(server: BackgroundServer) -> Iterator[httpx.Client]:
    """Return a client that keeps cookies and calls as pages of the service do."""
    with http(server.url, None) as client:
        client.headers.update(OWN_PAGE | ELSEWHERE)
        yield client


def key_of(admin: httpx.Client, *scopes: Scope, label: str = "") -> dict[str, str]:
    made: dict[str, str] = admin.post("/v1/keys", json={"scopes": scopes, "label": label}).json()
    return made


def sign_in(browser: httpx.Client, key: str) -> httpx.Response:
    answer = browser.post(ADDRESS, json={"key": key})
    assert answer.status_code == 200, answer.text
    return answer


def test_an_admin_key_signs_in_to_change(
    browser: httpx.Client, admin: httpx.Client, pool: str
) -> None:
    key = key_of(admin, "admin", label="office")
    answer = sign_in(browser, f" {key['key']}\n")
    assert answer.json() == {
        "may": "change",
        "key_id": key["key_id"],
        "label": "office",
        "left_s": SESSION_S,
    }
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("slotwise=")
    for part in ("HttpOnly", "SameSite=Strict", "Path=/", f"Max-Age={SESSION_S}"):
        assert f"; {part}" in cookie
    assert key["key"] not in cookie
    assert key["key"] not in answer.text
    changed = browser.patch(f"/v1/pools/{pool}", json={"click_floor": 0.125})
    assert changed.json()["click_floor"] == 0.125
    assert browser.get("/v1/keys").status_code == 200
    overview = browser.get(f"/dashboard/pools/{pool}").json()["overview"]
    assert overview["changes"][0]["changed_by"] == "office"


def test_a_read_key_signs_in_to_look(browser: httpx.Client, admin: httpx.Client, pool: str) -> None:
    assert sign_in(browser, key_of(admin, "read")["key"]).json()["may"] == "read"
    assert browser.get(f"/dashboard/pools/{pool}").status_code == 200
    refused = browser.patch(f"/v1/pools/{pool}", json={"click_floor": 0.1})
    assert problem_of(refused)["type"] == "wrong-scope"
    assert problem_of(browser.get("/v1/keys"))["type"] == "wrong-scope"


@pytest.mark.parametrize("scope", ["decide", "track"])
def test_other_keys_do_not_sign_in(
    browser: httpx.Client, admin: httpx.Client, scope: Scope
) -> None:
    refused = browser.post(ADDRESS, json={"key": key_of(admin, scope)["key"]})
    assert problem_of(refused)["type"] == "wrong-scope"
    assert problem_of(refused)["errors"][0]["pointer"] == "/key"
    assert "set-cookie" not in refused.headers


def test_a_session_is_no_key_for_pages_and_events(
    browser: httpx.Client, admin: httpx.Client, pool: str
) -> None:
    sign_in(browser, key_of(admin, "admin")["key"])
    for path in (f"/v1/pools/{pool}/decide", f"/v1/pools/{pool}/page", "/v1/events"):
        assert problem_of(browser.post(path))["type"] == "missing-key"


CHANGES = [
    ("PATCH", "/v1/pools/{pool}", {"click_floor": 0.3}),
    ("PUT", "/v1/pools/{pool}", POOL),
    ("POST", "/v1/keys", {"scopes": ["admin"]}),
    ("DELETE", "/v1/pools/{pool}/links/l1", None),
    ("PUT", ADDRESS, None),
    ("DELETE", ADDRESS, None),
]
PAGES_OF_OTHERS: list[dict[str, str]] = [
    {"sec-fetch-site": "cross-site", "origin": "https://evil.example"},
    {"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:1"},
    {"sec-fetch-site": "none"},
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {},
]


@pytest.mark.parametrize("headers", PAGES_OF_OTHERS)
def test_a_page_of_somebody_else_changes_nothing(
    server: BackgroundServer, admin: httpx.Client, pool: str, headers: dict[str, str]
) -> None:
    with http(server.url, None) as browser:
        signed_in = browser.post(
            ADDRESS, json={"key": key_of(admin, "admin")["key"]}, headers=OWN_PAGE
        )
        assert signed_in.status_code == 200
        before = admin.get(f"/v1/pools/{pool}").json()
        n_keys = len(admin.get("/v1/keys").json()["keys"])
        for method, path, body in CHANGES:
            refused = browser.request(
                method, path.format(pool=pool), json=body, headers=headers | ELSEWHERE
            )
            assert problem_of(refused)["type"] == "other-origin", (method, path)
        assert browser.get(ADDRESS).json()["may"] == "change"
        assert admin.get(f"/v1/pools/{pool}").json() == before
        assert len(admin.get("/v1/keys").json()["keys"]) == n_keys
        # Nor does it sign anybody in.
        own = browser.post(ADDRESS, json={"key": key_of(admin, "read")["key"]}, headers=headers)
        assert problem_of(own)["type"] == "other-origin"


def test_an_old_browser_is_known_by_its_origin(
    server: BackgroundServer, admin: httpx.Client, pool: str
) -> None:
    with http(server.url, None) as browser:
        own = {"origin": server.url}
        key = key_of(admin, "admin")["key"]
        assert browser.post(ADDRESS, json={"key": key}, headers=own).status_code == 200
        changed = browser.patch(f"/v1/pools/{pool}", json={"click_floor": 0.15}, headers=own)
        assert changed.status_code == 200


def test_signing_out_ends_the_session_for_good(
    browser: httpx.Client, admin: httpx.Client, server: BackgroundServer
) -> None:
    sign_in(browser, key_of(admin, "admin")["key"])
    stolen = dict(browser.cookies)
    gone = browser.delete(ADDRESS)
    assert gone.json()["may"] == "nothing"
    assert "Max-Age=0" in gone.headers["set-cookie"]
    assert not browser.cookies
    with http(server.url, None) as thief:
        thief.cookies.update(stolen)
        thief.headers.update(OWN_PAGE | ELSEWHERE)
        assert thief.get(ADDRESS).json()["may"] == "nothing"
        assert problem_of(thief.get("/v1/pools"))["type"] == "missing-key"
        assert problem_of(thief.put(ADDRESS))["type"] == "missing-key"
    assert browser.delete(ADDRESS).status_code == 200  # again, without a session


def test_a_session_stays_ended_however_many_end_after_it(open_service: OpenService) -> None:
    """Also after a restart; those that would have ended by now are dropped."""
    first = Session("k", "0" * 32, rows.T0, rows.T0 + SECOND_US)
    others = [first._replace(session_id=f"{number:032x}") for number in range(1, 11_000)]
    service = open_service(commit_every_ms=1.0)
    waiting = [service.signed_out.end(one, rows.T0) for one in (first, *others)]
    for ended in waiting:
        ended.result()
    service.close()
    service = open_service()
    assert service.signed_out.has(first)
    later_us = rows.T0 + SECOND_US
    last = first._replace(session_id="f" * 32, ends_us=later_us + SECOND_US)
    service.signed_out.end(last, later_us).result()
    service.close()
    service = open_service()
    assert service.signed_out.has(last)
    assert not service.signed_out.has(first)


def test_a_revoked_key_ends_its_sessions(browser: httpx.Client, admin: httpx.Client) -> None:
    key = key_of(admin, "admin")
    sign_in(browser, key["key"])
    assert browser.get("/v1/pools").status_code == 200
    admin.delete(f"/v1/keys/{key['key_id']}").raise_for_status()
    assert problem_of(browser.get("/v1/pools"))["type"] == "missing-key"
    assert browser.get(ADDRESS).json()["may"] == "nothing"


def test_a_session_is_short_and_renewed_up_to_a_day_of_work(
    browser: httpx.Client, admin: httpx.Client, clock: Clock
) -> None:
    key = key_of(admin, "read")["key"]
    sign_in(browser, key)
    clock.advance(SESSION_S + 1)
    assert problem_of(browser.get("/v1/pools"))["type"] == "missing-key"
    sign_in(browser, key)
    n_renewed = 0
    while browser.put(ADDRESS).status_code == 200:
        clock.advance(SESSION_S - 60)
        n_renewed += 1
    assert MAX_SESSION_S / SESSION_S <= n_renewed <= MAX_SESSION_S / (SESSION_S - 60) + 2


def test_settings_say_how_long_a_session_lasts(tmp_path: Path, clock: Clock) -> None:
    store = f"sqlite:///{tmp_path / 'short.db'}"
    settings = Settings(port=0, store=store, session_idle_s=120, session_max_s=300)
    with BackgroundServer(settings, clock_us=clock) as short, http(short.url, None) as browser:
        browser.headers.update(OWN_PAGE | ELSEWHERE)
        assert sign_in(browser, short.admin_key).json()["left_s"] == 120
        clock.advance(100)
        assert browser.put(ADDRESS).json()["left_s"] == 120
        clock.advance(119)
        assert browser.put(ADDRESS).json()["left_s"] == 81
        clock.advance(82)
        assert problem_of(browser.put(ADDRESS))["type"] == "missing-key"


def test_a_shorter_setting_ends_sessions_that_began_before() -> None:
    secrets = {"k1": b"0" * 32}
    text = SessionSigner(secrets).sign(SessionSigner(secrets).start("0" * 16, now_us=0))
    short = SessionSigner(secrets, idle_s=60, max_s=600)
    assert short.read(text, now_us=599_000_000) is not None
    assert short.read(text, now_us=600_000_000) is None


@pytest.mark.parametrize("place", [0, 20, 40, 75, 86, 100, -1])
def test_a_session_cannot_be_forged(browser: httpx.Client, admin: httpx.Client, place: int) -> None:
    sign_in(browser, key_of(admin, "admin")["key"])
    text = browser.cookies["slotwise"]
    place %= len(text)
    browser.cookies.clear()
    changed = "0" if text[place] != "0" else "1"
    for forged in (text[:place] + changed + text[place + 1 :], text[:place], text + "0", ""):
        browser.headers["cookie"] = f"slotwise={forged}"
        assert problem_of(browser.get("/v1/pools"))["type"] == "missing-key"


def test_nothing_else_that_is_signed_is_a_session(server: BackgroundServer) -> None:
    context = server.context
    signer = context.session_signer
    now_us = context.clock_us()
    session = signer.start("0" * 16, now_us)
    signed = signer.sign(session)
    assert context.signer.read(signed) is None
    assert context.signer.unseal(signed) is None
    payload, _, _ = signed.rpartition(".")
    assert signer.read(context.signer.seal(payload.encode()), now_us) is None
    own = SessionSigner(click_secrets(context.service.directory.keys()))
    assert own.read(signed, now_us) is not None
    assert SessionSigner({"other": b"1" * 32}).read(signed, now_us) is None


def test_wrong_keys_are_slowed_down(tmp_path: Path) -> None:
    settings = Settings(port=0, store=f"sqlite:///{tmp_path / 's.db'}", refused_keys_per_s=1)
    with BackgroundServer(settings) as server, http(server.url, None) as browser:
        browser.headers.update(OWN_PAGE)
        tried = [browser.post(ADDRESS, json={"key": f"sw_ak_{'A' * 43}"}).json() for _ in range(6)]
        assert [problem["type"] for problem in tried[:2]] == ["unknown-key"] * 2
        assert tried[-1]["type"] == "rate-limited"
        assert browser.post(ADDRESS, json={"key": server.admin_key}).status_code == 200


def test_sessions_and_their_ends_survive_a_restart(tmp_path: Path) -> None:
    settings = Settings(port=0, store=f"sqlite:///{tmp_path / 's.db'}")
    kept: list[dict[str, str]] = []
    with BackgroundServer(settings) as server:
        for _ in range(2):
            with http(server.url, None) as browser:
                browser.headers.update(OWN_PAGE)
                sign_in(browser, server.admin_key)
                kept.append(dict(browser.cookies))
                if len(kept) == 2:
                    browser.delete(ADDRESS).raise_for_status()
    with BackgroundServer(settings) as server:
        found = []
        for cookies in kept:
            with http(server.url, None) as browser:
                browser.cookies.update(cookies)
                found.append(browser.get(ADDRESS, headers=ELSEWHERE).json()["may"])
    assert found == ["change", "nothing"]


@pytest.mark.parametrize("scheme", ["https", "HTTPS", "Https"])
def test_behind_tls_the_cookie_is_for_tls_only(tmp_path: Path, scheme: str) -> None:
    settings = Settings(
        port=0, store=f"sqlite:///{tmp_path / 's.db'}", public_url=f"{scheme}://links.example"
    )
    with BackgroundServer(settings) as server, http(server.url, None) as browser:
        browser.headers.update(OWN_PAGE)
        cookie = browser.post(ADDRESS, json={"key": server.admin_key}).headers["set-cookie"]
        assert cookie.startswith("__Host-slotwise=")
        assert cookie.endswith("; Secure")
        value = cookie.partition("=")[2].partition(";")[0]
        assert problem_of(browser.get("/v1/pools", headers={"cookie": f"slotwise={value}"}))
        named = {"cookie": f"other=1; __Host-slotwise={value}"}
        assert browser.get("/v1/pools", headers=named).status_code == 200


def test_a_key_in_the_header_is_never_replaced_by_a_session(
    browser: httpx.Client, admin: httpx.Client, keyed: Callable[[Scope], httpx.Client]
) -> None:
    sign_in(browser, key_of(admin, "admin")["key"])
    wrong = {"authorization": "Bearer sw_ak_wrong"}
    assert problem_of(browser.get("/v1/pools", headers=wrong))["type"] == "unknown-key"
