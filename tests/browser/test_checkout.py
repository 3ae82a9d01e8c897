"""The worked examples of `docs/postback.md`: both ids reach the checkout, in a real browser."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from slotwise.client import Client
from slotwise.service.server import BackgroundServer
from tests.browser.conftest import USER_AGENT
from tests.browser.simulated_day import POOL
from tests.chromium import PATIENCE_MS
from tests.loopback_server import LoopbackServer

DOCS = Path("docs/postback.md").read_text()
SCRIPT: str
[SCRIPT] = re.findall(r"```js\n(.*?)```", DOCS, re.DOTALL)
[SERVER_SIDE] = [
    one for one in re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL) if "def links_of_page" in one
]
LIST = """<!doctype html><title>Shop</title><script src="/checkout.js"></script>
<ul data-slotwise-pool="{pool}" data-slotwise-key="{key}"><li><a href="/own">Own</a></li></ul>
<script src="{service}/slotwise.js"></script>"""
PRODUCT = """<!doctype html><title>Product</title><script src="/checkout.js"></script>
<form method="post" action="/order"><input type="hidden" name="link_id" value="{link}">
<input type="hidden" name="decision_id" data-slotwise-order="{link}"><button>Buy</button></form>"""


class Shop(LoopbackServer):
    """A shop with a list, products and a till; `server_side` makes pages without a script."""

    def __init__(self, service: str, track_key: str) -> None:
        self.service = service
        self.list_page = ""
        self.server_side = False
        self.orders: list[str] = []
        self._client = Client(service, track_key)
        self._sessions: dict[str, dict[str, str]] = {}
        self._code: dict[str, Any] = {}
        shop = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(shop.page(self.path, self._session()))

            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                form = parse_qs(self.rfile.read(length).decode(), keep_blank_values=True)
                shop.orders.append(shop.order(form, self._session()))
                self._answer(f"<!doctype html><title>Thank you</title>{shop.orders[-1]}")

            def _session(self) -> str:
                found = SimpleCookie(self.headers.get("cookie", "")).get("session")
                return str(found.value) if found else ""

            def _answer(self, body: str) -> None:
                self.send_response(200)
                kind = "text/javascript" if self.path.endswith(".js") else "text/html"
                self.send_header("content-type", f"{kind}; charset=utf-8")
                if shop.server_side and not self._session():
                    self.send_header("set-cookie", "session=one")
                self.end_headers()
                self.wfile.write(body.encode())

        super().__init__(Handler)
        self.pool_id = f"checkout-{self._server.server_port}"
        exec(SERVER_SIDE.replace('"home"', f'"{self.pool_id}"'), self._code)

    def page(self, path: str, session: str) -> str:
        if path == "/checkout.js":
            return SCRIPT
        if path.startswith("/product/"):
            return PRODUCT.format(link=path.removeprefix("/product/"))
        if not self.server_side:
            return self.list_page
        kept = self._sessions.setdefault(session or "one", {})
        links: list[tuple[str, str]] = self._code["links_of_page"](self._client, kept)
        items = "".join(f'<li><a href="{address}">{title}</a></li>' for title, address in links)
        return f"<!doctype html><title>Shop</title><ul>{items}</ul>"

    def order(self, form: dict[str, list[str]], session: str) -> str:
        [link_id], [decision_id] = form["link_id"], form["decision_id"]
        kept = {f"slotwise:{link_id}": decision_id} if decision_id else {}
        if self.server_side:
            kept = self._sessions.get(session, {})
        order_id = str(uuid.uuid4())
        outcome: str = self._code["report_order"](self._client, kept, order_id, link_id, 12_500_000)
        return outcome

    def close(self) -> None:
        super().close()
        self._client.close()


@pytest.fixture
def shop(server: BackgroundServer, admin: httpx.Client) -> Iterator[Shop]:
    key = admin.post("/v1/keys", json={"scopes": ["decide", "track"]}).json()["key"]
    shop = Shop(server.url, key)
    pool = POOL | {"allowed_hosts": [shop.host], "slots": 2, "holdout": 0.0}
    pool["policy"] = {"name": "uniform", "settings": {}}
    admin.put(f"/v1/pools/{shop.pool_id}", json=pool).raise_for_status()
    links = [{"link_id": f"p{n}", "url": f"http://{shop.host}/product/p{n}"} for n in range(2)]
    admin.post(f"/v1/pools/{shop.pool_id}/links:batch", json={"links": links}).raise_for_status()
    page_key = admin.post("/v1/keys", json={"scopes": ["page"], "pool_id": shop.pool_id}).json()
    shop.list_page = LIST.format(pool=shop.pool_id, key=page_key["key"], service=server.url)
    yield shop
    shop.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(user_agent=USER_AGENT)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    yield page
    context.close()


def buy(page: Page) -> None:
    page.wait_for_url("**/product/*")
    page.get_by_role("button", name="Buy").click()
    expect(page).to_have_title("Thank you")


def test_the_javascript_example_reports_the_sale(shop: Shop, page: Page) -> None:
    for _ in range(20):  # a busy machine may not answer within the script's 150 ms
        page.goto(f"http://{shop.host}/", wait_until="networkidle")
        if page.locator("ul[data-slotwise-decision]").count():
            break
    page.locator("a[data-slotwise-link]").first.click()
    buy(page)
    assert shop.orders[-1] in ("accepted", "quarantined")  # the view may still be on its way


def test_the_server_side_example_reports_the_sale(shop: Shop, page: Page) -> None:
    shop.server_side = True
    page.goto(f"http://{shop.host}/")
    page.goto(f"http://{shop.host}/")  # with the cookie of the first answer
    page.locator("ul a").first.click()
    buy(page)
    assert shop.orders == ["accepted"]


def test_nothing_is_reported_where_no_chosen_link_led(shop: Shop, page: Page) -> None:
    page.goto(f"http://{shop.host}/product/p1")
    buy(page)
    assert shop.orders == [""]
