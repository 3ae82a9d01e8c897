"""Signing in and out on the dashboard, and what a session may do there."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Page, expect

from slotwise.service.server import BackgroundServer
from tests.browser.conftest import Watched
from tests.browser.looking import KeepPicture, assert_accessible, open_tab
from tests.browser.simulated_day import POOL, DayClock, links

STORED = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"


@pytest.fixture
def pool(admin: httpx.Client) -> str:
    settings = POOL | {"policy": {"name": "uniform", "settings": {}}}
    admin.put("/v1/pools/signing", json=settings).raise_for_status()
    admin.post("/v1/pools/signing/links:batch", json={"links": links(4)}).raise_for_status()
    return "signing"


def from_elsewhere(watched: Watched, server: BackgroundServer, pool: str) -> Page:
    """Open the page as somebody who is not at this machine."""
    watched.allowed_errors = ("401", "403")
    page = watched.page()
    page.set_extra_http_headers({"x-forwarded-for": "203.0.113.9"})
    page.goto(f"{server.url}/?pool={pool}")
    return page


def sign_in(page: Page, key: str) -> None:
    page.locator("#welcome input").fill(key)
    page.locator("#welcome").get_by_role("button", name="Sign in").click()


def test_people_elsewhere_sign_in_to_look_and_stay_signed_in(
    watched: Watched,
    server: BackgroundServer,
    admin: httpx.Client,
    pool: str,
    keep_picture: KeepPicture,
) -> None:
    key = admin.post("/v1/keys", json={"scopes": ["read"], "label": "Ada"}).json()["key"]
    page = from_elsewhere(watched, server, pool)
    expect(page.locator("#welcome")).to_be_visible()
    expect(page.locator("#figures")).to_be_hidden()
    keep_picture(page, "welcome")
    assert_accessible(page)
    sign_in(page, "sw_rk_wrong")
    expect(page.locator("#welcome .wrong")).to_have_text("The key is wrong or revoked.")
    sign_in(page, key)
    expect(page.locator("#figures")).to_be_visible()
    expect(page.locator("#who")).to_contain_text("Ada (may look)")
    assert "sw_" not in page.evaluate(STORED)
    assert page.evaluate("document.cookie") == ""
    page.reload()
    expect(page.locator("#figures")).to_be_visible()

    open_tab(page, "Links")
    page.get_by_role("button", name="Retire Offer 3").click()
    expect(page.locator("#sign-in-dialog")).to_contain_text("Changes need an admin key.")
    page.locator("#sign-in-dialog input").fill(key)
    page.keyboard.press("Enter")
    expect(page.locator("#sign-in-dialog .wrong")).to_contain_text("may look, but not change")
    page.keyboard.press("Escape")

    page.get_by_role("button", name="Sign out").click()
    expect(page.locator("#welcome")).to_be_visible()
    expect(page.locator("#figures")).to_be_hidden()
    assert page.context.cookies() == []


def test_a_key_that_is_revoked_ends_the_session_in_the_open_page(
    watched: Watched, server: BackgroundServer, admin: httpx.Client, pool: str
) -> None:
    made = admin.post("/v1/keys", json={"scopes": ["read"]}).json()
    page = from_elsewhere(watched, server, pool)
    sign_in(page, made["key"])
    expect(page.locator("#figures")).to_be_visible()
    admin.delete(f"/v1/keys/{made['key_id']}").raise_for_status()
    expect(page.locator("#welcome")).to_be_visible()
    expect(page.locator("#figures")).to_be_hidden()


def test_a_session_that_ended_asks_to_sign_in_and_loses_nothing(
    watched: Watched, server: BackgroundServer, pool: str, clock: DayClock
) -> None:
    page = watched.open(pool)
    page.get_by_role("button", name="Sign in").click()
    page.locator("#sign-in-dialog input").fill(server.admin_key)
    page.keyboard.press("Enter")
    expect(page.locator("#who")).to_contain_text("(may change)")
    watched.allowed_errors = ("401",)
    clock.advance(3600)
    open_tab(page, "Links")
    page.get_by_role("button", name="Pin Offer 2").click()
    page.locator("#ask-position").fill("2")
    page.locator("#ask").get_by_role("button", name="Pin").click()
    expect(page.locator("#ask-answer")).to_contain_text("Sign in again")
    expect(page.locator("#sign-in-dialog")).to_be_visible()
    page.locator("#sign-in-dialog input").fill(server.admin_key)
    page.keyboard.press("Enter")
    expect(page.locator("#sign-in-dialog")).to_be_hidden()
    assert page.locator("#ask-position").input_value() == "2"
    page.locator("#ask").get_by_role("button", name="Pin").click()
    expect(page.locator('tr[data-link="l2"]')).to_contain_text("pinned at position 2")


def test_keys_that_an_earlier_page_kept_are_removed(
    watched: Watched, server: BackgroundServer, pool: str
) -> None:
    page = watched.open(pool)
    page.evaluate("localStorage.setItem('key', 'sw_ak_old'); localStorage.setItem('a', 'b')")
    page.reload()
    expect(page.locator("#freshness")).not_to_be_empty()
    assert page.evaluate("localStorage.getItem('key')") is None
    assert page.evaluate("localStorage.getItem('a')") == "b"
