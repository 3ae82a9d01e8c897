"""Pools and links over HTTP."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import httpx
import pytest

from slotwise.policies import POLICIES
from slotwise.service import limits
from tests.service.conftest import POOL, problem_of


def test_a_pool_is_answered_as_it_was_put(admin: httpx.Client) -> None:
    put = admin.put("/v1/pools/as-put", json=POOL)
    assert put.status_code == 200
    answer = put.json()
    assert {name: answer[name] for name in POOL} == POOL
    assert (answer["pool_id"], answer["n_links"], answer["archived"]) == ("as-put", 0, False)
    assert answer["created_at"].endswith("Z")
    assert admin.get("/v1/pools/as-put").json() == answer
    assert answer in admin.get("/v1/pools").json()["pools"]


def test_a_patch_changes_only_what_it_names(admin: httpx.Client, pool: str) -> None:
    before = admin.get(f"/v1/pools/{pool}").json()
    after = admin.patch(f"/v1/pools/{pool}", json={"click_floor": 0.5}).json()
    assert after.pop("changed_at") > before.pop("changed_at")
    assert after == before | {"click_floor": 0.5}


def test_changes_at_the_same_time_are_all_kept(admin: httpx.Client, pool: str) -> None:
    path = f"/v1/pools/{pool}"
    wanted: dict[str, Any] = {"click_floor": 0.7, "explore": 0.125, "slots": 3}
    wanted["holdout"] = {"share": 0.25, "shows": "random"}
    with ThreadPoolExecutor(8) as threads:
        answers = [threads.submit(admin.patch, path, json={one: wanted[one]}) for one in wanted]
        answers.append(threads.submit(admin.patch, f"{path}/links/l1", json={"title": "sale"}))
        answers.append(threads.submit(admin.delete, f"{path}/links/l1"))
    assert {answer.result().status_code for answer in answers} == {200}
    stored = admin.get(path).json()
    assert {name: stored[name] for name in wanted} == wanted
    link = admin.get(f"{path}/links/l1").json()
    assert (link["title"], link["retired"]) == ("sale", True)


def test_a_pool_may_have_an_end(admin: httpx.Client, pool: str) -> None:
    end = "2126-01-01T00:00:00Z"
    assert admin.patch(f"/v1/pools/{pool}", json={"until": end}).json()["until"] == end
    assert admin.patch(f"/v1/pools/{pool}", json={"slots": 3}).json()["until"] == end
    assert admin.patch(f"/v1/pools/{pool}", json={"until": None}).json()["until"] is None
    for past in ("2001-01-01T00:00:00Z", "1961-01-01T00:00:00Z"):
        refused = problem_of(admin.patch(f"/v1/pools/{pool}", json={"until": past}))
        assert refused["errors"][0]["pointer"] == "/until"


def test_the_end_of_time_is_in_utc(admin: httpx.Client, pool: str) -> None:
    never, last = "9999-12-31T23:59:59-05:00", "9999-12-31T23:59:59.999999Z"
    assert admin.patch(f"/v1/pools/{pool}", json={"until": never}).json()["until"] == last
    assert admin.patch(f"/v1/pools/{pool}/links/l1", json={"ends_at": never}).status_code == 200
    goal = {"views": 10, "until": never}
    rules = {"rules": [{"name": "campaign", "links": ["l2"], "views_until": goal}]}
    assert admin.put(f"/v1/pools/{pool}/rules", json=rules).status_code == 200
    for path in ("", f"/{pool}/links", f"/{pool}/rules", f"/{pool}/stats"):
        assert admin.get(f"/v1/pools{path}").status_code == 200
    long_ago = {"ends_at": "0001-01-01T00:00:00+05:00"}
    refused = problem_of(admin.patch(f"/v1/pools/{pool}/links/l1", json=long_ago))
    assert "`ends_at` must be a time after 1970" in refused["detail"]


def test_a_deleted_pool_is_archived_and_can_come_back(admin: httpx.Client, pool: str) -> None:
    assert admin.delete(f"/v1/pools/{pool}").json()["archived"] is True
    assert admin.get(f"/v1/pools/{pool}").json()["archived"] is True
    refused = admin.post(f"/v1/pools/{pool}/decide")
    assert problem_of(refused)["type"] == "unknown-pool"
    again = admin.put(f"/v1/pools/{pool}", json=POOL).json()
    assert (again["archived"], again["n_links"]) == (False, 4)
    assert admin.post(f"/v1/pools/{pool}/decide").status_code == 200


def needed_settings(name: str) -> dict[str, Any]:
    """Return what a policy for five links may have to be told."""
    names = {field.name for field in dataclasses.fields(cast(Any, POLICIES[name]))}
    settings = {"horizon": 1000, "probabilities": [0.2, 0.3, 0.5, 0.5, 0.5]}
    return {setting: value for setting, value in settings.items() if setting in names}


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_policy_can_run_a_pool(
    make_pool: Callable[..., str], admin: httpx.Client, name: str
) -> None:
    pool = make_pool(5, policy={"name": name, "settings": needed_settings(name)})
    page = admin.post(f"/v1/pools/{pool}/decide").json()
    assert len({link["link_id"] for link in page["links"]}) == 2
    assert page["policy"] == name
    assert page["fallback"] is False


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"slots": 0}, "/slots"),
        ({"slots": "two"}, "/slots"),
        ({"slots": limits.MAX_SLOTS + 1}, "/slots"),
        ({"click_floor": -0.1}, "/click_floor"),
        ({"click_floor": 2.0}, "/click_floor"),
        ({"max_revenue": {"amount_micros": 0, "currency": "EUR"}}, "/max_revenue/amount_micros"),
        ({"max_revenue": {"amount_micros": 5, "currency": "euro"}}, "/max_revenue/currency"),
        ({"max_revenue": {"amount_micros": 5}}, "/max_revenue/currency"),
        ({"click_window_s": 0}, "/click_window_s"),
        ({"click_window_s": limits.MAX_WINDOW_S + 1}, "/click_window_s"),
        (
            {"max_revenue": {"amount_micros": limits.MAX_AMOUNT_MICROS + 1, "currency": "EUR"}},
            "/max_revenue/amount_micros",
        ),
        ({"revenue_window_s": 1.5}, "/revenue_window_s"),
        ({"holdout": 1.5}, "/holdout"),
        ({"policy": {"name": "magic"}}, "/policy/name"),
        ({"policy": {"name": "uniform", "settings": {"magic": 1}}}, "/policy/settings"),
        ({"policy": {"name": "uniform", "magic": 1}}, "/policy/magic"),
        ({"allowed_hosts": []}, "/allowed_hosts"),
        ({"allowed_hosts": ["https://shop.example"]}, "/allowed_hosts/0"),
        ({"allowed_hosts": ["shop.example", "SHOP.example"]}, "/allowed_hosts/1"),
        ({"own_page": ["not an id"]}, "/own_page/0"),
        ({"unknown": 1}, "/unknown"),
    ],
)
def test_a_broken_rule_is_pointed_at(
    admin: httpx.Client, change: dict[str, Any], pointer: str
) -> None:
    refused = admin.put("/v1/pools/refused", json=POOL | change)
    assert refused.status_code == 422, refused.text
    problem = problem_of(refused)
    assert problem["type"] == "validation"
    [error] = problem["errors"]
    assert error["pointer"].startswith(pointer)
    assert admin.get("/v1/pools/refused").status_code == 404


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_the_former_name_of_the_own_page_is_refused_with_the_new_one(
    admin: httpx.Client, method: str
) -> None:
    admin.put("/v1/pools/home", json=POOL).raise_for_status()
    body = (POOL if method == "PUT" else {}) | {"fallback_order": ["l1"]}
    [error] = problem_of(admin.request(method, "/v1/pools/home", json=body))["errors"]
    assert error["pointer"] == "/fallback_order"
    assert error["detail"] == "`fallback_order` is not a known field; it is called `own_page` now"


def test_a_pool_keeps_hosts_that_its_links_need(admin: httpx.Client, pool: str) -> None:
    refused = admin.patch(f"/v1/pools/{pool}", json={"allowed_hosts": ["other.example"]})
    [error] = problem_of(refused)["errors"]
    assert error["pointer"] == "/allowed_hosts"
    assert "link l1: `url` must be on one of the pool's allowed hosts" in error["detail"]


def test_a_link_is_answered_as_it_was_put(admin: httpx.Client, pool: str) -> None:
    path = f"/v1/pools/{pool}/links/new"
    put = admin.put(path, json={"url": "https://shop.example/new", "title": 'Ünïcode "ok"'})
    assert put.status_code == 200, put.text
    answer = put.json()
    assert answer["title"] == 'Ünïcode "ok"'
    assert admin.get(path).json() == answer
    assert answer in admin.get(f"/v1/pools/{pool}/links").json()["links"]


def test_a_patched_link_keeps_the_rest(admin: httpx.Client, pool: str) -> None:
    path = f"/v1/pools/{pool}/links/l1"
    before = admin.get(path).json()
    after = admin.patch(path, json={"title": "Sale"}).json()
    assert after["title"] == "Sale"
    assert after["url"] == before["url"]


def test_a_retired_link_is_shown_no_more_until_it_comes_back(
    admin: httpx.Client, make_pool: Callable[..., str]
) -> None:
    pool = make_pool(3)
    assert admin.delete(f"/v1/pools/{pool}/links/l1").json()["retired"] is True
    assert admin.get(f"/v1/pools/{pool}").json()["n_links"] == 2
    for _ in range(20):
        page = admin.post(f"/v1/pools/{pool}/decide").json()
        assert {link["link_id"] for link in page["links"]} == {"l2", "l3"}
    admin.patch(f"/v1/pools/{pool}/links/l1", json={"retired": False})
    shown: set[str] = set()
    for _ in range(60):  # l1 stays away by chance with probability (1/3) ** 60
        page = admin.post(f"/v1/pools/{pool}/decide").json()
        shown |= {link["link_id"] for link in page["links"]}
    assert shown == {"l1", "l2", "l3"}


def test_a_batch_of_links_is_stored_whole_or_not_at_all(admin: httpx.Client, pool: str) -> None:
    links = [
        {"link_id": "n1", "url": "https://shop.example/n1"},
        {"link_id": "n2", "url": "https://evil.example/n2"},
    ]
    refused = admin.post(f"/v1/pools/{pool}/links:batch", json={"links": links})
    [error] = problem_of(refused)["errors"]
    assert error["pointer"] == "/links/1/url"
    assert admin.get(f"/v1/pools/{pool}/links/n1").status_code == 404
    twice = [links[0], links[0]]
    refused = admin.post(f"/v1/pools/{pool}/links:batch", json={"links": twice})
    assert problem_of(refused)["errors"][0]["pointer"] == "/links/1/link_id"


def test_a_field_that_is_nearly_right_is_answered_with_the_right_one(
    admin: httpx.Client, pool: str
) -> None:
    refused = admin.patch(f"/v1/pools/{pool}", json={"floor": 0.5})
    assert "did you mean `click_floor`?" in problem_of(refused)["detail"]


def test_links_of_unknown_pools_and_unknown_links_are_named(admin: httpx.Client, pool: str) -> None:
    link = {"url": "https://shop.example/1"}
    assert problem_of(admin.put("/v1/pools/none/links/l1", json=link))["type"] == "unknown-pool"
    assert problem_of(admin.get("/v1/pools/none/links"))["type"] == "unknown-pool"
    for refused in (
        admin.get(f"/v1/pools/{pool}/links/none"),
        admin.patch(f"/v1/pools/{pool}/links/none", json={"title": ""}),
        admin.delete(f"/v1/pools/{pool}/links/none"),
    ):
        assert problem_of(refused)["type"] == "unknown-link"


def test_all_wrong_fields_of_a_body_are_named_at_once(admin: httpx.Client) -> None:
    body: dict[str, Any] = POOL | {
        "slots": "many",
        "click_floor": -1,
        "policy": {"name": 3},
        "slotz": 1,
    }
    del body["max_revenue"]
    errors = problem_of(admin.put("/v1/pools/wrong", json=body))["errors"]
    pointers = {error["pointer"] for error in errors}
    assert {"/slots", "/click_floor", "/policy/name", "/max_revenue"} <= pointers
    assert len(pointers) == len(errors)
    assert admin.get("/v1/pools/wrong").status_code == 404


def test_rules_between_fields_are_named_at_once(admin: httpx.Client, pool: str) -> None:
    body: dict[str, Any] = POOL | {
        "click_floor": 9,
        "policy": {"name": "magic"},
        "slot_weights": [1.0, 5000.0],
        "segment_floors": {"country": {"DE": 0.1}},
        "until": "2001-01-01T00:00:00Z",
        "pins": [{"link_id": "l1", "position": 1}, {"link_id": "l2", "position": 1}],
    }
    ruled = {"/click_floor", "/policy/name", "/slot_weights", "/segment_floors", "/until", "/pins"}

    def pointers(answer: httpx.Response) -> set[str]:
        return {error["pointer"] for error in problem_of(answer)["errors"]}

    assert pointers(admin.put("/v1/pools/wrong", json=body)) == ruled
    wrong = body | {"holdout": 2, "slotz": 1}
    assert pointers(admin.put("/v1/pools/wrong", json=wrong)) == {*ruled, "/holdout", "/slotz"}
    assert admin.get("/v1/pools/wrong").status_code == 404
    del wrong["policy"]
    hosts = wrong | {"allowed_hosts": ["other.example"]}
    found = {*ruled, "/holdout", "/slotz", "/allowed_hosts"} - {"/policy/name"}
    assert pointers(admin.patch(f"/v1/pools/{pool}", json=hosts)) == found


def test_a_wrong_field_makes_no_other_look_wrong(admin: httpx.Client) -> None:
    body: dict[str, Any] = POOL | {
        "slots": "many",
        "click_floor": 7,
        "features": {"country": 5},
        "segment_floors": {"country": {"DE": 0.1}},
    }
    errors = problem_of(admin.put("/v1/pools/wrong", json=body))["errors"]
    assert [error["pointer"] for error in errors] == ["/slots", "/features/..."]
    unknown = admin.patch("/v1/pools/nobody", json={"slots": "many", "click_floor": 7})
    assert [error["pointer"] for error in problem_of(unknown)["errors"]] == ["/slots"]
