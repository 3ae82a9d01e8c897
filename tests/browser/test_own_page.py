"""A pool that promises to earn what the own page earns: its card, its form and its alert."""

from __future__ import annotations

import httpx
import msgspec
import numpy as np
import pytest
from playwright.sync_api import Page, expect

from slotwise.service.alert_conditions import alerts_of
from slotwise.service.records import ClickEvent, ConversionEvent, Event
from slotwise.service.reporting.overview import Overview
from slotwise.service.server import BackgroundServer
from tests.browser.conftest import Watched
from tests.browser.looking import KeepPicture, assert_accessible, sign_in, wait_for_charts
from tests.browser.simulated_day import DayClock

POOL = {
    "slots": 2,
    "click_floor": 0.5,
    "max_revenue": {"amount_micros": 20_000_000, "currency": "EUR"},
    "click_window_s": 600,
    "revenue_window_s": 600,
    "own_page": ["l3", "l2"],
    "holdout": {"share": 0.1, "shows": "own"},
    "keep": 0.8,
    "allowed_hosts": ["shop.example"],
    "slot_weights": "equal",
    "policy": {"name": "fixed-mix", "settings": {"probabilities": [1.0, 1.0, 0.0, 0.0]}},
}
SALES = {"better": (0.9, 0.9, 0.2, 0.2), "worse": (0.01, 0.01, 0.8, 0.8), "young": (0.0,) * 4}
"""The share of views on which each link sells."""
N_VIEWS = {"better": 1_600, "worse": 800, "young": 60}


@pytest.fixture(scope="module", params=SALES)
def pool_id(
    request: pytest.FixtureRequest, server: BackgroundServer, admin: httpx.Client, clock: DayClock
) -> str:
    """Return a pool whose chosen pages are better or worse than its own page."""
    name: str = request.param
    admin.put(f"/v1/pools/{name}", json=POOL).raise_for_status()
    links = [
        {"link_id": f"l{n}", "url": f"https://shop.example/{n}", "title": f"Offer {n}"}
        for n in range(4)
    ]
    admin.post(f"/v1/pools/{name}/links:batch", json={"links": links}).raise_for_status()
    service, rng = server.context.service, np.random.default_rng(3)
    events: list[Event] = []
    for k in range(N_VIEWS[name]):
        clock.advance(10)
        page = service.decider.decide(name, clock())
        for shown in page.shown:
            if rng.random() < SALES[name][int(shown.link_id[1])]:
                of = (page.decision_id, shown.link_id)
                events.append(ClickEvent(*of))
                events.append(ConversionEvent(f"{name}-{k}-{of[1]}", *of, 20_000_000, "EUR"))
        if k % 40 == 39:
            service.committer.submit_events(events, clock()).result()
            events = []
            service.learner.learn(clock())
    return name


VERDICTS = {
    "better": ("more than your own page (", "Yes. A thousand chosen pages earn "),
    "worse": ("less than your own page (", "No. A thousand chosen pages earn "),
    "young": ("Nothing has settled yet", ""),
}


def test_the_promise_is_told_in_sentences(
    watched: Watched, pool_id: str, keep_picture: KeepPicture
) -> None:
    page = watched.open(pool_id)
    wait_for_charts(page)
    for part in VERDICTS[pool_id]:
        expect(page.locator("#earning .verdict")).to_contain_text(part)
    card = page.locator("#promise")
    expect(card).to_contain_text("at least 80% of what your own page alone would have earned")
    expect(card).to_contain_text("of the pages are chosen now")
    if pool_id == "better":
        expect(card.locator(".money")).to_contain_text("was gained against your own page")
    if pool_id == "worse":
        expect(card).to_contain_text("certainly worse than your own page, so few of them are shown")
        expect(card.locator(".money")).to_contain_text("was lost against your own page")
        expect(page.locator("#earning .verdict")).to_contain_text("certainly earns more")
    assert_accessible(page)
    keep_picture(page, f"promise-{pool_id}")


def test_a_worse_pool_has_an_alert(
    server: BackgroundServer, clock: DayClock, admin: httpx.Client, pool_id: str
) -> None:
    report = admin.get(f"/v1/pools/{pool_id}/stats").json()["comparison"]
    assert report["is_worse"] == (pool_id == "worse")
    found = admin.get(f"/dashboard/pools/{pool_id}").json()["overview"]
    alerts = [one.kind for one in alerts_of(msgspec.convert(found, Overview))]
    assert ("own-page-better" in alerts) == (pool_id == "worse")


@pytest.mark.parametrize("pool_id", ["worse"], indirect=True)
def test_a_promise_that_was_raised_is_not_called_kept(
    watched: Watched, server: BackgroundServer, clock: DayClock, admin: httpx.Client, pool_id: str
) -> None:
    admin.patch(f"/v1/pools/{pool_id}", json={"keep": 0.99}).raise_for_status()
    server.context.service.learner.learn(clock())
    card = watched.open(pool_id).locator("#promise")
    expect(card).to_contain_text("is to be at least 99% of what your own page alone would have")
    expect(card).to_contain_text("By settled views it is only 8")
    expect(card).to_contain_text("The next pages are own pages, until there is room in the promise")


def fill(page: Page, label: str, text: str) -> None:
    page.locator("dialog[open]").get_by_label(label, exact=True).fill(text)


def value(page: Page, label: str) -> str:
    return page.locator("dialog[open]").get_by_label(label, exact=True).input_value()


def test_the_form_proposes_the_links_as_the_own_page(
    watched: Watched, server: BackgroundServer, admin: httpx.Client, keep_picture: KeepPicture
) -> None:
    admin.put("/v1/pools/home", json=POOL).raise_for_status()
    page = watched.open("home")
    page.get_by_role("button", name="Sign in").click()
    sign_in(page, server.admin_key)
    page.get_by_role("button", name="New pool").click()
    fill(page, "Name", "proposed")
    assert (value(page, "Your page today"), value(page, "Promise")) == ("", "")
    fill(page, "Links", "https://shop.example/b\nhttps://shop.example/a")
    assert value(page, "Your page today").split() == ["b", "a"]
    assert value(page, "Promise") == "0.95"
    keep_picture(page, "pool-form-own-page")
    fill(page, "Your page today", "")
    assert value(page, "Promise") == ""
    fill(page, "Your page today", "a")
    assert value(page, "Promise") == "0.95"
    page.locator("dialog[open]").get_by_role("button", name="Save").click()
    expect(page.locator("#pool-form")).to_be_hidden()
    made = admin.get("/v1/pools/proposed").json()
    assert (made["own_page"], made["keep"]) == (["a"], 0.95)
    assert made["holdout"] == {"share": 0.05, "shows": "own"}


@pytest.mark.parametrize("pool_id", ["young"], indirect=True)
def test_sales_of_chosen_pages_alone_are_evidence(
    watched: Watched, admin: httpx.Client, pool_id: str
) -> None:
    pool = admin.get(f"/dashboard/pools/{pool_id}").json()["overview"]
    gained = {"mean": 120e6, "low": 30e6, "high": 150e6}
    pool["comparison"] |= {"lift": None, "reason": "evidence", "chosen_views": 90}
    pool["comparison"] |= {"gained_micros": gained, "missing_links": ["typo1", "typo2"]}
    asked = "async (pool) => (await import('/dashboard/files/words.js')).promise(pool)"
    told = watched.open(pool_id).evaluate(asked, pool)
    assert "120.00 was gained" in told["money"]
    assert "As many as the evidence so far allows. Your own page has no settled" in told["share"]
    assert "no evidence" not in told["share"]
    assert "links that the pool does not have: typo1, typo2." in told["note"]
