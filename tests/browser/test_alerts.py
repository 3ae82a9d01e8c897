"""The alerts of the dashboard: receivers added, tested and removed."""

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
from tests.service.conftest import POOL, http


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


def test_a_receiver_is_added_tested_and_removed(
    browser: Browser, receiver: Receiver, tmp_path: Path, keep_picture: KeepPicture
) -> None:
    store = f"sqlite:///{tmp_path / 's.db'}"
    settings = Settings(port=0, store=store, alert_hosts="127.0.0.1")
    with BackgroundServer(settings) as server, http(server.url, server.admin_key) as admin:
        admin.put("/v1/pools/home", json=POOL).raise_for_status()
        page = open_alerts(browser, server)
        dialog = page.locator("#alert-form")
        rows = dialog.get_by_role("region", name="Receivers of alerts").locator("tbody tr")
        expect(rows).to_have_count(0)
        dialog.get_by_label("Send alerts to").fill("https://evil.example/hook")
        dialog.get_by_role("button", name="Add", exact=True).click()
        expect(dialog.locator(".field .wrong").first).to_contain_text(
            "This must be a webhook of Slack or Teams, or on a host of the setting `alert_hosts`"
        )
        dialog.get_by_label("Send alerts to").fill(receiver.url)
        dialog.get_by_label("Of the pool").select_option("home")
        dialog.get_by_label("a click floor is missed").check()
        dialog.get_by_role("button", name="Add", exact=True).click()
        expect(rows).to_have_count(1)
        expect(rows.first).to_contain_text("a click floor is missed, in pool home")
        [added] = admin.get("/v1/alerts").json()["receivers"]
        assert (added["pool_id"], added["alerts"]) == ("home", ["floor-missed"])
        dialog.get_by_role("button", name=f"Send a test to {receiver.url}").click()
        expect(dialog.get_by_role("status")).to_have_text(
            "The test was delivered: the receiver answered 204."
        )
        assert json.loads(receiver.got[0][1])["state"] == "test"
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        keep_picture(page, "alert-receivers")
        assert_accessible(page)
        dialog.get_by_role("button", name=f"Remove {receiver.url}").click()
        page.get_by_role("button", name="Remove", exact=True).last.click()
        expect(rows).to_have_count(0)
        assert admin.get("/v1/alerts").json()["receivers"] == []
        page.close()


def test_the_address_of_the_settings_is_tested_and_stays(
    browser: Browser, receiver: Receiver, tmp_path: Path, keep_picture: KeepPicture
) -> None:
    settings = Settings(port=0, store=f"sqlite:///{tmp_path / 's.db'}", alert_url=receiver.url)
    with BackgroundServer(settings) as server:
        page = open_alerts(browser, server)
        dialog = page.locator("#alert-form")
        row = dialog.get_by_role("region", name="Receivers of alerts").locator("tbody tr")
        expect(row).to_contain_text("by the operator (alert_url)")
        expect(row.get_by_role("button", name="Remove")).to_have_count(0)
        receiver.answers = [500]
        dialog.get_by_role("button", name="Send a test").click()
        expect(dialog.get_by_role("status")).to_contain_text("not delivered: the receiver answered")
        expect(dialog.get_by_role("region", name="Sent alerts").locator("tbody tr")).to_have_count(
            1
        )
        assert page.locator("#alert-secret").get_attribute("type") == "password"
        dialog.get_by_role("button", name="Show").click()
        assert page.locator("#alert-secret").get_attribute("type") == "text"
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        keep_picture(page, "alerts")
        assert_accessible(page)
        page.close()
