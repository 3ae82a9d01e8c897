"""The demo shop in a real browser: seen, clicked, bought, and on the dashboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from slotwise.cli.demo import make_shop
from slotwise.client import Client
from slotwise.service.access.keys import new_key
from slotwise.service.api.context import system_clock_us
from slotwise.service.demo.shop import SHOP_POOL, shop_operations
from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from tests.browser.conftest import PICTURES, USER_AGENT
from tests.chromium import PATIENCE_MS


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[BackgroundServer]:
    key = new_key(["page"], label="shop", pool_id=SHOP_POOL, now_us=system_clock_us())
    settings = Settings(port=0, store=f"sqlite:///{tmp_path / 'shop.db'}", seed=3)
    with (
        BackgroundServer(settings, shop_operations(key.secret)) as server,
        Client(server.url, server.admin_key) as client,
    ):
        server.context.service.directory.put_key(key.record, "test", system_clock_us()).result()
        make_shop(client, server.url)
        # on a busy machine pictures and checks take longer than visitors of the demo do
        client.patch_pool(SHOP_POOL, click_window_s=600, revenue_window_s=600)
        yield server


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(user_agent=USER_AGENT, viewport={"width": 900, "height": 700})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    yield page
    context.close()


def test_a_purchase_reaches_the_dashboard(shop: BackgroundServer, page: Page) -> None:
    for _ in range(20):  # a busy machine may not answer within the snippet's 150 ms
        page.goto(f"{shop.url}/shop", wait_until="networkidle")
        if page.locator("ul[data-slotwise-decision]").count():
            break
    expect(page.locator("a[data-slotwise-link]")).to_have_count(3)
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / "shop.png")
    assert not Axe().run(page).response["violations"]
    page.locator("a[data-slotwise-link]").first.click()
    page.get_by_role("button", name="Buy").click()
    expect(page.locator("#bought")).to_have_text("Bought. The sale was reported.")

    def counted() -> list[tuple[int, int, int]]:
        spans = shop.context.service.reporter.activity(SHOP_POOL, 0, 3_600_000_000).spans
        return [(span.views, span.clicks, span.sales) for span in spans]

    for _ in range(PATIENCE_MS // 100):
        if counted() == [(1, 1, 1)]:
            break
        page.wait_for_timeout(100)
    assert counted() == [(1, 1, 1)]
    page.goto(f"{shop.url}/?pool={SHOP_POOL}")
    expect(page.locator("#freshness")).not_to_be_empty()
    expect(page.locator("#start")).to_be_hidden()
