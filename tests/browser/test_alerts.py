"""The alerts of the dashboard: where they go, and the button that sends a test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from tests.browser.looking import KeepPicture, assert_accessible, sign_in
from tests.chromium import PATIENCE_MS
from tests.service.alerting.receiver import Receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


def open_alerts(browser: Browser, server: BackgroundServer) -> Page:
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.set_default_timeout(PATIENCE_MS)
    page.goto(server.url)
    page.get_by_role("button", name="Alerts").click()
    sign_in(page, server.admin_key)
    return page


def test_a_test_is_sent_and_its_outcome_said(
    browser: Browser, receiver: Receiver, tmp_path: Path, keep_picture: KeepPicture
) -> None:
    settings = Settings(port=0, store=f"sqlite:///{tmp_path / 's.db'}", alert_url=receiver.url)
    with BackgroundServer(settings) as server:
        page = open_alerts(browser, server)
        dialog = page.locator("#alert-form")
        expect(dialog).to_contain_text(f"An alert is sent to {receiver.url} when a floor is missed")
        dialog.get_by_role("button", name="Send a test").click()
        said = "The test was delivered: the receiver answered 204."
        expect(dialog.get_by_role("status")).to_have_text(said)
        assert json.loads(receiver.got[0][1])["state"] == "test"
        receiver.answers = [500]
        dialog.get_by_role("button", name="Send a test").click()
        expect(dialog.get_by_role("status")).to_contain_text("not delivered: the receiver answered")
        expect(dialog.locator("tbody tr")).to_have_count(2)
        assert page.locator("#alert-secret").get_attribute("type") == "password"
        dialog.get_by_role("button", name="Show").click()
        assert page.locator("#alert-secret").get_attribute("type") == "text"
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        keep_picture(page, "alerts")
        assert_accessible(page)
        page.close()


def test_without_an_address_it_says_what_to_do(browser: Browser, tmp_path: Path) -> None:
    with BackgroundServer(Settings(port=0, store=f"sqlite:///{tmp_path / 's.db'}")) as server:
        page = open_alerts(browser, server)
        expect(page.locator("#alert-form")).to_contain_text(
            "No alerts are sent when a floor is missed"
        )
        expect(page.get_by_role("button", name="Send a test")).to_be_hidden()
        page.close()
