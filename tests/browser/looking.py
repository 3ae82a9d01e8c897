"""What several tests do with the dashboard: look at it, check it, sign in."""

from __future__ import annotations

import math
from collections.abc import Callable

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

KeepPicture = Callable[[Page, str], None]


TABS = ("Overview", "Links", "Visitors", "Settings")


def open_tab(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name, exact=True).click()
    expect(page.get_by_role("tab", name=name, exact=True)).to_have_attribute(
        "aria-selected", "true"
    )


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


def step_of(rate: dict[str, float]) -> float:
    """Return the step to which an estimate is rounded: two digits of the width of its interval."""
    return 10.0 ** (math.floor(math.log10(rate["high"] - rate["low"])) - 1)


def in_words(rate: dict[str, float]) -> tuple[str, str]:
    """Return clicks per view and their interval as the page writes them."""
    step = step_of(rate)
    digits = max(2, min(4, -round(math.log10(step))))
    mean, low, high = (f"{round(rate[end] / step) * step:.{digits}f}" for end in rate)
    return mean, f"{low} to {high}"


def money_in_words(micros: dict[str, float]) -> tuple[str, str]:
    """Return euros per 1,000 views and their interval as the page writes them."""
    scaled = {end: value / 1000 for end, value in micros.items()}
    step = step_of(scaled)
    size, suffix = (1000, "k") if step >= 100 and scaled["high"] >= 10_000 else (1, "")
    digits = max(0, -round(math.log10(step / size)))
    digits = max(2, digits) if digits and size == 1 else digits
    near = [round(scaled[end] / step) * step / size for end in scaled]
    mean, low, high = (f"{one:,.{digits}f}{suffix if one else ''}" for one in near)
    return f"€{mean}", f"{low} to {high}"


def sign_in(page: Page, key: str) -> None:
    page.locator("#sign-in-dialog input").fill(key)
    page.locator("#sign-in-dialog").get_by_role("button", name="Sign in").click()
    expect(page.locator("#sign-in-dialog")).to_be_hidden()
