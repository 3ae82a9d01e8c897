"""Whatever stands in HTML is public: what a thief can do with the key of a page, and undo it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from slotwise.cli.main import main
from slotwise.service.records import SECOND_US, ClickEvent, KeyRecord, to_time
from slotwise.service.reporting.counts_since_start import PageProblems
from slotwise.service.server import BackgroundServer
from slotwise.service.service import Service
from slotwise.service.storage.sqlite import SqliteStore
from slotwise.service.storage.verify import verify
from tests.service import rows
from tests.service.conftest import http, problem_of

ON_PAGE = {"origin": "https://shop.example"}
OpenService = Callable[..., Service]


@pytest.fixture(scope="module")
def page_key(server: BackgroundServer) -> dict[str, Any]:
    with http(server.url, server.admin_key) as admin:
        made = admin.post("/v1/keys", json={"scopes": ["page"], "pool_id": "home"})
        assert made.status_code == 201, made.text
        key: dict[str, Any] = made.json()
        assert key["key"].startswith("sw_pk_")
        assert key["pool_id"] == "home"
        return key


@pytest.fixture
def thief(server: BackgroundServer, page_key: dict[str, Any]) -> Iterator[httpx.Client]:
    with http(server.url, page_key["key"]) as client:
        yield client


def test_it_proposes_pages_of_its_pool_and_nothing_else(
    server: BackgroundServer, thief: httpx.Client
) -> None:
    for path in (
        "/v1/pools/home/page",
        "/ofrep/v1/evaluate/flags/home",
        "/ofrep/v1/evaluate/flags",
    ):
        assert thief.post(path, headers=ON_PAGE).status_code == 200
    for method, path in (
        ("POST", "/ofrep/v1/evaluate/flags/other"),
        ("POST", "/v1/pools/home/decide"),
        ("GET", "/v1/pools/home"),
        ("GET", "/v1/pools/home/stats"),
        ("POST", "/v1/events"),
        ("GET", "/v1/keys"),
        ("GET", "/metrics"),
        ("DELETE", "/v1/pools/home/links/l1"),
    ):
        refused = thief.request(method, path, headers=ON_PAGE)
        assert problem_of(refused)["type"] == "wrong-scope", path
    with http(server.url, server.admin_key) as admin:
        home = admin.get("/v1/pools/home").json()
        admin.put(
            "/v1/pools/other",
            json={name: home[name] for name in ("slots", "max_revenue", "allowed_hosts")},
        ).raise_for_status()
    refused = thief.post("/v1/pools/other/page", headers=ON_PAGE)
    assert problem_of(refused)["type"] == "wrong-scope"


@pytest.mark.parametrize(
    "origin", ["", "https://evil.example", "null", "https://shop.example.evil.example", "\xff"]
)
def test_it_works_on_the_hosts_of_its_pool_only(thief: httpx.Client, origin: str) -> None:
    headers = {b"origin": origin.encode("latin-1")} if origin else {}
    for path in (
        "/v1/pools/home/page",
        "/ofrep/v1/evaluate/flags/home",
        "/ofrep/v1/evaluate/flags",
    ):
        refused = thief.post(path, headers=headers)
        assert problem_of(refused)["type"] == "wrong-host", path


def test_a_wrong_key_on_a_page_is_shown_to_its_owner(
    server: BackgroundServer, thief: httpx.Client
) -> None:
    with http(server.url, "sw_pk_wrong") as stranger:
        refused = stranger.post("/v1/pools/home/page", headers=ON_PAGE)
    assert problem_of(refused)["type"] == "unknown-key"
    assert thief.post("/v1/pools/home/page", headers=ON_PAGE).status_code == 200
    with http(server.url, server.admin_key) as admin:
        found = admin.get("/dashboard/pools/home").json()["overview"]["page_problems"]
    origin = ON_PAGE["origin"]
    assert [one for one in found if one["kind"] == "refused-key"] == [
        {"kind": "refused-key", "name": origin, "n": 1}
    ]


def test_it_neither_pins_nor_excludes_nor_chooses_ids(thief: httpx.Client) -> None:
    constraints = {
        "pin": [{"link_id": "l1", "position": 1}],
        "exclude": ["l2"],
        "decision_id": "mine",
    }
    for name, value in constraints.items():
        refused = thief.post("/v1/pools/home/page", json={name: value}, headers=ON_PAGE)
        assert problem_of(refused)["type"] == "validation"
    refused = thief.post("/v1/pools/home/page?pin=l1", headers=ON_PAGE)
    assert problem_of(refused)["type"] == "validation"


def test_one_address_has_a_budget_of_its_own(server: BackgroundServer, thief: httpx.Client) -> None:
    kinds = set()
    limit = server.context.limits["pages"]
    limit.spend("198.51.100.1", now_s=1e9, n=1_000_000)  # as if it had come a million times
    for number in (1, 2):
        headers = ON_PAGE | {"x-forwarded-for": f"198.51.100.{number}"}
        kinds.add(thief.post("/v1/pools/home/page", headers=headers).status_code)
    assert kinds == {200, 429}


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"scopes": ["page"]}, "/pool_id"),
        ({"scopes": ["page", "decide"], "pool_id": "home"}, "/scopes"),
        ({"scopes": ["decide"], "pool_id": "home"}, "/pool_id"),
    ],
)
def test_a_page_key_is_for_one_pool_and_has_one_scope(
    server: BackgroundServer, body: dict[str, object], pointer: str
) -> None:
    with http(server.url, server.admin_key) as admin:
        refused = admin.post("/v1/keys", json=body)
        assert problem_of(refused)["errors"][0]["pointer"] == pointer
        unknown = admin.post("/v1/keys", json={"scopes": ["page"], "pool_id": "nowhere"})
        assert problem_of(unknown)["type"] == "unknown-pool"


def test_its_views_can_be_told_apart(
    server: BackgroundServer, thief: httpx.Client, page_key: dict[str, Any]
) -> None:
    page = thief.post("/v1/pools/home/page", headers=ON_PAGE).json()
    assert thief.post(page["view_url"]).status_code == 204
    with http(server.url, server.admin_key) as admin:
        report = admin.get(f"/v1/decisions/{page['decision_id']}").json()
    assert report["decision"]["key_id"] == page_key["key_id"]


def show(service: Service, key_id: str, now_us: int, n_views: int, *, clicked: bool) -> None:
    for number in range(n_views):
        page = replace(service.decider.propose("home", now_us + number), key_id=key_id)
        service.decider.record_view(page, now_us + number)
        if clicked:
            click = ClickEvent(decision_id=page.decision_id, link_id=page.shown[0].link_id)
            service.committer.submit_events([click], now_us + number).result()


@pytest.mark.parametrize("policy", ["uniform", "paced-bayes", "queue-ts"])
def test_views_of_a_stolen_key_are_forgotten(
    open_service: OpenService,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    policy: str,
) -> None:
    """A link's rate falls while a thief makes views, and is what it was once they are forgotten."""
    service = open_service()
    service.directory.put_pool(
        rows.pool(policy=policy, policy_settings={}), "test", rows.T0
    ).result()
    service.directory.put_links(
        "home", [rows.link(f"l{k}") for k in range(1, 6)], "test", rows.T0
    ).result()
    key = KeyRecord(key_id="stolen", key_hash="f00d", scopes=("page",), pool_id="home")
    service.directory.put_key(key, "test", rows.T0).result()
    day_us = 86_400 * SECOND_US
    show(service, "own", rows.T0, 50, clicked=True)
    service.flush().result()
    service.learner.learn(rows.T0 + 3 * day_us)
    honest = _counters(service)
    theft_us = rows.T0 + 4 * day_us
    show(service, "stolen", theft_us, 200, clicked=False)
    service.flush().result()
    service.learner.learn(theft_us + 3 * day_us)
    assert _counters(service) != honest
    show(service, "stolen", theft_us + 3 * day_us, 20, clicked=True)  # still open
    service.close()
    since = f"{to_time(theft_us):%Y-%m-%dT%H:%M:%SZ}"
    store = tmp_path / "store.db"
    assert main(["forget", "--key", "stolen", "--since", since, "--store", str(store)]) == 0
    assert capsys.readouterr().out == "Excluded 220 page views from all counts.\n"
    opened = SqliteStore(store)
    assert verify(opened).mismatches == ()
    opened.close()
    service = open_service()
    assert _counters(service) == honest
    service.learner.learn(theft_us + 9 * day_us)
    assert _counters(service) == honest
    assert service.decider.decide("home", theft_us + 10 * day_us).fallback == ""


@pytest.mark.parametrize("policy", ["uniform", "paced-bayes"])
def test_a_running_service_forgets_views(open_service: OpenService, policy: str) -> None:
    service = open_service()
    service.directory.put_pool(
        rows.pool(policy=policy, policy_settings={}), "test", rows.T0
    ).result()
    service.directory.put_links(
        "home", [rows.link(f"l{k}") for k in range(1, 6)], "test", rows.T0
    ).result()
    key = KeyRecord(key_id="stolen", key_hash="f00d", scopes=("page",), pool_id="home")
    service.directory.put_key(key, "test", rows.T0).result()
    day_us = 86_400 * SECOND_US
    show(service, "own", rows.T0, 50, clicked=True)
    service.flush().result()
    service.learner.learn(rows.T0 + 3 * day_us)
    honest, known = _counters(service), _knowledge(service)
    theft_us = rows.T0 + 4 * day_us
    show(service, "stolen", theft_us, 200, clicked=False)
    service.flush().result()
    service.learner.learn(theft_us + 3 * day_us)
    assert _counters(service) != honest
    version = service.health().pools[0].policy_version
    forgotten = service.directory.forget_views("stolen", theft_us, "test", theft_us + 3 * day_us)
    assert forgotten.result() == 200
    service.learner.learn(theft_us + 4 * day_us)
    assert _counters(service) == honest
    assert _knowledge(service) == known
    [health] = service.health().pools
    assert (health.policy_version, health.n_failures) == (version + 1, 0)


def test_views_are_forgotten_over_http(server: BackgroundServer) -> None:
    with http(server.url, server.admin_key) as admin:
        made = admin.post("/v1/keys", json={"scopes": ["decide"]}).json()
        path = f"/v1/keys/{made['key_id']}/forget"
        with http(server.url, made["key"]) as shop:
            page = shop.post("/v1/pools/home/decide").json()
            refused = shop.post(path, json={"since": "2020-01-05T10:00:00Z"})
            assert problem_of(refused)["type"] == "wrong-scope"
        later = admin.post(path, json={"since": "2999-01-05T10:00:00Z"})
        assert later.json() == {"views": 0}
        forgotten = admin.post(path, json={"since": "2020-01-05T10:00:00Z"})
        assert forgotten.json() == {"views": 1}
        report = admin.get(f"/v1/decisions/{page['decision_id']}").json()
        assert report["decision"]["key_id"] == made["key_id"]
        assert report["decision"]["learned"] is False
        unknown = admin.post("/v1/keys/nobody/forget", json={"since": "2020-01-05T10:00:00Z"})
        assert problem_of(unknown)["type"] == "unknown-key-id"
        for body in ({}, {"since": "yesterday"}, {"since": "2020-01-05T10:00:00"}):
            assert problem_of(admin.post(path, json=body))["type"] == "validation"


def _knowledge(service: Service) -> object:
    """Return what a policy that learns view by view knows."""
    learned = service.knowledge("home")
    return learned and {name: array.tolist() for name, array in learned.arrays.items()}


def _counters(service: Service) -> object:
    report = service.reporter.stats("home")
    return [(link.link_id, link.click_views, link.clicks) for link in report.links]


def test_forgetting_needs_a_key_and_a_time(
    open_service: OpenService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_service().close()
    store = ["--store", str(tmp_path / "store.db")]
    assert main(["forget", "--key", "k9", "--since", "2026-01-05T10:00:00Z", *store]) == 2
    assert "`key` must be the id of a key of this store, got 'k9'" in capsys.readouterr().err
    assert main(["forget", "--key", "k9", "--since", "yesterday", *store]) == 2
    assert "`since` must be a time with its zone" in capsys.readouterr().err


def test_junk_origins_hide_no_real_problem(server: BackgroundServer) -> None:
    """Preflights need no key: names that are sent once take nobody's place."""
    pages = PageProblems()
    for k in range(3_000):
        pages.note("refused-host", "home", f"https://junk{k}.example")
        pages.note("unknown-pool", "", f"junk{k}")
    pages.note("refused-visitor", "home", "`visitor` must be declared features only")
    for k in range(300):
        pages.note("refused-host", "home", "https://old.shop.example")
        pages.note("refused-host", "home", f"https://more-junk{k}.example")
    shown = pages.of("home")
    assert ("refused-host", "https://old.shop.example") in [(one.kind, one.name) for one in shown]
    assert "refused-visitor" in {one.kind for one in shown}
    assert len(shown) <= 12
    assert sum(map(len, pages._counts.values())) <= 400
    with http(server.url, None) as visitor:
        for k in range(250):
            headers = {"origin": f"https://junk{k}.example"}
            visitor.options("/v1/pools/home/page", headers=headers)
        for _ in range(3):
            headers = {"origin": "https://old.shop.example"}
            visitor.options("/v1/pools/home/page", headers=headers)
    names = [one.name for one in server.context.outcomes.pages.of("home")]
    assert "https://old.shop.example" in names
