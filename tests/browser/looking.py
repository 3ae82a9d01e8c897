"""What several tests do with the dashboard: look at it, check it, sign in."""

from __future__ import annotations

from collections.abc import Callable

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

KeepPicture = Callable[[Page, str], None]


def wait_for_charts(page: Page) -> None:
    """Look at every chart: none is drawn before it is in sight."""
    charts = page.locator(".chart:visible, .spark:visible")
    expect(charts.first).to_be_visible()
    for chart in charts.all():
        chart.scroll_into_view_if_needed()
        expect(chart.locator(".main-svg").first).to_be_visible()
    page.evaluate("scrollTo(0, 0)")


def assert_accessible(page: Page) -> None:
    found = Axe().run(page).response["violations"]
    assert not [(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in found]


def sign_in(page: Page, key: str) -> None:
    page.locator("#sign-in-dialog input").fill(key)
    page.locator("#sign-in-dialog").get_by_role("button", name="Sign in").click()
    expect(page.locator("#sign-in-dialog")).to_be_hidden()
