"""The calculator "How much traffic do I need?" in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from slotwise.service import planning
from slotwise.service.server import BackgroundServer
from tests.browser.conftest import Watched
from tests.browser.looking import KeepPicture, assert_accessible

pytestmark = pytest.mark.compiled

SOON_MS = 110_000
"""A plan may have to be compiled first, beside other tests on the same two cores."""


@pytest.fixture(autouse=True)
def as_important_as_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "PRIORITY", 0)


def simulate(page: Page, **typed: str) -> None:
    for name, value in typed.items():
        page.locator(f"#plan [name={name}]").fill(value)
    page.get_by_role("button", name="Simulate").click()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_answers_in_days_with_intervals(
    watched: Watched, day: str, keep_picture: KeepPicture, dark: bool
) -> None:
    page = watched.open(day, "settings", dark=dark)
    page.get_by_role("link", name="How much traffic do I need?").click()
    expect(page.locator("#plan [name=links]")).to_have_value("8")
    simulate(page, max_views="4000", earned="20", click_rate="0.2", click_floor="0.3")
    facts = page.locator("#plan .facts")
    expect(facts).to_contain_text("Lift visible", timeout=SOON_MS)
    expect(facts).to_contain_text("Floor kept")
    expect(facts).to_contain_text("95% of 100 simulated pages")
    expect(page.locator("#plan .verdict")).to_contain_text("Expect the floor to be kept after")
    keep_picture(page, f"plan-{'dark' if dark else 'light'}")
    assert_accessible(page)


def test_wrong_fields_are_told_beside_them(watched: Watched, server: BackgroundServer) -> None:
    watched.allowed_errors = ("422",)
    page = watched.page()
    page.goto(f"{server.url}/plan")
    simulate(page, earned="80", largest="50")
    row = page.locator("#plan .field", has_text="Revenue of a typical click")
    expect(row.locator(".wrong")).to_have_text(
        "This must be more than 0 and less than the largest sale."
    )
    simulate(page, earned="5", largest="no")
    largest = page.locator("#plan .field", has_text="The largest sale that counts")
    expect(largest.locator(".wrong")).to_have_text("This must be a number, more than 0.")
    expect(row.locator(".wrong")).to_be_empty()
    simulate(page, largest="50", slots="60")
    slots = page.locator("#plan .field", has_text="Links on a page")
    expect(slots.locator(".wrong")).to_contain_text("must be at most links (40)")
    expect(page.locator("#plan [name=slots]")).to_be_focused()


def test_it_can_be_stopped_and_started_again(watched: Watched, server: BackgroundServer) -> None:
    watched.allowed_errors = ("409",)
    page = watched.page(width=360)
    page.goto(f"{server.url}/plan")
    simulate(page, max_views="1000000")
    other = watched.page()
    other.goto(f"{server.url}/plan")
    simulate(other)
    expect(other.locator("#plan form > .wrong")).to_contain_text("Another plan is being simulated")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#plan .verdict")).to_have_text("Stopped.")
    expect(page.get_by_role("button", name="Simulate")).to_be_enabled()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
