"""Pools and periods side by side, notes, and every table as CSV, in a real browser."""

from __future__ import annotations

import csv
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from slotwise.service.server import BackgroundServer
from tests.browser.conftest import Watched
from tests.browser.looking import (
    KeepPicture,
    assert_accessible,
    money_in_words,
    open_tab,
    sign_in,
    wait_for_charts,
)
from tests.browser.simulated_day import POOL, DayClock

ROWS = {
    "Views",
    "Clicks per view, chosen pages",
    "Clicks per view, random pages",
    "Revenue per 1,000 views, chosen pages",
    "Revenue per 1,000 views, random pages",
    "Sales",
    "Revenue",
}


@pytest.fixture(scope="module")
def other(admin: httpx.Client, day: str) -> str:
    """Return a second pool, whose links begin like formulas of a spreadsheet."""
    settings = POOL | {"policy": {"name": "uniform", "settings": {}}, "click_floor": 0.0}
    admin.put("/v1/pools/other", json=settings).raise_for_status()
    links = [
        {"link_id": "f1", "url": "https://shop.example/1", "title": '=HYPERLINK("x"), "y"'},
        {"link_id": "f2", "url": "https://shop.example/2", "title": "-1+cmd"},
        {"link_id": "f3", "url": "https://shop.example/3", "title": "Plain, with comma"},
    ]
    admin.post("/v1/pools/other/links:batch", json={"links": links}).raise_for_status()
    return "other"


def saved(page: Page, selector: str, folder: Path) -> list[dict[str, str]]:
    """Return the rows of the CSV file that a button saves."""
    with page.expect_download() as download:
        page.locator(selector).click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def test_all_pools_stand_side_by_side(
    watched: Watched, admin: httpx.Client, day: str, other: str, keep_picture: KeepPicture
) -> None:
    page = watched.open(day)
    page.locator("#pool").select_option("")
    rows = page.locator("#all-pools tbody tr")
    expect(rows).to_have_count(2)
    stats = admin.get(f"/v1/pools/{day}/stats").json()
    first = page.locator("#all-pools tbody tr", has_text="day")
    expect(first).to_contain_text(f"{stats['floor']['status']}: ")
    figure, _ = money_in_words(stats["groups"][0]["revenue_per_view_micros"])
    expect(first).to_contain_text(figure)
    expect(page.locator("#all-pools tbody tr", has_text="other")).to_contain_text("none")
    keep_picture(page, "all-pools")
    assert_accessible(page)
    page.locator("#all-pools").get_by_role("link", name="other").click()
    expect(page.locator("#pool")).to_have_value("other")
    expect(page.locator("#links-found")).to_have_text("3 links")


def test_a_period_is_compared_with_the_one_before(
    watched: Watched, admin: httpx.Client, day: str, clock: DayClock
) -> None:
    page = watched.open(day)
    table = page.locator("#period tbody")
    expect(table.locator("tr")).to_have_count(len(ROWS))
    assert set(table.locator("th").all_text_contents()) == ROWS
    page.get_by_role("button", name="30 days").click()
    expect(table.locator("tr", has_text="Views").first).to_contain_text("2,880")
    # The day of visitors went from eight to eight; a page was shown at midnight.
    page.locator("#period-from").fill("2027-01-16")
    page.locator("#period-to").fill("2027-01-16")
    expect(table.locator("tr").first.locator("td").nth(0)).to_have_text("961")
    expect(table.locator("tr").first.locator("td").nth(1)).to_have_text("1,919")
    expect(table.locator("tr").first.locator("td").nth(2)).to_have_text("-49.9%")
    query = {"since": "2027-01-16T00:00:00Z", "until": "2027-01-17T00:00:00Z"}
    found = admin.get(f"/dashboard/pools/{day}/period", params=query).json()
    sales = [sum(one["sales"] for one in found[name]["totals"]) for name in ("this", "before")]
    row = table.locator("tr", has_text="Sales").locator("td")
    expect(row.nth(0)).to_have_text(f"{sales[0]:,}")
    expect(row.nth(1)).to_have_text(f"{sales[1]:,}")
    page.locator("#period-chart").scroll_into_view_if_needed()
    expect(page.locator("#period-chart .main-svg").first).to_be_visible()
    watched.allowed_errors = ("422",)
    page.locator("#period-to").fill("2027-01-10")
    expect(page.locator("#period .verdict")).to_have_text("`until` must be after `since`.")
    page.locator("#period-to").fill("")
    expect(page.locator("#period .verdict")).to_contain_text("Choose the first and the last day")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_periods_and_pools_fit_a_phone(
    watched: Watched, day: str, other: str, keep_picture: KeepPicture, dark: bool
) -> None:
    page = watched.open(day, width=320, dark=dark)
    expect(page.locator("#period tbody tr")).to_have_count(len(ROWS))
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.locator("#pool").select_option("")
    expect(page.locator("#all-pools tbody tr")).to_have_count(2)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    keep_picture(page, f"comparing-phone-{'dark' if dark else 'light'}")
    assert_accessible(page)


def test_every_table_is_saved_as_csv(
    watched: Watched, admin: httpx.Client, server: BackgroundServer, other: str, tmp_path: Path
) -> None:
    page = watched.open(other)
    expect(page.locator("#links-found")).to_have_text("3 links")
    open_tab(page, "Links")
    links = saved(page, "#links .csv", tmp_path)
    assert [row["link_id"] for row in links] == ["f2", "f1", "f3"]  # by title
    # What a spreadsheet would run is text.
    assert [row["title"] for row in links] == [
        "'-1+cmd",
        '\'=HYPERLINK("x"), "y"',
        "Plain, with comma",
    ]
    assert {row["currency"] for row in links} == {"EUR"}
    page.locator("#pool").select_option("")
    expect(page.locator("#all-pools tbody tr")).to_have_count(2)
    assert [row["pool"] for row in saved(page, "#all-pools .csv", tmp_path)] == ["day", "other"]
    page.locator("#pool").select_option(other)
    open_tab(page, "Overview")
    expect(page.locator("#period tbody tr")).to_have_count(len(ROWS))
    periods = saved(page, "#period .csv", tmp_path)
    assert [(row["period"], row["pages"]) for row in periods] == [
        ("this", "chosen"),
        ("this", "random"),
        ("before", "chosen"),
        ("before", "random"),
    ]
    open_tab(page, "Settings")
    changes = saved(page, "#changes .csv", tmp_path)
    assert [row["what"] for row in changes][-2:] == ["added 3 links", "added the pool"]
    page.locator("#pool").select_option("day")
    expect(page.locator("#links-found")).to_have_text("8 links")
    open_tab(page, "Overview")
    activity = saved(page, "#health .csv", tmp_path)
    assert sum(int(row["views"]) for row in activity) == 2880
    page.get_by_role("button", name="Keys").click()
    sign_in(page, server.admin_key)
    expect(page.locator("#key-form tbody tr").first).to_be_visible()
    keys = saved(page, "#key-form .csv", tmp_path)
    assert {row["label"] for row in keys} >= {"first admin key"}
    assert not any("sw_" in value for row in keys for value in row.values())


def test_ten_thousand_characters_of_links_are_all_saved(
    watched: Watched, admin: httpx.Client, day: str, tmp_path: Path
) -> None:
    settings = POOL | {"policy": {"name": "uniform", "settings": {}}}
    admin.put("/v1/pools/many", json=settings).raise_for_status()
    links = [{"link_id": f"m{n}", "url": f"https://shop.example/{n}"} for n in range(450)]
    admin.post("/v1/pools/many/links:batch", json={"links": links}).raise_for_status()
    page = watched.open("many", "links")
    expect(page.locator("#links-found")).to_have_text("450 links")
    rows = saved(page, "#links .csv", tmp_path)
    assert {row["link_id"] for row in rows} == {link["link_id"] for link in links}


def test_a_note_is_written_drawn_and_removed(
    watched: Watched, server: BackgroundServer, day: str, keep_picture: KeepPicture
) -> None:
    watched.allowed_errors = ("422",)
    page = watched.open(day)
    wait_for_charts(page)
    n_marks = page.locator("#floor-chart .annotation").count()
    open_tab(page, "Settings")
    page.get_by_role("button", name="Add a note").click()
    sign_in(page, server.admin_key)
    dialog = page.locator("#note-form")
    dialog.get_by_role("button", name="Save the note").click()
    expect(dialog.locator(".field .wrong").first).not_to_be_empty()
    dialog.get_by_label("What happened").fill("<i>Campaign</i> began")
    dialog.get_by_label("When").fill("2099-01-01T00:00")
    dialog.get_by_role("button", name="Save the note").click()
    expect(dialog.locator(".field .wrong").nth(1)).to_contain_text("a time that has passed")
    assert dialog.get_by_label("What happened").input_value() == "<i>Campaign</i> began"
    dialog.get_by_label("When").fill("2027-01-16T02:00")
    keep_picture(page, "note-form")
    assert_accessible(page)
    dialog.get_by_role("button", name="Save the note").click()
    note = page.locator("#change-list li", has_text="<i>Campaign</i> began")
    expect(note).to_contain_text("16 Jan 2027, 02:00, by first admin key")
    open_tab(page, "Overview")
    page.locator("#floor-chart").scroll_into_view_if_needed()
    expect(page.locator("#floor-chart .annotation")).to_have_count(n_marks + 1)
    open_tab(page, "Settings")
    note.get_by_role("button", name="Remove").click()
    page.locator("#ask").get_by_role("button", name="Remove").click()
    expect(note).to_have_count(0)
