"""What people change on the dashboard: the floor, pools, links and keys, by mouse and keyboard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from tests.browser.conftest import Watched
from tests.browser.looking import (
    KeepPicture,
    assert_accessible,
    open_tab,
    sign_in,
    wait_for_charts,
)
from tests.browser.simulated_day import POOL, links
from tests.chromium import PATIENCE_MS


@pytest.fixture
def opened(watched: Watched, server: BackgroundServer, day: str) -> Page:
    """Return the page of somebody who is signed in."""
    watched.allowed_errors = ("422", "409", "net::ERR_FAILED")
    page = watched.open(day)
    page.get_by_role("button", name="Sign in").click()
    sign_in(page, server.admin_key)
    return page


def row_of(page: Page, label: str) -> Locator:
    """Return the row of a field of the open form."""
    named = page.locator("label", has_text=re.compile(rf"^{re.escape(label)}(?!\w)"))
    return page.locator("dialog[open] .field").filter(has=named)


def field(page: Page, label: str) -> tuple[str, str]:
    """Return what a field of the open form holds, and the sentence beside it."""
    row = row_of(page, label)
    return row.locator("input, textarea, select").input_value(), row.locator(".wrong").inner_text()


def fill(page: Page, label: str, value: str) -> None:
    page.locator("dialog[open]").get_by_label(label, exact=True).fill(value)


def save(page: Page, name: str = "Save") -> None:
    """Press a button of the open form, and wait until the service has answered."""
    page.locator("dialog[open]").get_by_role("button", name=name, exact=True).click()
    page.wait_for_function("() => !document.querySelector('dialog[open] .main:disabled')")


def new_pool(page: Page) -> None:
    """Open the form of a new pool with its advanced settings."""
    page.get_by_role("button", name="New pool").click()
    page.locator("#pool-form summary").click()


def edit_settings(page: Page) -> None:
    open_tab(page, "Settings")
    page.get_by_role("button", name="Edit settings").click()


def test_the_slider_sets_the_floor(opened: Page, admin: httpx.Client, day: str) -> None:
    before = admin.get(f"/v1/pools/{day}").json()["click_floor"]
    wait_for_charts(opened)
    opened.locator("#other-floor").focus()
    opened.keyboard.press("ArrowLeft")
    wanted = float(opened.locator("#other-floor").input_value())
    assert wanted < before
    opened.keyboard.press("Tab")
    expect(opened.locator("#set-floor")).to_be_focused()
    opened.keyboard.press("Enter")
    expect(opened.locator("#ask")).to_contain_text(f"The floor is {before} clicks per view now")
    save(opened, "Set this floor")
    expect(opened.locator("#floor .words")).to_contain_text(f"the floor is {wanted:.2f}")
    expect(opened.locator("#change-list")).to_contain_text(f"click floor {before} → {wanted:g}")
    assert admin.get(f"/v1/pools/{day}").json()["click_floor"] == pytest.approx(wanted)
    admin.patch(f"/v1/pools/{day}", json={"click_floor": before}).raise_for_status()


def test_a_pool_is_made_and_a_wrong_field_loses_nothing(
    opened: Page, admin: httpx.Client, keep_picture: KeepPicture
) -> None:
    new_pool(opened)
    fill(opened, "Name", "day")
    fill(opened, "Hosts of your shop", "https://shop.example/spring\nwww.shop.example")
    save(opened)
    assert field(opened, "Name") == ("day", "There is a pool with this name already.")
    fill(opened, "Name", "spring page")
    save(opened)
    assert field(opened, "Name")[1].startswith("The name must have 1 to 64 letters")
    fill(opened, "Name", "spring")
    fill(opened, "Links on a page", "")
    save(opened)
    expect(opened.locator("dialog[open] input[name=slots]")).to_be_focused()
    assert field(opened, "Links on a page") == ("", "Please fill this in.")
    assert field(opened, "Name") == ("spring", "")
    for label, value, sentence in (
        ("Links on a page", "many", "This must be a whole number."),
        ("Links on a page", "0", "This must be a whole number, at least 1."),
        ("Click floor", "-1", "This must be a number, at least 0."),
        ("Click floor", "7", "This must be at least 0 and below slots (2), got 7.0."),
        ("The largest sale that counts", "0", "This must be more than 0"),
        ("Currency", "euro", ""),
        ("Currency", "E1", "This must be three capital letters (ISO 4217), got 'E1'."),
        ("Clicks count for (minutes)", "99999999", "This must be more than 0, and 90 days"),
        ("Share of pages for comparison", "5", "This must be a number, at most 1."),
        ("Hosts of your shop", "no!", "This must be a lower-case host such as shop.example"),
    ):
        good = field(opened, label)[0]
        if label == "Links on a page":
            good = "2"
        if value == "euro":  # the field takes three letters
            continue
        fill(opened, label, value)
        save(opened)
        expect(row_of(opened, label).locator(".wrong")).to_contain_text(sentence)
        assert field(opened, label)[0] == value
        fill(opened, label, good)
    fill(opened, "Links on a page", "many")
    save(opened)
    expect(opened.locator("dialog[open] .wrong:not(:empty)")).to_have_count(1)
    keep_picture(opened, "pool-form")
    assert_accessible(opened)
    fill(opened, "Links on a page", "2")
    fill(opened, "Click floor", "0,25")
    save(opened)
    expect(opened.locator("#link-form")).to_be_visible()
    made = admin.get("/v1/pools/spring").json()
    assert (made["slots"], made["click_floor"]) == (2, 0.25)
    assert made["holdout"] == {"share": 0.05, "shows": "random"}
    assert made["allowed_hosts"] == ["shop.example", "www.shop.example"]
    assert made["max_revenue"] == {"amount_micros": 50_000_000, "currency": "EUR"}
    assert (made["click_window_s"], made["revenue_window_s"]) == (1800, 86400)


def test_a_short_form_makes_a_pool_with_its_links(
    opened: Page, admin: httpx.Client, keep_picture: KeepPicture
) -> None:
    opened.get_by_role("button", name="New pool").click()
    expect(opened.locator("#pool-form .field:visible")).to_have_count(8)
    fill(opened, "Name", "short pool")
    fill(opened, "Links on a page", "many")
    fill(opened, "Click floor", "-1")
    fill(opened, "Links", "https://shop.example/spring-sale\nspring")
    save(opened)
    wrong = opened.locator("#pool-form .field .wrong:not(:empty)")
    expect(wrong).to_have_count(4)  # all at once
    expect(opened.locator("#pool-form > form > .wrong")).to_have_text(
        "4 fields need a correction; see above."
    )
    expect(opened.locator("#pool-form [name=pool_id]")).to_be_focused()
    expect(opened.locator("#pool-form").get_by_role("button", name="Save")).to_be_in_viewport()
    fill(opened, "Links on a page", "2")
    fill(opened, "Click floor", "5")  # a rule between two fields
    save(opened)
    expect(wrong).to_have_count(3)
    assert field(opened, "Click floor")[1].startswith("This must be at least 0 and below slots (2)")
    fill(opened, "Links on a page", "many")
    fill(opened, "Click floor", "-1")
    save(opened)
    expect(wrong).to_have_count(4)
    keep_picture(opened, "short-form")
    assert_accessible(opened)
    assert admin.get("/v1/pools/not-yet").status_code == 404
    fill(opened, "Name", "short")
    fill(opened, "Links on a page", "2")
    fill(opened, "Click floor", "0.1")
    addresses = "https://shop.example/spring-sale\nhttps://shop.example/a/spring-sale?x=1,2\n"
    fill(opened, "Links", f"{addresses}https://www.shop.example/")
    save(opened)
    expect(opened.locator("#links-found")).to_have_text("3 links")
    expect(opened.locator("dialog[open]")).to_have_count(0)
    made = admin.get("/v1/pools/short").json()
    assert (made["own_page"], made["keep"]) == (["spring-sale", "spring-sale-2", "www.shop"], 0.95)
    assert made["allowed_hosts"] == ["shop.example", "www.shop.example"]
    stored = admin.get("/v1/pools/short/links").json()["links"]
    assert {(one["link_id"], one["title"]) for one in stored} == {
        ("spring-sale", "Spring sale"),
        ("spring-sale-2", "Spring sale"),
        ("www.shop", "Www.shop"),
    }
    opened.get_by_role("button", name="New pool").click()
    fill(opened, "Name", "advanced")
    opened.locator("#pool-form summary").click()
    fill(opened, "Share of pages for comparison", "5")
    opened.locator("#pool-form summary").click()
    save(opened)
    expect(row_of(opened, "Share of pages for comparison").locator(".wrong")).to_be_visible()


def test_settings_change_only_what_was_changed(opened: Page, admin: httpx.Client) -> None:
    settings = POOL | {"own_page": ["l1"], "policy": {"name": "uniform", "settings": {}}}
    admin.put("/v1/pools/kept", json=settings).raise_for_status()
    before = admin.get("/v1/pools/kept").json()
    expect(opened.locator("#pool option[value=kept]")).to_have_count(1)
    opened.locator("#pool").select_option("kept")
    expect(opened.locator("#snippet")).to_contain_text('"kept"')
    edit_settings(opened)
    assert field(opened, "Sales count for (hours)")[0] == "2"
    fill(opened, "Share of pages for comparison", "0.1")
    save(opened)
    expect(opened.locator("#pool-form")).to_be_hidden()
    after = admin.get("/v1/pools/kept").json()
    assert after["holdout"] == {"share": 0.1, "shows": "random"}
    assert after == before | {name: after[name] for name in ("holdout", "changed_at")}
    edit_settings(opened)
    fill(opened, "The pool ends", "2099-01-31T18:00")
    save(opened)
    expect(opened.locator("#pool-form")).to_be_hidden()
    assert admin.get("/v1/pools/kept").json()["until"].startswith("2099-01-31T")
    edit_settings(opened)
    assert field(opened, "The pool ends")[0] == "2099-01-31T18:00"
    fill(opened, "The pool ends", "")
    save(opened)
    expect(opened.locator("#pool-form")).to_be_hidden()
    assert admin.get("/v1/pools/kept").json()["until"] is None
    edit_settings(opened)
    save(opened, "Archive")
    save(opened, "Archive")
    expect(opened.locator("#pool option", has_text="kept (archived)")).to_have_count(1)


TABLE = """link_id\turl\ttitle
l0\thttps://shop.example/0\tOffer 0
n1\thttps://shop.example/n1\tNew one
n2\thttps://evil.example/n2\tNot ours
"""


def test_links_are_pasted_checked_and_saved(
    opened: Page, admin: httpx.Client, keep_picture: KeepPicture
) -> None:
    admin.put("/v1/pools/pasted", json=POOL).raise_for_status()
    admin.post("/v1/pools/pasted/links:batch", json={"links": links(2)}).raise_for_status()
    expect(opened.locator("#pool option[value=pasted]")).to_have_count(1)
    opened.locator("#pool").select_option("pasted")
    expect(opened.locator("#links-found")).to_have_text("2 links")
    open_tab(opened, "Links")
    opened.get_by_role("button", name="Add links").click()
    area = opened.locator("dialog[open] textarea")
    area.fill("spring,https://shop.example/1")
    save(opened, "Check")
    expect(opened.locator("dialog[open] .field .wrong")).to_contain_text("the first line must name")
    area.fill(TABLE)
    save(opened, "Check")
    dialog = opened.locator("#link-form")
    expect(dialog).to_contain_text(
        "3 lines: 1 new, 1 as they are, 1 wrong. Correct the wrong lines"
    )
    first = dialog.locator("tbody tr").first
    expect(first.locator("td").first).to_have_text("4")
    expect(first).to_contain_text("`url` must be on one of the pool's allowed hosts")
    assert area.input_value() == TABLE
    keep_picture(opened, "link-form")
    assert_accessible(opened)
    assert len(admin.get("/v1/pools/pasted/links").json()["links"]) == 2
    area.fill(TABLE.replace("evil", "shop"))
    save(opened, "Check")
    save(opened, "Save 2 links")
    expect(dialog).to_be_hidden()
    expect(opened.locator("#links-found")).to_have_text("4 links")
    expect(opened.locator('tr[data-link="n2"] b')).to_have_text("Not ours")


def test_a_thousand_pasted_links_are_saved_in_parts(opened: Page, admin: httpx.Client) -> None:
    settings = POOL | {"policy": {"name": "uniform", "settings": {}}}
    admin.put("/v1/pools/thousand", json=settings).raise_for_status()
    expect(opened.locator("#pool option[value=thousand]")).to_have_count(1)
    opened.locator("#pool").select_option("thousand")
    expect(opened.locator("#snippet")).to_contain_text('"thousand"')
    open_tab(opened, "Links")
    opened.get_by_role("button", name="Add links").click()
    table = "\n".join(f"p{n};https://shop.example/{n}" for n in range(1_100))
    opened.locator("dialog[open] textarea").fill(f"link_id;url\n{table}")
    save(opened, "Check")
    expect(opened.locator("#link-form")).to_contain_text("1,100 lines: 1,100 new.")
    assert opened.locator("#link-form tbody tr").count() == 200
    save(opened, "Save 1,100 links")
    expect(opened.locator("#links-found")).to_have_text("1,100 links")


def test_a_key_is_made_shown_once_and_revoked(
    opened: Page, server: BackgroundServer, admin: httpx.Client, keep_picture: KeepPicture
) -> None:
    opened.get_by_role("button", name="Keys").click()
    fill(opened, "Whose key it is", "Front page")
    save(opened, "Make a key")
    expect(opened.locator("#new-key")).to_have_value(re.compile("^sw_pk_"))
    key = opened.locator("#new-key").input_value()
    row = opened.locator("#key-form tr", has_text="Front page")
    expect(row).to_contain_text("page of day")
    of_admins = opened.locator("#key-form tr", has_text="The last admin key: make another one")
    expect(of_admins).to_have_count(1)
    expect(of_admins.get_by_role("button")).to_have_count(0)
    keep_picture(opened, "keys")
    assert_accessible(opened)
    save(opened, "Close")
    opened.get_by_role("button", name="Keys").click()
    expect(row).to_be_visible()
    assert opened.locator("#new-key").input_value() == ""
    assert key not in opened.content()
    row.get_by_role("button", name="Revoke Front page").click()
    expect(opened.locator("#ask")).to_contain_text("stops working at once")
    opened.locator("#ask").get_by_role("button", name="Revoke").click()
    expect(row).to_contain_text("revoked")
    listed = admin.get("/v1/keys").json()["keys"]
    assert [one["revoked_at"] is not None for one in listed if one["label"] == "Front page"] == [
        True
    ]
    fill(opened, "Whose key it is", "Reader")
    opened.locator("dialog[open]").get_by_label("What it may do").select_option("read")
    expect(opened.locator("dialog[open]").get_by_label("For the pool")).to_be_hidden()
    save(opened, "Make a key")
    expect(opened.locator("#new-key")).to_have_value(re.compile("^sw_rk_"))


def test_a_form_outlives_a_service_that_does_not_answer(opened: Page) -> None:
    new_pool(opened)
    fill(opened, "Name", "typed")
    fill(opened, "Hosts of your shop", "shop.example")
    opened.route("**/v1/pools/typed", lambda route: route.abort())
    save(opened)
    expect(opened.locator("#pool-form > form > .wrong")).to_have_text(
        "The service does not answer. Nothing was changed; try again."
    )
    assert field(opened, "Name")[0] == "typed"
    opened.unroute("**/v1/pools/typed")


@pytest.fixture
def fresh(browser: Browser, tmp_path: Path) -> Iterator[tuple[BackgroundServer, Page]]:
    settings = Settings(port=0, store=f"sqlite:///{tmp_path / 'fresh.db'}", seed=1)
    with BackgroundServer(settings) as server:
        page = browser.new_page(viewport={"width": 390, "height": 800}, color_scheme="dark")
        page.set_default_timeout(PATIENCE_MS)
        page.goto(server.url)
        yield server, page
        page.close()


def test_the_first_pool_is_made_in_the_browser(
    fresh: tuple[BackgroundServer, Page], keep_picture: KeepPicture
) -> None:
    server, page = fresh
    first = page.get_by_role("button", name="Make the first pool")
    expect(first).to_be_visible()
    keep_picture(page, "first-pool")
    assert_accessible(page)
    first.focus()
    page.keyboard.press("Enter")
    page.keyboard.type(server.admin_key)
    page.keyboard.press("Enter")
    expect(page.locator("dialog[open] input[name=pool_id]")).to_be_focused()
    page.keyboard.type("home")
    keep_picture(page, "first-pool-form")
    page.locator("#pool-form summary").click()
    fill(page, "Hosts of your shop", "shop.example")
    assert_accessible(page)
    page.locator("dialog[open] input[name=slots]").press("Enter")
    expect(page.locator("#link-form")).to_be_visible()
    page.keyboard.type("link_id,url\na,https://shop.example/a\nb,https://shop.example/b")
    save(page, "Check")
    save(page, "Save 2 links")
    expect(page.locator("#snippet")).to_contain_text('data-slotwise-pool="home"')
    expect(page.locator("#links-found")).to_have_text("2 links")
    page.get_by_role("button", name="Make a key for the page").click()
    save(page, "Make a key")
    expect(page.locator("#new-key")).to_have_value(re.compile("^sw_pk_"))
    key = page.locator("#new-key").input_value()
    save(page, "Close")
    expect(page.locator("#snippet")).to_contain_text(f'data-slotwise-key="{key}"')
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy the snippet").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.locator("#snippet").text_content()
    answer = httpx.post(
        f"{server.url}/v1/pools/home/page",
        headers={"authorization": f"Bearer {key}", "origin": "https://shop.example"},
        timeout=600,
    )
    assert len(answer.json()["links"]) == 2
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_counts_of_the_past_are_imported(
    opened: Page, admin: httpx.Client, keep_picture: KeepPicture
) -> None:
    admin.put("/v1/pools/past", json=POOL | {"policy": {"name": "paced-bayes"}}).raise_for_status()
    admin.post("/v1/pools/past/links:batch", json={"links": links(4)}).raise_for_status()
    opened.reload()
    opened.locator("#pool").select_option("past")
    open_tab(opened, "Links")
    opened.get_by_role("button", name="Import counts").click()
    label = "Counts, one link on each line"
    fill(opened, label, "link\tviews\tclicks\nl0\t1000\t2000")
    save(opened, "Import")
    wrong = opened.locator("#known-form .field", has_text=label).locator(".wrong")
    expect(wrong).to_contain_text("`clicks` must be from 0 to the views (1000)")
    fill(opened, label, "link\tviews\tclicks\trevenue\nl0\t1000\t20\t12,5")
    fill(opened, "Weight of an imported view", "7")
    save(opened, "Import")
    worth = opened.locator("#known-form .field", has_text="Weight of an imported view")
    expect(worth.locator(".wrong")).to_have_text("This must be more than 0, and 1 at most.")
    fill(opened, "Weight of an imported view", "0.5")
    keep_picture(opened, "import-counts")
    assert_accessible(opened)
    save(opened, "Import")
    expect(opened.locator("#known-form")).to_be_hidden()
    expect(opened.locator("#change-list")).to_contain_text("imported counts of link l0")
    [known] = admin.get("/v1/pools/past/known-counts").json()["known"]
    assert (known["views"], known["revenue_micros"], known["discount"]) == (1000, 12_500_000, 0.5)


def test_a_pool_is_told_of_visitors_slots_and_policy(
    opened: Page, admin: httpx.Client, keep_picture: KeepPicture
) -> None:
    new_pool(opened)
    fill(opened, "Name", "visitors")
    fill(opened, "Hosts of your shop", "shop.example")

    def refused(label: str, value: str, sentence: str, mended: str) -> None:
        fill(opened, label, value)
        save(opened)
        expect(row_of(opened, label).locator(".wrong")).to_contain_text(sentence)
        fill(opened, label, mended)

    known = "device = phone, desktop\ndays: 1, 7, 30\ncountry = text\nreturning = yes/no"
    refused("What is known of visitors", "device", "must be different words", known)
    floors = "Click floors of segments"
    refused(floors, "country 0.3", "Each line must have a feature, one of its values", "x = 1")
    refused(floors, "browser lynx = 0.3", "declared features (device, days, country, ret", "x = 1")
    refused(floors, "__proto__ x = 0.3", "declared features (device, days, country, ret", "x = 1")
    refused(floors, "days often = 0.3", "below 1, 1 to 7, 7 to 30, from 30), got 'often'", "x = 1")
    refused(floors, "country DE = 9", "below slots (3) for country DE, got 9", "x = 1")
    refused(floors, "country DE = 1\ncountry DE = 2", "Each line must have a feature", "x = 1")
    promised = "country DE = 0.3\ncountry AT = 0.25\ndays 7 to 30 = 0.2\nreturning yes = 0.15"
    fill(opened, floors, promised)
    refused("Slots", "best first", "This must be empty, learn, equal, none, or a number", "learn")
    refused("Slots", "1, 2", "This must be one number for each of 3 slots", "1.6, 0.9, 0.5")
    refused("Policy", "con-ubc", "did you mean 'con-ucb'?", 'con-ucb {"horizon": 5000')
    refused("Policy", 'con-ucb {"horizon": 5000', "This does not have the form", "")
    area = row_of(opened, floors).locator("textarea")
    assert area.evaluate("one => one.scrollHeight <= one.clientHeight")  # no line is cut off
    keep_picture(opened, "pool-form")
    assert_accessible(opened)
    save(opened)
    expect(opened.locator("#pool-form")).to_be_hidden()
    stored = admin.get("/v1/pools/visitors").json()
    assert stored["policy"] == {"name": "paced-bayes", "settings": {}}
    assert stored["slot_weights"] == [1.6, 0.9, 0.5]
    assert stored["features"] == {
        "device": ["phone", "desktop"],
        "days": [1, 7, 30],
        "country": "text",
        "returning": "bool",
    }
    assert stored["segment_floors"] == {
        "country": {"DE": 0.3, "AT": 0.25},
        "days": {"7 to 30": 0.2},
        "returning": {"True": 0.15},
    }
    opened.keyboard.press("Escape")  # the form for its links
    edit_settings(opened)
    shown = field(opened, "What is known of visitors")[0].splitlines()
    assert sorted(shown) == sorted(known.replace("days:", "days =").splitlines())
    assert sorted(field(opened, floors)[0].splitlines()) == sorted(promised.splitlines())
    refused("Policy", 'con-ucb {"horizon": 5000}', "keeps floors of segments", "")
    fill(opened, floors, "")
    fill(opened, "Policy", 'con-ucb {"horizon": 5000}')
    fill(opened, "Slots", "learn")
    save(opened)
    expect(opened.locator("#pool-form")).to_be_hidden()
    stored = admin.get("/v1/pools/visitors").json()
    assert stored["policy"] == {"name": "con-ucb", "settings": {"horizon": 5000}}
    assert stored["slot_weights"] == "learn"
