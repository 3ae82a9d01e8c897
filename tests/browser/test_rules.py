"""The rules of the dashboard: made, changed, retired, with their cost and a warning."""

from __future__ import annotations

import httpx
from playwright.sync_api import Page, expect

from slotwise.service.server import BackgroundServer
from tests.browser.conftest import Watched
from tests.browser.looking import KeepPicture, assert_accessible, open_tab, sign_in


def fill(page: Page, label: str, value: str) -> None:
    page.locator("dialog[open]").get_by_label(label, exact=True).fill(value)


def press(page: Page, name: str) -> None:
    page.locator("dialog[open]").get_by_role("button", name=name, exact=True).click()


def test_a_rule_is_made_changed_and_retired(
    watched: Watched,
    server: BackgroundServer,
    admin: httpx.Client,
    day: str,
    keep_picture: KeepPicture,
) -> None:
    watched.allowed_errors = ("422",)
    page = watched.open(day)
    page.get_by_role("button", name="Sign in").click()
    sign_in(page, server.admin_key)
    open_tab(page, "Settings")
    panel = page.locator("#rules")
    expect(panel).to_contain_text("No rules")
    panel.get_by_role("button", name="Add a rule").click()
    fill(page, "Name", "two of three")
    page.locator("#rule-form .offered input[value=l3]").check()
    page.locator("#rule-form .offered input[value=l1]").check()
    assert page.locator("#rule-form [name=links]").input_value() == "l3 l1"
    fill(page, "Links", "l1, l2 l9x")
    ticked = page.locator("#rule-form .offered input:checked")
    assert [box.input_value() for box in ticked.all()] == ["l1", "l2"]
    fill(page, "At most, slots per page", "1")
    press(page, "Check")
    expect(page.locator("dialog[open]")).to_contain_text("must be links of the pool, got 'l9x'")
    fill(page, "Links", "l1, l2")
    press(page, "Check")
    expect(page.locator("dialog[open]")).to_contain_text("All rules can be kept.")
    keep_picture(page, "rule")
    press(page, "Save")
    expect(panel.locator("tbody")).to_contain_text("at most 1")
    expect(panel).to_contain_text("All rules are kept.")
    assert [one["name"] for one in admin.get(f"/v1/pools/{day}/rules").json()["rules"]] == [
        "two of three"
    ]
    panel.get_by_role("button", name="Add a rule").click()
    fill(page, "Name", "both")
    fill(page, "Links", "l1 l2")
    fill(page, "At least, slots per page", "2")
    page.locator("dialog[open]").get_by_label("Until a date").select_option("views")
    fill(page, "How many", "1000")
    fill(page, "Date", "2099-01-01T00:00")
    press(page, "Check")
    expect(page.locator("dialog[open]")).to_contain_text("Rule 'both' has at least 1 instead of 2")
    press(page, "Save")
    expect(panel.locator(".verdict")).to_have_text("1 of 2 rules cannot be kept.")
    expect(panel.locator("tbody")).to_contain_text("of 1,000 views by")
    assert_accessible(page)
    keep_picture(page, "rules")
    panel.get_by_role("button", name="Change the rule both").click()
    fill(page, "At least, slots per page", "0.5")
    press(page, "Check")
    press(page, "Save")
    expect(panel).to_contain_text("All rules are kept.")
    for name in ("both", "two of three"):
        panel.get_by_role("button", name=f"Retire the rule {name}").click()
        press(page, "Retire")
        expect(panel.locator("tbody")).not_to_contain_text(name)
    expect(panel).to_contain_text("No rules")


def test_a_budget_of_money_stays_one_of_money(
    watched: Watched, server: BackgroundServer, admin: httpx.Client, day: str
) -> None:
    page = watched.open(day)
    page.get_by_role("button", name="Sign in").click()
    sign_in(page, server.admin_key)
    open_tab(page, "Settings")
    panel = page.locator("#rules")
    panel.get_by_role("button", name="Add a rule").click()
    fill(page, "Name", "campaign")
    fill(page, "Links", "l1")
    page.locator("dialog[open]").get_by_label("Until a date").select_option("hard")
    fill(page, "How many", "10")
    fill(page, "Cost of a click", "0.3")
    fill(page, "Date", "2099-01-01T00:00")
    press(page, "Check")
    press(page, "Save")
    expect(panel.locator("tbody")).to_contain_text("of 33 clicks of the budget by")
    panel.get_by_role("button", name="Change the rule campaign").click()
    fill(page, "At most, slots per page", "1")
    press(page, "Check")
    press(page, "Save")
    expect(panel.locator("tbody")).to_contain_text("at most 1")
    [rule] = admin.get(f"/v1/pools/{day}/rules").json()["rules"]
    [goal] = rule["goals"]
    assert (goal["amount_micros"], goal["cost_per_click_micros"]) == (10_000_000, 300_000)
    assert goal["hard"]


def test_a_long_name_stays_inside_the_card(watched: Watched, admin: httpx.Client, day: str) -> None:
    rule = {"name": "W" * 80, "links": ["l1"], "at_most": 1}
    admin.put(f"/v1/pools/{day}/rules", json={"rules": [rule]}).raise_for_status()
    page = watched.open(day, "settings")
    expect(page.locator("#rules tbody")).to_contain_text("W" * 80)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    admin.put(f"/v1/pools/{day}/rules", json={"rules": []}).raise_for_status()


def test_what_somebody_else_changed_is_not_overwritten(
    watched: Watched, server: BackgroundServer, admin: httpx.Client, day: str
) -> None:
    watched.allowed_errors = ("412",)
    page = watched.open(day)
    page.get_by_role("button", name="Sign in").click()
    sign_in(page, server.admin_key)
    open_tab(page, "Settings")
    page.locator("#rules").get_by_role("button", name="Add a rule").click()
    fill(page, "Name", "mine")
    fill(page, "Links", "l1")
    fill(page, "At most, slots per page", "1")
    press(page, "Check")
    expect(page.locator("dialog[open]")).to_contain_text("All rules can be kept.")
    theirs = {"rules": [{"name": "theirs", "links": ["l2"], "at_most": 1}]}
    admin.put(f"/v1/pools/{day}/rules", json=theirs).raise_for_status()
    press(page, "Save")
    expect(page.locator("dialog[open]")).to_contain_text("Somebody else changed this: reload.")
    stored = admin.get(f"/v1/pools/{day}/rules").json()["rules"]
    assert [one["name"] for one in stored] == ["theirs"]
    admin.put(f"/v1/pools/{day}/rules", json={"rules": []}).raise_for_status()
