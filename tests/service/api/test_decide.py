"""Decide over HTTP."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import httpx
import msgspec
import pytest
from scipy.stats import chi2

from slotwise.service.access.keys import click_secrets
from slotwise.service.access.tokens import TokenSigner
from slotwise.service.api.page_json import DecideAnswer
from slotwise.service.server import BackgroundServer
from tests.service.conftest import problem_of


def test_a_page_reads_back_as_its_declared_type(admin: httpx.Client, pool: str) -> None:
    title = 'Quotes " and \\ and ü'
    admin.patch(f"/v1/pools/{pool}/links/l1", json={"title": title})
    answer = admin.post(
        f"/v1/pools/{pool}/decide",
        json={"pin": [{"link_id": "l1", "position": 1}], "decision_id": "as-typed"},
    )
    assert answer.status_code == 200
    page = msgspec.json.decode(answer.content, type=DecideAnswer, strict=True)
    assert msgspec.json.encode(page) == answer.content
    assert (page.decision_id, page.pool_id) == ("as-typed", pool)
    assert page.links[0].title == title
    assert page.links[0].propensity == 1.0
    assert [link.position for link in page.links] == [1, 2]


def test_click_urls_are_signed_for_their_link(
    server: BackgroundServer, admin: httpx.Client, pool: str
) -> None:
    page = admin.post(f"/v1/pools/{pool}/decide").json()
    signer = TokenSigner(click_secrets(server.context.service.directory.keys()))
    for link in page["links"]:
        base, _, token = link["click_url"].partition("/r/")
        assert base == server.url
        read = signer.read(token)
        assert read is not None
        assert (read.pool_id, read.decision_id) == (pool, page["decision_id"])
        assert (read.position, read.link_id) == (link["position"], link["link_id"])


def test_excluded_links_stay_away_and_pins_stand_where_they_were_put(
    admin: httpx.Client, make_pool: Callable[..., str]
) -> None:
    pool = make_pool(6, slots=3)
    constraints = {
        "exclude": ["l1", "l2"],
        "pin": [{"link_id": "l5", "position": 2}],
    }
    for _ in range(20):
        page = admin.post(f"/v1/pools/{pool}/decide", json=constraints).json()
        shown = [link["link_id"] for link in page["links"]]
        assert shown[1] == "l5"
        assert set(shown) <= {"l3", "l4", "l5", "l6"}
        assert len(set(shown)) == 3


def test_a_retired_link_may_be_excluded_and_an_unknown_one_may_not(
    admin: httpx.Client, make_pool: Callable[..., str]
) -> None:
    pool = make_pool(4)
    admin.delete(f"/v1/pools/{pool}/links/l4").raise_for_status()
    path = f"/v1/pools/{pool}/decide"
    assert admin.post(path, json={"exclude": ["l4"]}).status_code == 200
    refused = admin.post(path, json={"exclude": ["nope"]})
    assert (refused.status_code, refused.json()["type"]) == (422, "validation")
    assert [one["pointer"] for one in refused.json()["errors"]] == ["/exclude"]


def test_slots_can_be_asked_for(admin: httpx.Client, pool: str) -> None:
    page = admin.post(f"/v1/pools/{pool}/decide", json={"slots": 1}).json()
    assert len(page["links"]) == 1


def test_the_same_decision_asked_again_is_the_same_page(admin: httpx.Client, pool: str) -> None:
    path, constraints = f"/v1/pools/{pool}/decide", {"decision_id": "asked-twice"}
    first = admin.post(path, json=constraints)
    assert admin.post(path, json=constraints).content == first.content
    other = admin.post(path, json=constraints | {"slots": 1})
    assert problem_of(other)["type"] == "conflict"


def test_a_pool_with_fewer_links_than_slots_shows_what_it_has(
    admin: httpx.Client, make_pool: Callable[..., str]
) -> None:
    pool = make_pool(1, slots=2, click_floor=0.0)
    page = admin.post(f"/v1/pools/{pool}/decide").json()
    assert [link["link_id"] for link in page["links"]] == ["l1"]


def test_a_pool_without_links_answers_an_empty_page(
    admin: httpx.Client, make_pool: Callable[..., str]
) -> None:
    page = admin.post(f"/v1/pools/{make_pool(0)}/decide").json()
    assert page["links"] == []
    assert page["fallback"] is True
    assert page["fallback_reason"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"slots": 0}, "/slots"),
        ({"slots": 101}, "/slots"),
        ({"exclude": "l1"}, "/exclude"),
        ({"exclude": ["no id"]}, "/exclude/0"),
        ({"pin": [{"link_id": "l1", "position": 3}]}, "/pin"),
        ({"pin": [{"link_id": "l1", "position": 0}]}, "/pin/0/position"),
        ({"pin": [{"link_id": "none", "position": 1}]}, "/pin"),
        (
            {"pin": [{"link_id": "l1", "position": 1}, {"link_id": "l2", "position": 1}]},
            "/pin",
        ),
        ({"decision_id": "no id"}, "/decision_id"),
        ({"shots": 1}, "/shots"),
    ],
)
def test_wishes_that_cannot_be_met_are_pointed_at(
    admin: httpx.Client, pool: str, body: dict[str, object], pointer: str
) -> None:
    refused = admin.post(f"/v1/pools/{pool}/decide", json=body)
    assert refused.status_code == 422, refused.text
    assert problem_of(refused)["errors"][0]["pointer"].startswith(pointer)


@pytest.mark.parametrize(
    ("policy", "constraints"),
    [
        (
            {"name": "fixed-mix", "settings": {"probabilities": [0.9, 0.5, 0.3, 0.2, 0.07, 0.03]}},
            {},
        ),
        (
            {"name": "con-ucb", "settings": {"horizon": 10_000, "gamma_scale": 1e-6}},
            {"exclude": ["l2"]},
        ),
    ],
)
def test_links_are_shown_as_often_as_their_propensity_says(
    admin: httpx.Client,
    make_pool: Callable[..., str],
    let_windows_close: Callable[[float], None],
    policy: dict[str, object],
    constraints: dict[str, object],
) -> None:
    """Chi-square over pages; fails by accident with probability below 1e-6 for each case.

    Pages of a dependent rounding vary less than independent draws, so the bound is safe; and
    the server is seeded, so in fact the test always sees the same pages.
    """
    pool = make_pool(6, slots=2, click_window_s=1, revenue_window_s=1)
    teach(admin, pool)
    let_windows_close(2)
    # A floor between two corners of the frontier binds and mixes the two pages.
    corners = [
        point["click_floor"] for point in admin.get(f"/v1/pools/{pool}/frontier").json()["points"]
    ]
    floor = (corners[-2] + corners[-1]) / 2
    changed = admin.patch(f"/v1/pools/{pool}", json={"policy": policy, "click_floor": floor})
    assert changed.status_code == 200, changed.text
    n_pages = 1_500
    shown: Counter[str] = Counter()
    expected: dict[str, float] = {}
    versions = set()
    for _ in range(n_pages):
        page = admin.post(f"/v1/pools/{pool}/decide", json=constraints).json()
        versions.add(page["policy_version"])
        for link in page["links"]:
            shown[link["link_id"]] += 1
            expected[link["link_id"]] = link["propensity"]
    assert len(versions) == 1
    assert sum(expected.values()) == pytest.approx(2.0)
    assert any(0.01 < chance < 0.99 for chance in expected.values())
    statistic = sum(
        (shown[link] - n_pages * chance) ** 2 / (n_pages * chance * (1 - chance))
        for link, chance in expected.items()
        if 1e-9 < chance < 1 - 1e-9
    )
    assert statistic < chi2.isf(1e-6, df=len(expected))
    for link, chance in expected.items():
        if chance > 1 - 1e-9:
            assert shown[link] == n_pages


def teach(admin: httpx.Client, pool: str) -> None:
    """Let every link be seen, link n be clicked n times in seven and sell for less the larger n."""
    events = []
    for number in range(400):
        page = admin.post(f"/v1/pools/{pool}/decide").json()
        for link in page["links"]:
            link_id, n = link["link_id"], int(link["link_id"][1:])
            if number % 7 >= n:
                continue
            one = {"decision_id": page["decision_id"], "link_id": link_id}
            events.append({"type": "click", **one})
            if number % 2:
                money = {"revenue_micros": 7_000_000 * (7 - n), "currency": "EUR"}
                order = f"{pool}-{number}-{link_id}"
                events.append({"type": "conversion", "conversion_id": order, **one, **money})
    outcomes = admin.post("/v1/events:batch", json={"events": events}).json()["outcomes"]
    assert {outcome["outcome"] for outcome in outcomes} == {"accepted"}


def test_a_visitor_stays_in_a_group_that_the_answer_names(
    server: BackgroundServer, admin: httpx.Client, pool: str
) -> None:
    halves = {"own_page": ["l2", "l1"], "holdout": {"share": 0.5, "shows": "own"}}
    assert admin.patch(f"/v1/pools/{pool}", json=halves).json()["holdout"] == halves["holdout"]
    found = set()
    for k in range(40):
        pages = [
            admin.post(f"/v1/pools/{pool}/decide", json={"visitor_key": f"visitor {k}"}).json(),
            admin.post(f"/v1/pools/{pool}/page", json={"visitor_key": f"visitor {k}"}).json(),
            admin.post(
                f"/ofrep/v1/evaluate/flags/{pool}",
                json={"context": {"targetingKey": f"visitor {k}"}},
            ).json()["value"],
        ]
        [group] = {page["group"] for page in pages}
        found.add(group)
        if group == "own":
            assert [link["link_id"] for link in pages[0]["links"]] == ["l2", "l1"]
    assert found == {"chosen", "own"}  # by chance the same with 2 ** -39
    decision_id = admin.post(f"/v1/pools/{pool}/decide").json()["decision_id"]
    report = admin.get(f"/v1/decisions/{decision_id}").json()
    assert report["group"] in found
    assert report["group_probability"] == 0.5
    refused = admin.post(f"/v1/pools/{pool}/decide", json={"visitor_key": "x" * 1001})
    assert problem_of(refused)["errors"][0]["pointer"] == "/visitor_key"
