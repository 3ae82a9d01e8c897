"""Every tab of a pool with a clear gain, wide and narrow, light and dark; README's picture."""

from __future__ import annotations

import httpx
import numpy as np
import pytest
from playwright.sync_api import Page, expect

from slotwise.service.records import ClickEvent, ConversionEvent, Event
from slotwise.service.server import BackgroundServer
from tests.browser.conftest import PICTURES, Watched
from tests.browser.looking import TABS, KeepPicture, assert_accessible, open_tab, wait_for_charts
from tests.browser.simulated_day import DayClock

# Title, clicks per view, sales per click, revenue of a sale in euros.
OFFERS = (
    ("Rain jackets", 0.16, 0.6, 34),
    ("Trail shoes", 0.14, 0.6, 32),
    ("Day packs", 0.12, 0.5, 28),
    ("Merino shirts", 0.12, 0.2, 16),
    ("Wool socks", 0.3, 0.12, 6),
    ("Head torches", 0.1, 0.15, 14),
    ("Water bottles", 0.26, 0.1, 7),
    ("Maps and guides", 0.22, 0.05, 9),
    ("Gift cards", 0.04, 0.2, 20),
    ("Winter clearance", 0.33, 0.04, 8),
    ("Sun hats", 0.2, 0.05, 9),
    ("Repair kits", 0.1, 0.1, 5),
)
LIKES = {"phone": (1.3, 0.6), "desktop": (0.7, 1.4)}
SLOT_WEIGHTS = (1.4, 1.0, 0.6)
N_FOLDS, N_VIEWS = 46, 200
POOL = {
    "slots": 3,
    "click_floor": 0.55,
    "max_revenue": {"amount_micros": 36_000_000, "currency": "EUR"},
    "click_window_s": 1800,
    "revenue_window_s": 3600,
    "holdout": 0.2,
    "allowed_hosts": ["shop.example"],
    "features": {"device": ["phone", "desktop"], "country": "text"},
    "slot_weights": "learn",
}


@pytest.fixture(scope="module")
def home(server: BackgroundServer, admin: httpx.Client, clock: DayClock) -> str:
    """Return a pool that has earned more than random pages for two days."""
    admin.put("/v1/pools/home", json=POOL).raise_for_status()
    ids = [title.lower().replace(" ", "-") for title, *_ in OFFERS]
    links = [
        {"link_id": ids[k], "url": f"https://shop.example/{ids[k]}", "title": OFFERS[k][0]}
        for k in range(len(OFFERS))
    ]
    admin.post("/v1/pools/home/links:batch", json={"links": links}).raise_for_status()
    service, rng = server.context.service, np.random.default_rng(11)
    for fold in range(N_FOLDS):
        events: list[Event] = []
        for _ in range(N_VIEWS):
            clock.advance(3600 / N_VIEWS)
            device = "phone" if rng.random() < 0.6 else "desktop"
            said = {"device": device, "country": str(rng.choice(["DE", "AT", "CH"]))}
            page = service.decider.decide("home", clock(), visitor=said)
            for shown in page.shown:
                _, clicks, sales, earned = OFFERS[ids.index(shown.link_id)]
                likes = LIKES[device][earned >= 15] * SLOT_WEIGHTS[shown.position - 1]
                if rng.random() >= clicks * likes:
                    continue
                one = (page.decision_id, shown.link_id)
                events.append(ClickEvent(*one))
                if rng.random() < sales:
                    sale = f"home-{page.decision_id}-{shown.link_id}"
                    events.append(ConversionEvent(sale, *one, earned * 1_000_000, "EUR"))
            if len(events) > 20:  # before their windows close
                service.committer.submit_events(events, clock()).result()
                events = []
        service.committer.submit_events(events, clock()).result()
        service.learner.learn(clock())
        if fold == N_FOLDS // 2:
            note = {"text": "The spring campaign began"}
            admin.post("/v1/pools/home/notes", json=note).raise_for_status()
    return "home"


@pytest.mark.parametrize(
    ("width", "dark"),
    [
        pytest.param(1280, False, id="1280-light"),
        pytest.param(390, True, id="390-dark"),
        pytest.param(1280, True, id="1280-dark", marks=pytest.mark.slow),
        pytest.param(390, False, id="390-light", marks=pytest.mark.slow),
    ],
)
def test_every_tab_can_be_read(
    watched: Watched, home: str, keep_picture: KeepPicture, width: int, dark: bool
) -> None:
    page = watched.open(home, width=width, dark=dark)
    expect(page.locator("#condition .words")).to_have_text(
        f"It earns {lift(page)} more than random pages, and its click floor is met."
    )
    for tab in TABS:
        open_tab(page, tab)
        if tab in ("Overview", "Links"):
            wait_for_charts(page)
        if tab == "Overview" and width == 1280 and not dark:
            box = page.locator("#cost").bounding_box()
            assert box is not None
            height = box["y"] + box["height"] + 16
            page.screenshot(
                path=PICTURES / "home.png",
                full_page=True,
                clip={"x": 0, "y": 0, "width": width, "height": height},
            )
        keep_picture(page, f"{tab.lower()}-{width}-{'dark' if dark else 'light'}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert_accessible(page)


def lift(page: Page) -> str:
    """Return the lift in large type."""
    return (page.locator("#earning .tiles b").nth(2).text_content() or "").removeprefix("+")


def test_a_lift_is_as_precise_as_its_interval_is_narrow(
    watched: Watched, admin: httpx.Client, home: str
) -> None:
    found = admin.get(f"/v1/pools/{home}/stats").json()["lift"]
    step = 10.0 ** (np.floor(np.log10(found["high"] - found["low"])) - 1)
    page = watched.open(home, width=1280, dark=False)
    assert lift(page) == f"{round(found['mean'] / step) * step:.0%}"


def test_the_curve_is_above_what_was_measured(admin: httpx.Client, home: str) -> None:
    stats = admin.get(f"/v1/pools/{home}/stats").json()
    [measured] = [one for one in stats["groups"] if one["group"] == "policy"]
    points = admin.get(f"/v1/pools/{home}/frontier").json()["points"]
    best = np.interp(
        measured["clicks_per_view"]["mean"],
        [point["click_floor"] for point in points],
        [point["revenue_micros"] for point in points],
    )
    assert measured["revenue_per_view_micros"]["mean"] < best
