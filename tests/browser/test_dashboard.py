"""The dashboard in a real browser: a day of a pool, panel by panel."""

from __future__ import annotations

import re
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Page, Request, expect

from slotwise.service.server import BackgroundServer
from tests.browser.conftest import Watched
from tests.browser.looking import (
    TABS,
    KeepPicture,
    assert_accessible,
    in_words,
    money_in_words,
    open_tab,
    sign_in,
    wait_for_charts,
)
from tests.browser.simulated_day import POOL, links
from tests.chromium import PATIENCE_MS

HOSTILE = [
    "<img src=x onerror=\"document.title='hacked'\">",
    "</td></table><script>document.title='hacked'</script>",
    "=HYPERLINK(1) evil",
    "Aperfectlyreasonablenamewithoutanyspaceinit" * 4,
    "&lt;b&gt; \"quoted\" 'name'",
]


def names(page: Page) -> list[str]:
    return page.locator("td.name b").all_text_contents()


@pytest.fixture
def opened(watched: Watched, day: str) -> Page:
    page = watched.open(day)
    wait_for_charts(page)
    return page


def test_every_panel_tells_the_day_in_words(
    opened: Page, admin: httpx.Client, day: str, keep_picture: KeepPicture
) -> None:
    stats = admin.get(f"/v1/pools/{day}/stats").json()
    groups = {group["group"]: group for group in stats["groups"]}
    for name in ("policy", "holdout"):
        figure, range_ = money_in_words(groups[name]["revenue_per_view_micros"])
        tile = opened.locator("#earning .tiles > div", has_text=range_)
        expect(tile.locator("b")).to_have_text(figure)
    expect(opened.locator("#earning .verdict")).to_contain_text("Too early to say.")
    needed = float(f"{stats['lift_views_needed']:.2g}")
    expect(opened.locator("#earning .verdict")).to_contain_text(f"about {needed:,.0f} more views")
    expect(opened.locator("#earning .tiles")).not_to_contain_text("lift")
    expect(opened.locator("#earning .tiles")).to_contain_text("settled or not")
    delivered, interval = in_words(stats["clicks_delivered"])
    badge = f"{stats['floor']['status']}: {delivered} of 0.50"
    expect(opened.locator("#floor .badge")).to_have_text(badge)
    expect(opened.locator("#floor .words")).to_contain_text(f"({interval}) clicks per view")
    random, _ = in_words(groups["holdout"]["clicks_per_view"])
    expect(opened.locator("#floor .note").first).to_contain_text(f"random pages {random} (")
    expect(opened.locator("#floor")).to_contain_text("Met: the 95 % interval of the clicks")
    expect(opened.locator("#floor .words")).to_contain_text("the floor is 0.50")
    price = stats["shadow_price_micros"] / 1e6
    expect(opened.locator("#cost .verdict")).to_contain_text(
        f"One more click per 100 views costs about €{price:.2f}"
    )
    expect(opened.locator("#links-found")).to_have_text("8 links")
    expect(opened.locator("#health .facts")).to_contain_text("99 of 100 within")
    expect(opened.locator("#change-list")).to_contain_text("click floor 0.45 → 0.5")
    expect(opened.locator("#change-list")).to_contain_text("added 8 links")
    expect(opened.locator("#start")).to_be_hidden()
    assert opened.evaluate("document.documentElement.scrollWidth") <= 1280
    keep_picture(opened, "day")
    assert_accessible(opened)


def test_a_change_of_settings_is_drawn_on_the_charts(opened: Page) -> None:
    lines = opened.locator("#floor-chart .shapelayer path")
    assert lines.count() >= 1


def test_the_slider_tells_what_another_floor_gives(
    opened: Page, admin: httpx.Client, day: str
) -> None:
    slider, gives = opened.locator("#other-floor"), opened.locator("#other-floor-gives")
    expect(gives).to_contain_text("A floor of 0.50 clicks per view would give about")
    expect(gives).to_contain_text("by present estimates")
    most_revenue = admin.get(f"/v1/pools/{day}/frontier").json()["points"][0]["revenue_micros"]
    slider.focus()
    slider.press("Home")
    expect(gives).to_contain_text("A floor of 0.00 clicks per view would give about")
    expect(gives).to_contain_text(f"€{most_revenue / 1000:,.0f} per 1,000 views")
    expect(gives).to_contain_text("more than the present floor")
    slider.press("End")
    expect(gives).to_contain_text("less than the present floor")


def test_the_slider_asks_the_log_when_it_comes_to_rest(
    opened: Page, admin: httpx.Client, day: str
) -> None:
    says = opened.locator("#what-if")
    opened.locator("#other-floor").focus()
    opened.locator("#other-floor").press("Home")
    answer = admin.get(f"/v1/pools/{day}/evaluate", params={"click_floor": 0}).json()
    if answer["cannot_tell"]:
        expect(says).to_have_text(f"What if? {answer['cannot_tell']}", timeout=PATIENCE_MS)
    else:
        expect(says).to_contain_text("a floor of 0.00 would have brought €", timeout=PATIENCE_MS)
        expect(says).to_contain_text("It would have kept the floor.")


def test_tabs_work_by_keyboard_and_by_address(opened: Page, watched: Watched, day: str) -> None:
    tabs = opened.get_by_role("tab")
    assert tabs.all_text_contents() == list(TABS)
    opened.locator("#tab-overview").focus()
    for key, name in (("ArrowRight", "links"), ("End", "settings"), ("ArrowRight", "overview")):
        opened.keyboard.press(key)
        expect(opened.locator(f"#tab-{name}")).to_be_focused()
        expect(opened.locator(f"#panel-{name}")).to_be_visible()
        expect(opened.locator("[role=tabpanel]:visible")).to_have_count(1)
        assert opened.url.endswith(f"?pool={day}#{name}")
    opened.keyboard.press("ArrowLeft")
    opened.keyboard.press("ArrowLeft")
    opened.keyboard.press("Home")
    opened.keyboard.press("Tab")  # one stop for all tabs
    assert not opened.evaluate("document.activeElement.matches('[role=tab]')")
    opened.go_back()
    expect(opened.locator("#panel-visitors")).to_be_visible()
    expect(opened.locator("#segments")).to_be_hidden()
    opened.get_by_role("link", name="Settings").click()
    expect(opened.locator("#panel-settings")).to_be_visible()
    expect(watched.open(day, "links").locator("#panel-links")).to_be_visible()


def test_several_pools_begin_with_a_list(
    watched: Watched, server: BackgroundServer, day: str, admin: httpx.Client
) -> None:
    admin.put("/v1/pools/second", json=POOL).raise_for_status()
    page = watched.page()
    page.goto(server.url)
    expect(page.locator("#all-pools")).to_be_visible()
    expect(page.locator("#figures")).to_be_hidden()
    assert_accessible(page)
    page.get_by_role("link", name=day, exact=True).click()
    expect(page.locator("#pool-name")).to_have_text(day)
    expect(page.locator("#all-pools")).to_be_hidden()
    assert page.url.endswith(f"/?pool={day}")
    page.go_back()
    expect(page.locator("#all-pools")).to_be_visible()


def test_links_are_sorted_found_and_paged(opened: Page) -> None:
    open_tab(opened, "Links")
    header = opened.get_by_role("columnheader", name="Clicks per view")
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "descending")
    expect(opened.locator("td.name b").first).to_have_text("Offer 0")
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "ascending")
    expect(opened.locator("td.name b").last).to_have_text("Offer 0")
    opened.locator("#find").fill("offer 3")
    expect(opened.locator("#links-found")).to_have_text("1 of 8 links")
    assert names(opened) == ["Offer 3"]
    opened.locator("#find").fill("")
    expect(opened.locator("#links-found")).to_have_text("8 links")
    opened.locator("#role").select_option("retired")
    expect(opened.locator("#links-found")).to_have_text("0 of 8 links")


def test_a_link_is_retired_pinned_and_brought_back(
    opened: Page, watched: Watched, server: BackgroundServer, admin: httpx.Client, day: str
) -> None:
    watched.allowed_errors = ("401",)
    open_tab(opened, "Links")
    row = opened.locator('tr[data-link="l7"]')
    dialog = opened.locator("#ask")
    row.get_by_role("button", name="Retire Offer 7").click()
    opened.locator("#sign-in-dialog input").fill("sw_ak_wrong")
    opened.locator("#sign-in-dialog").get_by_role("button", name="Sign in").click()
    expect(opened.locator("#sign-in-dialog .wrong")).to_have_text("The key is wrong or revoked.")
    assert opened.locator("#sign-in-dialog input").input_value() == "sw_ak_wrong"
    sign_in(opened, server.admin_key)
    dialog.get_by_role("button", name="Retire").click()
    expect(row.locator(".badge")).to_have_text("retired")
    assert admin.get(f"/v1/pools/{day}/links/l7").json()["retired"]

    row.get_by_role("button", name="Bring back Offer 7").click()
    dialog.get_by_role("button", name="Bring back").click()
    expect(row.get_by_role("button", name="Pin Offer 7")).to_be_visible()

    row.get_by_role("button", name="Pin Offer 7").click()
    opened.locator("#ask-position").fill("2")
    dialog.get_by_role("button", name="Pin").click()
    expect(row).to_contain_text("pinned at position 2")
    expect(row.locator("td[data-label='Share of views'] > span")).to_contain_text("now 100%")
    shown = admin.post(f"/v1/pools/{day}/decide").json()["links"]
    assert shown[1]["link_id"] == "l7"

    row.get_by_role("button", name="Unpin Offer 7").click()
    dialog.get_by_role("button", name="Unpin").click()
    expect(row).not_to_contain_text("pinned at position")


def test_the_page_updates_by_itself(
    opened: Page, admin: httpx.Client, day: str, watched: Watched
) -> None:
    title = "Just renamed"
    admin.patch(f"/v1/pools/{day}/links/l6", json={"title": title}).raise_for_status()
    expect(opened.locator('tr[data-link="l6"] b')).to_have_text(title)


def test_an_empty_pool_shows_the_snippet_and_ticks_what_arrives(
    watched: Watched,
    server: BackgroundServer,
    admin: httpx.Client,
    keep_picture: KeepPicture,
) -> None:
    admin.put("/v1/pools/empty", json=POOL).raise_for_status()
    page = watched.open("empty")
    expect(page.locator("#snippet")).to_contain_text('<ul data-slotwise-pool="empty"')
    expect(page.locator("#snippet")).to_contain_text(f"{server.url}/slotwise.js")
    expect(page.locator("#checklist .done")).to_have_count(0)
    expect(page.locator("#floor .words")).to_have_text("The pool has no links.")
    keep_picture(page, "empty")
    assert_accessible(page)
    admin.post("/v1/pools/empty/links:batch", json={"links": links(4)}).raise_for_status()
    decision = admin.post("/v1/pools/empty/decide").json()
    expect(page.locator("#first-view")).to_have_class("done")
    named = {"decision_id": decision["decision_id"], "link_id": decision["links"][0]["link_id"]}
    admin.post("/v1/events", json={"type": "click", **named}).raise_for_status()
    expect(page.locator("#first-click")).to_have_class("done")
    sale = {"conversion_id": "first", "revenue_micros": 1_000_000, "currency": "EUR"}
    admin.post("/v1/events", json={"type": "conversion", **named, **sale}).raise_for_status()
    expect(page.locator("#start")).to_be_hidden()


def test_a_pool_that_does_not_exist_is_said_not_to(watched: Watched, day: str) -> None:
    watched.allowed_errors = ("404",)
    page = watched.open("nope")
    expect(page.locator("#trouble")).to_contain_text('There is no pool "nope"; these are')
    expect(page.locator("#all-pools")).to_be_visible()
    page.locator("#pool").select_option(day)
    expect(page.locator("#trouble")).to_be_hidden()
    expect(page.locator("#figures")).to_be_visible()


def test_views_of_one_moment_are_drawn_as_points(watched: Watched, admin: httpx.Client) -> None:
    admin.put("/v1/pools/moment", json=POOL | {"holdout": 0.0}).raise_for_status()
    admin.post("/v1/pools/moment/links:batch", json={"links": links(4)}).raise_for_status()
    decision = admin.post("/v1/pools/moment/decide", json={}).raise_for_status().json()
    named = {"decision_id": decision["decision_id"], "link_id": decision["links"][0]["link_id"]}
    admin.post("/v1/events", json={"type": "click", **named}).raise_for_status()
    page = watched.open("moment")
    wait_for_charts(page)
    for chart in ("#floor-chart", "#earning-chart"):
        point = page.locator(f"{chart} .points path").first
        expect(point).to_be_visible()
        box = point.bounding_box()
        assert box is not None
        assert box["height"] > 8


def test_an_infeasible_floor_says_what_to_do(
    watched: Watched, admin: httpx.Client, day: str, keep_picture: KeepPicture
) -> None:
    before = admin.get(f"/v1/pools/{day}").json()["click_floor"]
    admin.patch(f"/v1/pools/{day}", json={"click_floor": 2.5}).raise_for_status()
    try:
        page = watched.open(day)
        wait_for_charts(page)
        expect(page.locator("#floor .badge")).to_have_text("infeasible")
        expect(page.locator("#floor .advice")).to_contain_text(
            re.compile(r"Lower the floor to 0\.\d")
        )
        expect(page.locator("#cost .verdict")).to_contain_text(
            "By present estimates no page of these links reaches the floor"
        )
        keep_picture(page, "infeasible")
        assert_accessible(page)
    finally:
        admin.patch(f"/v1/pools/{day}", json={"click_floor": before}).raise_for_status()


def test_hostile_names_are_text(
    watched: Watched, admin: httpx.Client, keep_picture: KeepPicture
) -> None:
    admin.put("/v1/pools/hostile", json=POOL).raise_for_status()
    hostile = [
        {"link_id": f"h{n}", "url": "https://shop.example/?q='%22onload=", "title": title}
        for n, title in enumerate(HOSTILE)
    ]
    admin.post("/v1/pools/hostile/links:batch", json={"links": hostile}).raise_for_status()
    page = watched.open("hostile", "links")
    expect(page.locator("td.name b")).to_have_count(len(HOSTILE))
    assert sorted(names(page)) == sorted(HOSTILE)
    assert page.locator("#links img, #links script, #links a, #changes img").count() == 0
    assert page.title() == "hostile · slotwise"
    keep_picture(page, "hostile")
    assert_accessible(page)


def test_hostile_notes_ids_and_origins_are_text(
    watched: Watched, admin: httpx.Client, server: BackgroundServer
) -> None:
    admin.put("/v1/pools/noted", json=POOL).raise_for_status()
    for text in HOSTILE:
        admin.post("/v1/pools/noted/notes", json={"text": text}).raise_for_status()
        # Ids that could be more than text are refused at the door.
        refused = admin.put(f"/v1/pools/noted/links/{quote(text, safe='')}", json=links(1)[0])
        assert 400 <= refused.status_code < 500
    for _ in range(3):
        hostile = {"origin": HOSTILE[0]}
        httpx.options(f"{server.url}/v1/pools/noted/page", headers=hostile)
        httpx.options(f"{server.url}/v1/pools/{quote(HOSTILE[0], safe='')}/page", headers=hostile)
    page = watched.open("noted")
    expect(page.get_by_text(HOSTILE[1]).first).to_be_attached()
    assert page.locator("main img, main td script").count() == 0
    assert page.title() == "noted · slotwise"


def test_a_store_that_goes_away_is_told_and_comes_back(
    watched: Watched, server: BackgroundServer, day: str, keep_picture: KeepPicture
) -> None:
    watched.allowed_errors = ("503",)
    page = watched.open(day)
    wait_for_charts(page)
    store = server.context.service.store
    with pytest.MonkeyPatch.context() as patch:
        from slotwise.service.refusals import StoreUnavailable

        def away(*arguments: object) -> None:
            raise StoreUnavailable("the store is away: the disk is gone")

        patch.setattr(store, "reading", away)
        expect(page.locator("#trouble")).to_contain_text("The store does not answer")
        expect(page.locator("#trouble")).to_contain_text("The figures below are those of")
        expect(page.locator("#figures")).to_be_visible()
        keep_picture(page, "store-away")
        assert_accessible(page)
    expect(page.locator("#trouble")).to_be_hidden()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_fits_a_phone(watched: Watched, day: str, keep_picture: KeepPicture, dark: bool) -> None:
    page = watched.open(day, width=320, dark=dark)
    for tab in TABS:
        open_tab(page, tab)
        if tab in ("Overview", "Links"):
            wait_for_charts(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
        keep_picture(page, f"phone-{tab.lower()}-dark" if dark else f"phone-{tab.lower()}")
        assert_accessible(page)


def test_it_is_dark_where_people_want_it_dark(
    watched: Watched, day: str, keep_picture: KeepPicture
) -> None:
    page = watched.open(day, dark=True)
    wait_for_charts(page)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert all(int(part) < 64 for part in re.findall(r"\d+", background))
    keep_picture(page, "dark")
    assert_accessible(page)


def test_the_keyboard_reaches_everything(opened: Page) -> None:
    reached = set()
    for tab in TABS:
        open_tab(opened, tab)
        for _ in range(60):
            opened.keyboard.press("Tab")
            reached.add(
                opened.evaluate("document.activeElement.id || document.activeElement.textContent")
            )
    assert {
        "pool",
        "tab-links",
        "edit-pool",
        "add-rule",
        "other-floor",
        "find",
        "role",
        "Clicks per view",
        "Retire",
        "Pin",
    } <= reached
    assert "change-list" in reached


def test_whatever_has_the_focus_shows_it(opened: Page) -> None:
    look = """() => {
      const focused = document.activeElement;
      return [focused.outerHTML.slice(0, 80), getComputedStyle(focused).outlineStyle];
    }"""
    n_focused = 0
    for tab in TABS:
        open_tab(opened, tab)
        element = ""
        while n_focused < 500 and not element.startswith("<body"):  # past the last one
            opened.keyboard.press("Tab")
            element, outline = opened.evaluate(look)
            assert outline == "solid" or element.startswith("<body"), element
            n_focused += 1
    assert 50 < n_focused < 500


def test_the_keyboard_sorts_finds_slides_and_pins(
    opened: Page, server: BackgroundServer, keep_picture: KeepPicture
) -> None:
    slider = opened.locator("#other-floor")
    slider.focus()
    before = opened.locator("#other-floor-gives").text_content()
    opened.keyboard.press("ArrowLeft")
    expect(opened.locator("#other-floor-gives")).not_to_have_text(before or "")
    opened.locator("#tab-overview").focus()
    opened.keyboard.press("ArrowRight")
    heading = opened.locator("th[data-column=name]")
    heading.get_by_role("button").focus()
    opened.keyboard.press("Enter")
    expect(heading).to_have_attribute("aria-sort", "ascending")
    opened.keyboard.press("Space")
    expect(heading).to_have_attribute("aria-sort", "descending")
    opened.locator("#find").focus()
    opened.keyboard.type("offer 3")
    expect(opened.locator("#links-found")).to_have_text("1 of 8 links")
    pin = opened.get_by_role("button", name="Pin Offer 3")
    pin.focus()
    opened.keyboard.press("Enter")
    expect(opened.locator("#sign-in-dialog input")).to_be_focused()
    opened.keyboard.type(server.admin_key)
    opened.keyboard.press("Enter")
    dialog = opened.locator("#ask")
    expect(dialog).to_be_visible()
    assert dialog.evaluate("(dialog) => dialog.contains(document.activeElement)")
    keep_picture(opened, "dialog")
    assert_accessible(opened)
    opened.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert pin.evaluate("(button) => button === document.activeElement")


def test_a_chart_library_that_does_not_load_is_asked_for_again(watched: Watched, day: str) -> None:
    watched.allowed_errors = ("net::ERR_FAILED", "was preloaded")
    page = watched.page()
    page.route("**/plotly.min.js*", lambda route: route.abort())
    watched.load(page, day)
    failed = page.locator("#earning-chart.failed")
    expect(failed).to_have_text(
        "The chart cannot be drawn: the chart library did not load. It is tried again."
    )
    page.unroute("**/plotly.min.js*")
    expect(page.locator("#earning-chart .main-svg").first).to_be_visible()
    expect(failed).to_have_count(0)


def test_the_page_outlives_a_service_that_restarts(watched: Watched, day: str) -> None:
    watched.allowed_errors = ("net::ERR_FAILED",)
    page = watched.open(day)
    page.route("**/dashboard/pools**", lambda route: route.abort())
    expect(page.locator("#trouble")).to_contain_text("The service does not answer.")
    expect(page.locator("#figures")).to_be_visible()
    page.unroute("**/dashboard/pools**")
    expect(page.locator("#trouble")).to_be_hidden()


FIGURES = re.compile(r"/dashboard/pools/day\?")


def test_calls_without_an_answer_do_not_pile_up(watched: Watched, day: str) -> None:
    watched.allowed_errors = ("net::ERR",)
    page = watched.page()
    page.clock.install()
    watched.load(page, day)
    waiting: set[Request] = set()
    most: list[int] = []

    def asked(request: Request) -> None:
        if FIGURES.search(request.url):
            waiting.add(request)
            most.append(len(waiting))

    page.on("request", asked)
    page.on("requestfailed", lambda request: waiting.discard(request))
    page.route(FIGURES, lambda route: None)
    for _ in range(20):
        page.clock.run_for(35_000)
    expect(page.locator("#trouble")).to_contain_text("The service does not answer.")
    assert len(most) >= 10
    assert max(most) <= 2  # the one given up may be told of after the next one was sent


def test_a_page_out_of_sight_asks_for_nothing_until_it_is_seen_again(
    watched: Watched, day: str
) -> None:
    page = watched.page()
    page.clock.install()
    watched.load(page, day)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    hide = "Object.defineProperty(document, 'hidden', { value: %s, configurable: true })"
    page.evaluate(hide % "true")
    page.clock.run_for(5_000)
    asked.clear()
    page.clock.fast_forward("08:00:00")
    assert not asked
    page.evaluate(hide % "false")
    with page.expect_response(FIGURES):
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    assert sum(bool(FIGURES.search(url)) for url in asked) == 1


def test_ten_thousand_links_stay_usable(
    watched: Watched, admin: httpx.Client, keep_picture: KeepPicture
) -> None:
    admin.put("/v1/pools/big", json=POOL | {"policy": {"name": "uniform"}}).raise_for_status()
    many = links(10_000)
    for start in range(0, len(many), 1000):
        batch = {"links": many[start : start + 1000]}
        admin.post("/v1/pools/big/links:batch", json=batch).raise_for_status()
    page = watched.open("big", "links")
    expect(page.locator("#links-found")).to_have_text("10,000 links")
    assert page.locator("tr[data-link]").count() == 20
    keep_picture(page, "ten-thousand-links")
    assert_accessible(page)
    page.locator("#find").fill("offer 9999")
    expect(page.locator("#links-found")).to_have_text("1 of 10,000 links")
    page.locator("#find").fill("")
    page.get_by_role("button", name="Next").click()
    expect(page.locator("#page-number")).to_have_text("21 to 40")


def test_no_revenue_has_no_thousands(watched: Watched, day: str) -> None:
    words = "import('/dashboard/files/words.js')"
    asked = f"async (one) => (await {words}).revenueRange(one, 'EUR')"
    page = watched.open(day)
    assert page.evaluate(asked, {"mean": 0, "low": 0, "high": 1e8}) == ["€0", "0 to 100k"]
    assert page.evaluate(asked, {"mean": 14e6, "low": 13e6, "high": 15e6})[0] == "€14.0k"


@pytest.mark.parametrize(
    ("window_s", "verdict"),
    [(2, "the window of 2 seconds fits"), (7200, "would catch those (now 2 hours)")],
)
def test_a_window_that_catches_the_feedback_fits(
    watched: Watched, day: str, window_s: int, verdict: str
) -> None:
    come = {"n_events": 500, "median_s": 0.1, "late_s": 0.6, "suggested_window_s": 60}
    cut = [{"sales": 100, "cut_sales": 24}]
    money = {"spans": cut, "max_revenue_micros": 50_000_000, "currency": "EUR"}
    pool = {"click_delays": come, "sale_delays": come, "started_us": 1, **money}
    windows = {"click_window_s": window_s, "revenue_window_s": window_s}
    others = ["late_clicks", "late_sales", "invalid_clicks", "refused", "refused_since_start"]
    counts = dict.fromkeys([*others, "duplicates", "n_quarantined"], 1)
    asked = "async (pool) => (await import('/dashboard/files/words.js')).healthFacts(pool)"
    facts = dict(watched.open(day).evaluate(asked, {**pool, **windows, **counts}))
    assert facts["Clicks come"].endswith(verdict)
    assert facts["Cut"].startswith("24 of 100 sales were above the largest that counts (€50.00).")
    assert "waits for a page or a sale that has not arrived yet" in facts["Quarantined"]
