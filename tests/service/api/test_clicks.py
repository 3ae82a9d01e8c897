"""Click links over HTTP: always to the registered address, counted at most once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from slotwise.service.access.keys import click_secrets
from slotwise.service.access.tokens import MAX_SIGNED_TOGETHER, TokenSigner
from slotwise.service.server import BackgroundServer
from tests.service.api.test_destinations import OPEN_REDIRECT_TRICKS
from tests.service.conftest import Clock, problem_of


@pytest.fixture
def page(admin: httpx.Client, pool: str) -> dict[str, Any]:
    answer: dict[str, Any] = admin.post(f"/v1/pools/{pool}/decide").json()
    return answer


def clicked(admin: httpx.Client, page: dict[str, Any]) -> list[str]:
    report = admin.get(f"/v1/decisions/{page['decision_id']}").json()
    found: list[str] = report["clicked"]
    return found


def test_a_click_is_recorded_and_redirected(
    admin: httpx.Client, visitor: httpx.Client, page: dict[str, Any]
) -> None:
    link = page["links"][0]
    answer = visitor.get(link["click_url"])
    assert answer.status_code == 302
    assert answer.headers["location"] == link["url"]
    assert answer.headers["cache-control"] == "no-store"
    assert answer.content == b""
    assert clicked(admin, page) == [link["link_id"]]


def test_a_repeated_click_redirects_and_counts_once(
    admin: httpx.Client, visitor: httpx.Client, page: dict[str, Any]
) -> None:
    link = page["links"][0]
    for _ in range(3):
        assert visitor.get(link["click_url"]).headers["location"] == link["url"]
    report = admin.get(f"/v1/decisions/{page['decision_id']}").json()
    assert report["clicked"] == [link["link_id"]]


def test_an_expired_click_redirects_and_counts_nothing(
    clock: Clock, admin: httpx.Client, visitor: httpx.Client, make_pool: Callable[..., str]
) -> None:
    pool = make_pool(click_window_s=60, revenue_window_s=60)
    page = admin.post(f"/v1/pools/{pool}/decide").json()
    clock.advance(61)
    answer = visitor.get(page["links"][0]["click_url"])
    assert answer.headers["location"] == page["links"][0]["url"]
    report = admin.get(f"/v1/decisions/{page['decision_id']}").json()
    assert report["clicked"] == []
    assert [one["outcome"] for one in report["received"]] == ["late"]


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("HEAD", {}),
        ("GET", {"sec-purpose": "prefetch;prerender"}),
        ("GET", {"purpose": "prefetch"}),
        ("GET", {"x-moz": "prefetch"}),
        ("GET", {"user-agent": "Mozilla/5.0 (compatible; Googlebot/2.1)"}),
        ("GET", {"user-agent": "curl/8.5.0"}),
    ],
)
def test_what_is_no_visitors_click_redirects_and_counts_nothing(
    admin: httpx.Client,
    visitor: httpx.Client,
    page: dict[str, Any],
    method: str,
    headers: dict[str, str],
) -> None:
    link = page["links"][0]
    answer = visitor.request(method, link["click_url"], headers=headers)
    assert answer.status_code == 302
    assert answer.headers["location"] == link["url"]
    assert clicked(admin, page) == []
    assert visitor.get(link["click_url"]).status_code == 302
    assert clicked(admin, page) == [link["link_id"]], "a visitor's click still counts after it"


def test_a_forged_token_leads_nowhere(visitor: httpx.Client, page: dict[str, Any]) -> None:
    first, second, *_ = page["links"]
    url = first["click_url"]
    head, _, link_id = url.rpartition("~")
    forged = [
        url[:-1] + ("0" if url[-1] != "0" else "1"),
        url.replace(page["decision_id"], "other"),
        url.replace("~1~l", "~2~l"),
        f"{head}~{second['link_id']}",
        url.replace("/r/v2.", "/r/v1."),
        head,
        f"{head}~",
        url + "0",
        url + "%00",
    ]
    on_page = {link["link_id"] for link in page["links"]}
    forged += [f"{head}~l{k}" for k in range(1, 10) if f"l{k}" not in on_page]
    assert link_id == first["link_id"]
    for one in forged:
        answer = visitor.get(one)
        assert answer.status_code == 404, one
        assert problem_of(answer)["type"] == "unknown-token"
        assert "location" not in answer.headers
        assert visitor.post(one).status_code == 404, one


def test_links_of_long_pages_are_followed_too(
    admin: httpx.Client, visitor: httpx.Client, make_pool: Callable[..., str]
) -> None:
    for slots in (MAX_SIGNED_TOGETHER, MAX_SIGNED_TOGETHER + 1, 2 * MAX_SIGNED_TOGETHER + 3):
        pool = make_pool(n_links=40, slots=slots)
        page = admin.post(f"/v1/pools/{pool}/decide").json()
        for link in page["links"]:
            assert visitor.get(link["click_url"]).headers["location"] == link["url"]
        assert sorted(clicked(admin, page)) == sorted(link["link_id"] for link in page["links"])


def test_a_token_signed_with_another_secret_leads_nowhere(visitor: httpx.Client, pool: str) -> None:
    head = TokenSigner({"k1": bytes(32)}).sign_page(pool, "d", 5, "0")
    assert problem_of(visitor.get(f"/r/{head}~1~l1"))["type"] == "unknown-token"


def test_a_signed_token_of_a_link_that_never_was_leads_nowhere(
    server: BackgroundServer, visitor: httpx.Client, pool: str
) -> None:
    signer = TokenSigner(click_secrets(server.context.service.directory.keys()))
    for pool_id, link_id in ((pool, "never"), ("never", "l1")):
        head = signer.sign_page(pool_id, "d", 5, "0")
        assert problem_of(visitor.get(f"/r/{head}~1~{link_id}"))["type"] == "unknown-token"


@pytest.mark.parametrize("trick", OPEN_REDIRECT_TRICKS)
def test_no_trick_changes_where_a_click_leads(
    visitor: httpx.Client, page_of_file: dict[str, Any], trick: str
) -> None:
    """Parameters, fragments and paths put behind or before a good token change nothing."""
    link = page_of_file["links"][0]
    token = link["click_url"].partition("/r/")[2]
    quoted = quote(trick, safe="")[:1000]
    for query in (f"url={quoted}", f"next={quoted}", quoted):
        assert visitor.get(f"/r/{token}?{query}").headers["location"] == link["url"]
    for path in (
        f"/r/{quoted}",
        f"/r/{token}{quoted}x",
        f"/r/{quoted}{token}",
        f"/r/{token}/{quoted}",
    ):
        answer = visitor.get(path)
        if answer.status_code == 302:
            assert answer.headers["location"] == link["url"]
        else:
            assert answer.status_code == 404
            assert "location" not in answer.headers
            problem_of(answer)


@pytest.fixture(scope="module")
def page_of_file(admin: httpx.Client) -> dict[str, Any]:
    """Return one page for the many tricks."""
    pool = {
        "slots": 1,
        "max_revenue": {"amount_micros": 1, "currency": "EUR"},
        "policy": {"name": "uniform"},
        "allowed_hosts": ["shop.example"],
    }
    admin.put("/v1/pools/tricks", json=pool)
    admin.put("/v1/pools/tricks/links/l1", json={"url": "https://shop.example/1"})
    answer: dict[str, Any] = admin.post("/v1/pools/tricks/decide").json()
    return answer


@pytest.mark.parametrize("trick", OPEN_REDIRECT_TRICKS)
def test_no_trick_can_be_registered(admin: httpx.Client, page_of_file: object, trick: str) -> None:
    refused = admin.put("/v1/pools/tricks/links/trick", json={"url": trick})
    assert refused.status_code == 422, trick
    assert problem_of(refused)["errors"][0]["pointer"] == "/url"


def test_a_retired_link_still_leads_home(
    admin: httpx.Client, visitor: httpx.Client, pool: str
) -> None:
    page = admin.post(f"/v1/pools/{pool}/decide").json()
    link = page["links"][0]
    admin.delete(f"/v1/pools/{pool}/links/{link['link_id']}")
    assert visitor.get(link["click_url"]).headers["location"] == link["url"]


def test_a_changed_address_changes_where_old_pages_lead(
    admin: httpx.Client, visitor: httpx.Client, page: dict[str, Any]
) -> None:
    link = page["links"][0]
    path = f"/v1/pools/{page['pool_id']}/links/{link['link_id']}"
    admin.patch(path, json={"url": "https://shop.example/moved"})
    assert visitor.get(link["click_url"]).headers["location"] == "https://shop.example/moved"


def test_a_host_that_is_no_longer_allowed_is_not_redirected_to(
    admin: httpx.Client, visitor: httpx.Client, make_pool: Callable[..., str]
) -> None:
    pool = make_pool(1, slots=1, click_floor=0.0)
    link = admin.post(f"/v1/pools/{pool}/decide").json()["links"][0]
    admin.delete(f"/v1/pools/{pool}/links/l1")
    admin.patch(f"/v1/pools/{pool}", json={"allowed_hosts": ["other.example"]})
    refused = visitor.get(link["click_url"])
    assert problem_of(refused)["detail"] == "the link's host is no longer allowed in its pool"
