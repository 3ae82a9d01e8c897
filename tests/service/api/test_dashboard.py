"""The dashboard's addresses over HTTP: who may read, what is sent, how often it is made."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from slotwise.service.api.context import Request
from slotwise.service.api.dashboard_session import is_visitor_of_this_machine
from slotwise.service.http import exchange
from slotwise.service.records import ChangeRecord, Scope
from slotwise.service.reporting.overview import describe_changes, floor_steps
from slotwise.service.reporting.reporter import ReportCache
from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from tests.service.conftest import problem_of


def test_the_page_may_load_from_the_service_only(visitor: httpx.Client) -> None:
    page = visitor.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "http:" not in page.text.replace("http://www.w3.org", "")


def test_files_are_compressed_and_sent_once(visitor: httpx.Client) -> None:
    address = "/dashboard/files/plotly.min.js"
    first = visitor.get(address)
    assert first.headers["content-encoding"] == "gzip"
    assert "immutable" in first.headers["cache-control"]
    plain = visitor.get(address, headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.content == first.content
    known = visitor.get(address, headers={"if-none-match": first.headers["etag"]})
    assert (known.status_code, known.content) == (304, b"")
    assert problem_of(visitor.get("/dashboard/files/secrets.js"))["type"] == "unknown-route"


@pytest.mark.parametrize("below", ["", "/{pool}", "/{pool}/links"])
def test_figures_need_a_read_key_or_this_machine(
    visitor: httpx.Client, keyed: Callable[[Scope], httpx.Client], pool: str, below: str
) -> None:
    address = "/dashboard/pools" + below.format(pool=pool)
    assert visitor.get(address).status_code == 200
    forwarded = {"x-forwarded-for": "203.0.113.9"}
    assert problem_of(visitor.get(address, headers=forwarded))["type"] == "missing-key"
    elsewhere = {"host": "evil.example"}
    assert problem_of(visitor.get(address, headers=elsewhere))["type"] == "missing-key"
    assert keyed("read").get(address, headers=forwarded).status_code == 200
    assert problem_of(keyed("decide").get(address))["type"] == "wrong-scope"


@pytest.mark.parametrize(
    ("client", "headers", "settings", "is_here"),
    [
        ("127.0.0.1", {}, {}, True),
        ("::1", {b"host": b"[::1]:8460"}, {"host": "::1"}, True),
        ("127.0.0.1", {b"host": b"localhost:8460"}, {}, True),
        ("203.0.113.9", {}, {}, False),
        ("", {}, {}, False),
        ("127.0.0.1", {}, {"host": "0.0.0.0"}, False),
        ("127.0.0.1", {}, {"public_url": "https://links.example"}, False),
        ("127.0.0.1", {b"host": b"rebound.example"}, {}, False),
        ("127.0.0.1", {b"host": b"127.0.0.1.evil.example"}, {}, False),
        ("127.0.0.1", {b"forwarded": b"for=203.0.113.9"}, {}, False),
        ("127.0.0.1", {b"x-real-ip": b"203.0.113.9"}, {}, False),
        ("127.0.0.1", {b"authorization": b"Bearer wrong"}, {}, False),
    ],
)
def test_who_sits_at_this_machine(
    client: str, headers: dict[bytes, bytes], settings: dict[str, str], is_here: bool
) -> None:
    request: Request = exchange.Request(
        method="GET",
        headers={b"host": b"127.0.0.1:8460"} | headers,
        path_values={},
        request_id="r",
        client=client,
    )
    made = Settings(
        host=settings.get("host", "127.0.0.1"), public_url=settings.get("public_url", "")
    )
    assert is_visitor_of_this_machine(request, made) is is_here


def test_rows_are_filtered_sorted_and_cut(
    visitor: httpx.Client, make_pool: Callable[..., str]
) -> None:
    pool = make_pool(30)
    address = f"/dashboard/pools/{pool}/links"
    asked: dict[str, str | int] = {"sort": "name", "order": "up", "limit": 3, "offset": 2}
    found = visitor.get(address, params=asked).json()
    assert (found["n_links"], found["n_found"]) == (30, 30)
    assert [row["link_id"] for row in found["rows"]] == ["l11", "l12", "l13"]
    found = visitor.get(address, params={"text": "EXAMPLE/7"}).json()
    assert [row["link_id"] for row in found["rows"]] == ["l7"]
    assert visitor.get(address, params={"role": "earner"}).json()["n_found"] == 0
    for wrong in ({"limit": "0"}, {"sort": "luck"}, {"offset": "-1"}, {"colour": "red"}):
        refused = visitor.get(address, params=wrong)
        assert problem_of(refused)["errors"][0]["parameter"] == next(iter(wrong))


def test_an_overview_tells_what_came(visitor: httpx.Client, admin: httpx.Client, pool: str) -> None:
    decision = admin.post(f"/v1/pools/{pool}/decide").json()
    named = {"decision_id": decision["decision_id"], "link_id": decision["links"][0]["link_id"]}
    admin.post("/v1/events", json={"type": "click", **named})
    # A change of settings has the report made anew at once.
    admin.patch(f"/v1/pools/{pool}", json={"click_floor": 0.25})
    overview = visitor.get(f"/dashboard/pools/{pool}").json()["overview"]
    assert (overview["has_view"], overview["has_click"], overview["has_sale"]) == (
        True,
        True,
        False,
    )
    assert sum(span["views"] for span in overview["spans"]) == 1
    assert overview["changes"][0]["what"] == "changed the pool: click floor 0.2 → 0.25"
    assert overview["changes"][0]["is_marked"]


def test_changes_write_times_as_dates(
    visitor: httpx.Client, admin: httpx.Client, make_pool: Callable[..., str]
) -> None:
    pool = make_pool(3)
    admin.patch(f"/v1/pools/{pool}", json={"until": "2199-03-20T10:30:00+01:00"})
    admin.patch(f"/v1/pools/{pool}", json={"until": None})
    changes = visitor.get(f"/dashboard/pools/{pool}").json()["overview"]["changes"]
    assert [one["what"] for one in changes[:2]] == [
        "changed the pool: until 2199-03-20 09:30 → none",
        "changed the pool: until none → 2199-03-20 09:30",
    ]


def test_odd_feedback_is_counted_for_its_pool(
    visitor: httpx.Client, admin: httpx.Client, make_pool: Callable[..., str]
) -> None:
    pools = [make_pool(5), make_pool(5)]
    for n_times, pool in enumerate(pools, start=2):
        page = admin.post(f"/v1/pools/{pool}/decide").json()
        named = {"decision_id": page["decision_id"], "link_id": page["links"][0]["link_id"]}
        click = {"type": "click", **named}
        stray = click | {"link_id": "never-shown"}
        for event in (*[click] * n_times, *[stray] * 3):
            admin.post("/v1/events", json=event).raise_for_status()
        follow = page["links"][1]["click_url"]
        browser = {"user-agent": "Mozilla/5.0"}
        for _ in range(2):
            assert visitor.get(follow, headers=browser).status_code == 302
    before = visitor.get(f"/dashboard/pools/{pools[0]}").json()["overview"]["refused_since_start"]
    admin.post("/v1/events:batch", json={"events": [{"type": "gift"}, 7]}).raise_for_status()
    for n_times, pool in enumerate(pools, start=2):
        # A change of settings has the report made anew at once.
        admin.patch(f"/v1/pools/{pool}", json={"click_floor": 0.25})
        overview = visitor.get(f"/dashboard/pools/{pool}").json()["overview"]
        assert overview["duplicates"] == (n_times - 1) + 1
        assert overview["refused"] == 1  # the same stray click, however often
        assert overview["refused_since_start"] == before + 2


def test_rows_come_from_the_report_that_is_shown(
    visitor: httpx.Client, make_pool: Callable[..., str]
) -> None:
    pool = make_pool(5)
    figures = visitor.get(f"/dashboard/pools/{pool}", params={"limit": 2}).json()
    assert len(figures["links"]["rows"]) == 2
    rows = visitor.get(f"/dashboard/pools/{pool}/links", params={"limit": 2}).json()
    assert rows == figures["links"]


def test_a_report_is_kept_until_it_is_old_or_things_change() -> None:
    now = [0.0]
    made: list[float] = []

    def make() -> float:
        made.append(now[0])
        now[0] += 0.5  # it takes half a second, so it is kept for ten
        return made[-1]

    kept: ReportCache[float] = ReportCache(cached_s=2.0, clock_s=lambda: now[0])
    assert [kept.get("home", 1, make) for _ in range(3)] == [0.0, 0.0, 0.0]
    now[0] = 10.0
    assert kept.get("home", 1, make) == 0.0
    assert kept.get("home", 2, make) == 10.0
    now[0] = 30.0
    assert kept.latest("home", 2, make) == 10.0
    assert kept.get("home", 2, make) == 30.0
    assert kept.latest("home", 3, make) == 30.5
    now[0] = 300.0
    assert kept.latest("home", 3, make) == 300.0


def test_links_changed_together_share_a_line() -> None:
    def change(us: int, action: str, subject: str, by: str = "k1") -> ChangeRecord:
        return ChangeRecord(changed_us=us, changed_by=by, action=action, subject=subject)

    changes = [
        *(change(us, "link.create", f"home/l{us}") for us in range(100)),
        change(200, "link.create", "home/x", by="k2"),
        change(300, "link.create", "homeland/x"),
        change(400, "link.retire", "home/l1"),
    ]
    lines = describe_changes("home", changes, {"k2": "night shift"}, 10)
    assert [line.what for line in lines] == ["retired link l1", "added link x", "added 100 links"]
    assert [line.changed_by for line in lines] == ["k1", "night shift", "k1"]
    cut = describe_changes("home", changes, {}, 10, read_since_us=5)
    assert cut[-1].what == "added 100 or more links"


def test_the_floors_of_the_past_are_known_from_the_changes() -> None:
    def change(us: int, before: float, after: float) -> ChangeRecord:
        fields = [f'{{"click_floor": {floor}}}' for floor in (before, after)]
        return ChangeRecord(
            changed_us=us,
            changed_by="k1",
            action="pool.change",
            subject="home",
            before=fields[0],
            after=fields[1],
        )

    changes = [change(10, 0.1, 0.2), change(20, 0.2, 0.2), change(30, 0.2, 0.5)]
    steps = floor_steps("home", changes, 0.5, since_us=15)
    assert [(step.from_us, step.click_floor) for step in steps] == [(15, 0.2), (30, 0.5)]
    assert [step.click_floor for step in floor_steps("home", [], 0.3, 15)] == [0.3]


def test_the_first_picture_is_made_when_the_page_is_asked_for(
    server: BackgroundServer,
    visitor: httpx.Client,
    make_pool: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_pool(3)
    first = next(pool for pool in server.context.service.directory.pools() if not pool.archived)
    made: list[str] = []
    asked = threading.Event()

    def note(name: str, *_: Any) -> None:
        made.append(name)
        asked.set()

    monkeypatch.setattr(server.context.dashboards, "latest", note)
    assert visitor.get("/").status_code == 200
    assert asked.wait(600)
    assert made == [first.pool_id]


def test_reports_of_many_names_take_bounded_memory() -> None:
    kept: ReportCache[int] = ReportCache(cached_s=10.0)
    for number in range(3_000):
        assert kept.get(f"period {number}", 0, lambda number=number: number) == number  # type: ignore[misc]
    assert len(kept._making) <= 1_000
    assert len(kept._cache) <= 64


def test_a_change_of_rules_says_what_changed(
    admin: httpx.Client, make_pool: Callable[..., str]
) -> None:
    pool = make_pool(4)
    cap = {"name": "cap", "links": ["l1"], "at_most": 0.3}
    partner = {"name": "partner", "links": ["l2"], "at_least": 0.5}
    for rules in ([cap, partner], [cap | {"at_most": 0.5}, partner], [partner]):
        admin.put(f"/v1/pools/{pool}/rules", json={"rules": rules}).raise_for_status()
    overview = admin.get(f"/dashboard/pools/{pool}").json()["overview"]
    said = [one["what"].removeprefix("changed the pool: ") for one in overview["changes"]]
    assert said[:2] == ["removed the rule cap", "rule cap: at most 0.3 → 0.5"]
    assert said[2] == (
        "added the rule cap (links l1, at most 0.3), "
        "added the rule partner (links l2, at least 0.5)"
    )
