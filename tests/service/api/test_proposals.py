"""Pages that become views once they were seen, and the script that asks for them."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import httpx
import pytest

from slotwise.service.records import Scope
from slotwise.service.server import BackgroundServer
from tests.service.conftest import Clock, problem_of

MAX_SCRIPT_BYTES = 3_000


def path_of(page: httpx.Response) -> str:
    view_url: str = page.json()["view_url"]
    return "/v/" + view_url.rpartition("/v/")[2]


def test_the_script_is_small_and_plain(visitor: httpx.Client) -> None:
    script = visitor.get("/slotwise.js")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert len(gzip.compress(script.content)) <= MAX_SCRIPT_BYTES
    for word in ("cookie", "eval(", "innerHTML"):
        assert word not in script.text
    # A browser stores something only where the page asks for it.
    before, _, storing = script.text.partition("function rememberedKey() {")
    _, _, after = storing.partition("\n  }\n")
    assert "localStorage" not in before + after
    assert after.count("rememberedKey()") == after.count("remember ? rememberedKey() : ") == 1


def test_a_page_is_no_view_until_it_was_seen(
    keyed: Callable[[Scope], httpx.Client],
    visitor: httpx.Client,
    server: BackgroundServer,
    clock: Clock,
    pool: str,
) -> None:
    page = keyed("decide").post(f"/v1/pools/{pool}/page", params={"slots": 1})
    assert len(page.json()["links"]) == 1
    decision = f"/v1/decisions/{page.json()['decision_id']}"
    assert problem_of(keyed("read").get(decision))["type"] == "unknown-decision"
    clock.advance(600)
    for _ in range(2):
        assert visitor.post(path_of(page)).status_code == 204
        server.context.service.flush().result()
    seen = keyed("read").get(decision).json()["decision"]
    assert seen["issued_at"] > page.json()["issued_at"]
    stored = server.context.service.reporter.decision(page.json()["decision_id"]).decision
    assert stored.click_closes_us - stored.issued_us == 1800 * 1_000_000
    assert stored.shown[0].link_id == page.json()["links"][0]["link_id"]


def test_a_page_displayed_in_another_order_is_stored_in_that_order(
    keyed: Callable[[Scope], httpx.Client],
    visitor: httpx.Client,
    server: BackgroundServer,
    pool: str,
) -> None:
    page = keyed("decide").post(f"/v1/pools/{pool}/page")
    links = {link["link_id"]: link["propensity"] for link in page.json()["links"]}
    order = [*links][::-1]
    assert len(order) > 1
    for wrong in (order[:-1], [*order, order[0]], [*order[:-1], "other"]):
        refused = visitor.post(path_of(page), params={"shown": ",".join(wrong)})
        problem = problem_of(refused)
        assert problem["status"] == 422
        assert problem["detail"].startswith("`shown` must be the links of the page, ")
    for shown in (order, order[::-1]):  # the first report stays
        answer = visitor.post(path_of(page), params={"shown": ",".join(shown)})
        assert answer.status_code == 204
        server.context.service.flush().result()
    stored = server.context.service.reporter.decision(page.json()["decision_id"]).decision
    assert [link.link_id for link in stored.shown] == order
    assert [link.position for link in stored.shown] == [*range(1, len(order) + 1)]
    assert {link.link_id: link.propensity for link in stored.shown} == pytest.approx(links)
    assert not stored.random_order


def test_a_click_before_the_view_is_joined(
    keyed: Callable[[Scope], httpx.Client],
    visitor: httpx.Client,
    server: BackgroundServer,
    pool: str,
) -> None:
    page = keyed("decide").post(f"/v1/pools/{pool}/page")
    shown = page.json()["links"][0]
    assert visitor.get("/r/" + shown["click_url"].rpartition("/r/")[2]).status_code == 302
    visitor.post(path_of(page))
    server.context.service.flush().result()
    report = keyed("read").get(f"/v1/decisions/{page.json()['decision_id']}").json()
    assert report["clicked"] == [shown["link_id"]]


def test_crawlers_and_old_or_forged_pages_are_no_views(
    keyed: Callable[[Scope], httpx.Client],
    visitor: httpx.Client,
    server: BackgroundServer,
    clock: Clock,
    pool: str,
) -> None:
    page = keyed("decide").post(f"/v1/pools/{pool}/page")
    crawler = visitor.post(path_of(page), headers={"user-agent": "Googlebot/2.1"})
    assert crawler.status_code == 204
    forged = path_of(page)[:-1] + ("0" if path_of(page)[-1] != "0" else "1")
    assert problem_of(visitor.post(forged))["type"] == "unknown-token"
    click_token = page.json()["links"][0]["click_url"].rpartition("/r/")[2]
    assert problem_of(visitor.post(f"/v/{click_token}"))["type"] == "unknown-token"
    clock.advance(2 * 86_400)
    assert visitor.post(path_of(page)).status_code == 204
    server.context.service.flush().result()
    unknown = keyed("read").get(f"/v1/decisions/{page.json()['decision_id']}")
    assert problem_of(unknown)["type"] == "unknown-decision"


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("https://shop.example", True),
        ("http://shop.example", True),
        ("https://evil.example", False),
        ("https://shop.example.evil.example", False),
        ("null", False),
        ("", False),
    ],
)
def test_only_pages_on_the_pools_hosts_may_ask(
    keyed: Callable[[Scope], httpx.Client],
    visitor: httpx.Client,
    pool: str,
    origin: str,
    allowed: bool,
) -> None:
    address = f"/v1/pools/{pool}/page"
    preflight = visitor.options(address, headers={"origin": origin})
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-headers"] == "authorization, content-type"
    page = keyed("decide").post(address, headers={"origin": origin})
    for answer in (preflight, page):
        assert answer.headers.get("access-control-allow-origin") == (origin if allowed else None)
        assert "access-control-allow-credentials" not in answer.headers
        assert answer.headers["vary"] == "origin"


def test_a_page_needs_a_decide_key_and_a_pool(
    keyed: Callable[[Scope], httpx.Client], visitor: httpx.Client, admin: httpx.Client, pool: str
) -> None:
    address = f"/v1/pools/{pool}/page"
    assert problem_of(visitor.post(address))["type"] == "missing-key"
    assert problem_of(keyed("read").post(address))["type"] == "wrong-scope"
    refused = keyed("decide").post(address, params={"slots": 0})
    assert problem_of(refused)["errors"][0]["parameter"] == "slots"
    admin.delete(f"/v1/pools/{pool}")
    assert problem_of(keyed("decide").post(address))["type"] == "unknown-pool"
    assert problem_of(visitor.options("/v1/pools/nowhere/page"))["type"] == "unknown-pool"


@pytest.mark.parametrize(
    ("body", "params"),
    [
        ({"visitor": {"shoe_size": 44}}, {}),
        ({"colour": "red"}, {}),
        ({}, {"slots": "many"}),
        ({"visitor": "phone"}, {}),
    ],
)
def test_the_script_can_read_why_its_page_was_refused(
    keyed: Callable[[Scope], httpx.Client],
    visitor: httpx.Client,
    pool: str,
    body: object,
    params: dict[str, str],
) -> None:
    address = f"/v1/pools/{pool}/page"
    for origin, readable in (("https://shop.example", True), ("https://evil.example", False)):
        headers = {"origin": origin}
        refused = keyed("decide").post(address, json=body, params=params, headers=headers)
        assert problem_of(refused)["type"] == "validation"
        without_key = visitor.post(address, json=body, headers=headers)
        assert problem_of(without_key)["type"] == "missing-key"
        for answer in (refused, without_key):
            allowed = answer.headers.get("access-control-allow-origin")
            assert allowed == (origin if readable else None)
            assert answer.headers["vary"] == "origin"
    nowhere = keyed("decide").post(
        "/v1/pools/nowhere/page", headers={"origin": "https://a.example"}
    )
    assert "access-control-allow-origin" not in nowhere.headers
