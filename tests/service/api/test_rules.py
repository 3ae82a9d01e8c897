"""Rules, groups and dates over HTTP: put, checked, read and refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

from slotwise.service.records import ImportedCounts, Scope
from slotwise.service.server import BackgroundServer
from tests.service.conftest import Clock, problem_of

ONE = {"name": "one", "links": ["l1", "l2"], "at_most": 1}
PARTNER = {"name": "partner", "group": "Acme", "at_least": 0.5}


def put(admin: httpx.Client, pool: str, *rules: dict[str, Any]) -> httpx.Response:
    return admin.put(f"/v1/pools/{pool}/rules", json={"rules": rules})


def test_a_link_has_a_group_and_dates(admin: httpx.Client, pool: str, clock: Clock) -> None:
    body = {"url": "https://shop.example/1", "group": "Acme", "starts_at": "2030-03-20T00:00:00Z"}
    stored = admin.put(f"/v1/pools/{pool}/links/l1", json=body).raise_for_status().json()
    assert (stored["group"], stored["ends_at"]) == ("Acme", None)
    assert stored["starts_at"] == "2030-03-20T00:00:00Z"
    patched = admin.patch(
        f"/v1/pools/{pool}/links/l1", json={"starts_at": None, "ends_at": "2031-01-01T00:00:00Z"}
    )
    answer = patched.raise_for_status().json()
    assert (answer["starts_at"], answer["ends_at"]) == (None, "2031-01-01T00:00:00Z")
    assert answer["group"] == "Acme"
    wrong = admin.patch(f"/v1/pools/{pool}/links/l1", json={"starts_at": "2032-01-01T00:00:00Z"})
    problem = problem_of(wrong)
    [error] = problem["errors"]
    assert error["pointer"] == "/ends_at"
    assert error["detail"].startswith("`ends_at` must be after starts_at (2032-01-01")


def test_a_link_that_ends_is_shown_no_more_without_a_call(
    admin: httpx.Client, keyed: Callable[[Scope], httpx.Client], pool: str, clock: Clock
) -> None:
    ends = "2027-01-15T08:00:50Z"  # a moment after the clock of these tests starts
    for name in ("l1", "l2"):
        body = {"url": f"https://shop.example/{name}", "ends_at": ends}
        admin.put(f"/v1/pools/{pool}/links/{name}", json=body).raise_for_status()

    def shown() -> set[str]:
        found = [
            keyed("decide").post(f"/v1/pools/{pool}/decide", json={}).json() for _ in range(40)
        ]
        return {one["link_id"] for page in found for one in page["links"]}

    clock.advance(1)
    assert {"l1", "l2"} <= shown()
    clock.advance(60)
    assert shown() == {"l3", "l4"}


def test_rules_are_put_checked_and_read(
    admin: httpx.Client, keyed: Callable[[Scope], httpx.Client], pool: str
) -> None:
    for name in ("l3", "l4"):
        admin.patch(f"/v1/pools/{pool}/links/{name}", json={"group": "Acme"}).raise_for_status()
    check = admin.post(f"/v1/pools/{pool}/rules:check", json={"rules": [ONE, PARTNER]})
    checked = check.raise_for_status().json()
    assert checked["conflicts"] == []
    assert [row["n_links"] for row in checked["rules"]] == [2, 2]
    assert admin.get(f"/v1/pools/{pool}/rules").json()["rules"] == []
    stored = put(admin, pool, ONE, PARTNER).raise_for_status().json()
    assert [row["name"] for row in stored["rules"]] == ["one", "partner"]
    assert admin.get(f"/v1/pools/{pool}/rules").json() == stored
    for _ in range(30):
        page = keyed("decide").post(f"/v1/pools/{pool}/decide", json={}).json()
        assert sum(one["link_id"] in ("l1", "l2") for one in page["links"]) <= 1
    body = {"rules": [{"name": "none", "group": "Acme", "at_most": 0}, PARTNER]}
    conflict = admin.post(f"/v1/pools/{pool}/rules:check", json=body).json()
    assert conflict["conflicts"] == ["Rule 'partner' has at least 0 instead of 0.5 slots per page."]
    stats = admin.get(f"/v1/pools/{pool}/stats").json()
    assert [row["violated"] for row in stats["rules"]] == [False, False]


def test_bad_rules_are_refused_with_rule_and_field(admin: httpx.Client, pool: str) -> None:
    for rule, said in (
        ({**ONE, "at_most": 3}, "`at_most` of rule 'one' must be at most slots (2), got 3.0"),
        (PARTNER, "`group` of rule 'partner' must be the group of a link of the pool, got 'Acme'"),
    ):
        problem = problem_of(put(admin, pool, rule))
        assert problem["errors"] == [{"detail": said, "pointer": "/rules"}]
    problem_of(put(admin, pool, {**ONE, "surprise": 1}))
    problem_of(put(admin, "nowhere", ONE))


def test_a_table_of_links_has_groups_and_dates(admin: httpx.Client, pool: str) -> None:
    csv = (
        "link_id,url,group,starts_at,ends_at\n"
        "l1,https://shop.example/1,Acme,2030-03-20,2030-03-21T10:00:00Z\n"
        "l2,https://shop.example/2,,soon,\n"
        "l9,https://shop.example/9,,2030-01-02,2030-01-01\n"
    )
    answer = admin.post(f"/dashboard/pools/{pool}/links:check", json={"csv": csv})
    first, second, third = answer.raise_for_status().json()["lines"]
    assert (first["group"], first["starts_at"]) == ("Acme", "2030-03-20T00:00:00Z")
    assert first["what"] == "changed"
    assert second["wrong"].startswith("`starts_at` must be a date, such as 2026-03-20")
    assert third["wrong"].startswith("`ends_at` must be after starts_at")


def test_goals_and_budgets_are_put_and_refused(admin: httpx.Client, pool: str) -> None:
    until = "2027-06-01T00:00:00Z"
    money = {"amount_micros": 10_000_000, "currency": "EUR"}
    cost = {"amount_micros": 300_000, "currency": "EUR"}
    rule: dict[str, Any] = {
        "name": "campaign",
        "links": ["l1"],
        "views_until": {"views": 1000, "until": until},
        "budget": {"money": money, "cost_per_click": cost, "until": until, "hard": True},
    }
    [row] = put(admin, pool, rule).raise_for_status().json()["rules"]
    assert [(one["kind"], one["target"], one["hard"]) for one in row["goals"]] == [
        ("views", 1000, False),
        ("budget", 33, True),
    ]
    budget = row["goals"][1]
    assert (budget["amount_micros"], budget["cost_per_click_micros"]) == (10_000_000, 300_000)
    for change, said in (
        ({"money": {**money, "currency": "USD"}}, "`budget.money` of rule 'campaign' must be in"),
        ({"cost_per_click": None}, "`budget.cost_per_click` of rule 'campaign' must be given"),
        ({"clicks": 3}, "`budget.clicks` of rule 'campaign' must be given, or `budget.money`"),
        ({"until": "2020-01-01T00:00:00Z"}, "`budget.until` of rule 'campaign' must be in the fut"),
    ):
        answer = put(admin, pool, {**rule, "budget": {**rule["budget"], **change}})
        [error] = problem_of(answer)["errors"]
        assert error["detail"].startswith(said)


def test_goals_are_reported_while_no_link_may_be_shown(admin: httpx.Client, pool: str) -> None:
    """An editor that reads the rules and puts them back must not lose goals."""
    until = "2027-06-01T00:00:00Z"
    goal = {"views": 1000, "until": until}
    put(admin, pool, {"name": "all", "links": ["l1"], "views_until": goal}).raise_for_status()
    for link in admin.get(f"/v1/pools/{pool}/links").json()["links"]:
        body = {"url": link["url"], "starts_at": until}
        admin.put(f"/v1/pools/{pool}/links/{link['link_id']}", json=body).raise_for_status()
    [row] = admin.get(f"/v1/pools/{pool}/rules").json()["rules"]
    assert [(one["kind"], one["target"]) for one in row["goals"]] == [("views", 1000)]


def test_what_cannot_be_reached_is_said_before_rules_are_saved(
    server: BackgroundServer, admin: httpx.Client, make_pool: Callable[..., str], clock: Clock
) -> None:
    pool = make_pool(click_floor=0.3, policy={"name": "paced-bayes", "settings": {}})
    until = "2099-01-01T00:00:00Z"
    goal = {"name": "many", "links": ["l1"], "views_until": {"views": 10**12, "until": until}}
    check = f"/v1/pools/{pool}/rules:check"
    [said] = admin.post(check, json={"rules": [goal]}).json()["conflicts"]
    assert "Nothing is known of the traffic yet" in said
    for _ in range(20):
        admin.post(f"/v1/pools/{pool}/decide", json={}).raise_for_status()
    clock.advance(10)
    server.context.service.flush().result()
    [said] = admin.post(check, json={"rules": [goal]}).json()["conflicts"]
    assert "Rule 'many' needs 1,000,000,000,000 views" in said
    known = {f"l{k}": [ImportedCounts(views=900, clicks=450 if k == 1 else 9)] for k in range(1, 5)}
    server.context.service.directory.put_known(pool, known, "test", clock()).result()
    without = {"name": "without", "links": ["l1"], "at_most": 0}
    answer = admin.post(check, json={"rules": [without]}).json()
    most, floor = answer["most_clicks"], 0.3
    has = f"With these rules a page has at most {most:.3g} clicks;"
    assert answer["conflicts"] == [f"{has} the floor of 0.3 will be missed by {floor - most:.3g}."]
    assert round(answer["clicks_missed"] - (floor - most), 9) == 0
