"""The panel "Segments" in a real browser: visitors against the average, and slot weights."""

from __future__ import annotations

import random

import httpx
import pytest
from playwright.sync_api import expect

from slotwise.service.records import ClickEvent, ConversionEvent, Event
from slotwise.service.server import BackgroundServer
from tests.browser.conftest import Watched
from tests.browser.looking import (
    KeepPicture,
    assert_accessible,
    money_in_words,
)
from tests.browser.simulated_day import POOL, DayClock, links

HOSTILE = "<img src=x onerror=\"document.title='hacked'\">"
WEIGHTS = (1.6, 0.9, 0.5)


@pytest.fixture(scope="module")
def whom(server: BackgroundServer, admin: httpx.Client, clock: DayClock) -> str:
    """Return a pool whose phones buy the first links and whose desktops buy the last."""
    settings = POOL | {
        "click_floor": 0.1,
        "click_window_s": 600,
        "revenue_window_s": 600,
        "features": {"device": ["phone", "desktop"], "country": "text", "returning": "bool"},
        "slot_weights": "learn",
        "segment_floors": {"device": {"phone": 0.2}, "country": {"AT": 0.3}},
    }
    admin.put("/v1/pools/whom", json=settings).raise_for_status()
    admin.post("/v1/pools/whom/links:batch", json={"links": links(6)}).raise_for_status()
    service, chance = server.context.service, random.Random(5)
    for _ in range(8):
        events: list[Event] = []
        for _ in range(200):
            clock.advance(2)
            device = chance.choice(["phone", "desktop"])
            said = {"device": device, "country": chance.choice(["DE", HOSTILE]), "returning": True}
            page = service.decider.decide("whom", clock(), visitor=said)
            for shown in page.shown:
                likes = (int(shown.link_id[1:]) < 3) == (device == "phone")
                if chance.random() < (0.3 if likes else 0.05) * WEIGHTS[shown.position - 1]:
                    one = (page.decision_id, shown.link_id)
                    events.append(ClickEvent(*one))
                    earned = 30_000_000 if device == "phone" else 8_000_000
                    sale = f"w-{page.decision_id}-{shown.link_id}"
                    events.append(ConversionEvent(sale, *one, earned, "EUR"))
        service.committer.submit_events(events, clock()).result()
        clock.advance(700)
        service.learner.learn(clock())
    return "whom"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_tells_who_brings_what_and_sees_what(
    watched: Watched, admin: httpx.Client, whom: str, keep_picture: KeepPicture, dark: bool
) -> None:
    page = watched.open(whom, "visitors", dark=dark)
    panel = page.locator("#segments")
    expect(panel).to_be_visible()
    figures = admin.get(f"/dashboard/pools/{whom}/segments").json()
    rows = panel.locator("table").first.locator("tbody tr")
    expect(rows).to_have_count(1 + len(figures["values"]))
    phone = rows.filter(has_text="device: phone")
    [counted] = [one for one in figures["values"] if one["value"] == "phone"]
    figure, interval = money_in_words(counted["revenue_per_view_micros"])
    expect(phone).to_contain_text(f"{figure} (+")
    expect(phone).to_contain_text(interval)
    likeliest = counted["top_links"][0]["title"]
    expect(phone.locator("td").last).to_contain_text(likeliest)
    expect(rows.filter(has_text="device: desktop")).to_contain_text("(-")
    # Pages from before a word was frequent differ by time, so they are compared with nothing.
    early = rows.filter(has_text="country: rare or not listed yet").locator("td").nth(1)
    expect(early).not_to_contain_text("%")
    expect(panel.locator(".verdict")).to_contain_text("segments certainly differ from it")
    apart = "device: phone certainly earns more than device: desktop"
    expect(panel.locator(".verdict")).to_contain_text(apart)
    expect(page.locator("#cost .verdict")).to_contain_text(
        "The curve is the average of the 4 most frequent kinds of visitors."
    )
    expect(panel.locator(".floor-column")).to_have_text("Click floor")
    expect(phone).to_contain_text("0.20: met")
    expect(phone).to_contain_text("since it was set")
    expect(rows.filter(has_text="country: AT")).to_contain_text("0.30: learning")
    expect(rows.filter(has_text=HOSTILE)).to_have_count(1)
    expect(rows.filter(has_text="returning: yes")).to_have_count(1)
    slots = panel.locator(".slot-weights tbody tr")
    expect(slots).to_have_count(3)
    weights = [slot["weight"] for slot in figures["slots"]]
    assert weights[0] > weights[2]
    expect(slots.first).to_contain_text(" to ")
    for slot in figures["slots"]:
        mostly = slot["mostly"]
        words = mostly["title"] if mostly["probability"] > 0.5 else "changes from page to page"
        expect(slots.nth(slot["position"] - 1).locator("td").last).to_contain_text(words)
    keep_picture(page, f"segments-{'dark' if dark else 'light'}")
    assert_accessible(page)
    assert page.title() == f"{whom} · slotwise"


def test_it_reports_that_most_page_views_are_rare(
    watched: Watched, server: BackgroundServer, admin: httpx.Client, clock: DayClock
) -> None:
    features = {"campaign": "text", "country": "text"}
    settings = POOL | {"click_window_s": 60, "revenue_window_s": 60, "features": features}
    admin.put("/v1/pools/rare", json=settings).raise_for_status()
    admin.post("/v1/pools/rare/links:batch", json={"links": links(6)}).raise_for_status()
    service = server.context.service
    for k in range(1_300):  # a part of them are random pages
        if k in (100, 200):
            clock.advance(70)
            service.learner.learn(clock())
        service.decider.decide("rare", clock(), visitor={"campaign": f"c{k}", "country": "DE"})
    clock.advance(70)
    service.learner.learn(clock())
    verdict = watched.open("rare", "visitors").locator("#segments .verdict")
    expect(verdict).to_contain_text("100% of page views have a rare campaign")
    expect(verdict).not_to_contain_text("rare country")


def test_it_is_not_there_without_features_and_slots(watched: Watched, day: str) -> None:
    page = watched.open(day, "visitors")
    expect(page.locator("#no-segments")).to_be_visible()
    expect(page.locator("#segments")).to_be_hidden()


def test_it_fits_a_phone(watched: Watched, whom: str) -> None:
    page = watched.open(whom, "visitors", width=360)
    expect(page.locator("#segments")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
