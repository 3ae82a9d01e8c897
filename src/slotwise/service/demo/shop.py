"""A small shop that uses the script for real: its pages, its products and its till.

Used by `cli`.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from slotwise.service.api.context import Operations, Request, ServiceContext
from slotwise.service.http.exchange import Answer, Asset, answer_asset, load_asset
from slotwise.service.http.problems import RequestProblem
from slotwise.service.records import ConversionEvent

SHOP_POOL = "shop"
PACKAGE = "slotwise.service.demo"


class Product(NamedTuple):
    """Something the shop sells."""

    title: str
    price_micros: int

    @property
    def price(self) -> str:
        """The price as the shop writes it."""
        return f"{self.price_micros // 1_000_000} €"


PRODUCTS = {
    "kettle": Product("Copper kettle", 39_000_000),
    "teapot": Product("Teapot for two", 24_000_000),
    "cups": Product("Six plain cups", 18_000_000),
    "tray": Product("Oak tray", 29_000_000),
    "strainer": Product("Tea strainer", 6_000_000),
    "assam": Product("Assam, 250 g", 9_000_000),
    "sencha": Product("Sencha, 100 g", 12_000_000),
    "honey": Product("Linden honey", 8_000_000),
}
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_GUARDED = ((b"content-security-policy", _POLICY), (b"cache-control", b"no-cache"))
_FILES = ("shop.css", "shop.js")


class Order(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An order, with the page view and the link that led to it."""

    order_id: Annotated[str, Meta(pattern="^[A-Za-z0-9-]{1,64}$")]
    decision_id: Annotated[str, Meta(pattern="^[A-Za-z0-9._:-]{1,64}$")]
    product: str


def shop_operations(page_key: str) -> Operations:
    """Return the shop's addresses; everybody can read `page_key` on its page."""
    operations = Operations()

    @operations.add("GET /shop", None)
    async def shop(_context: ServiceContext, request: Request) -> Answer:
        """Show the demo shop."""
        return _filled("shop.html", request, KEY=page_key, POOL=SHOP_POOL)

    @operations.add("GET /shop/products/{product}", None)
    async def shop_product(_context: ServiceContext, request: Request) -> Answer:
        """Show a product of the demo shop."""
        name = request.path_values["product"]
        if name not in PRODUCTS:
            raise RequestProblem("unknown-route", "the shop has no such product")
        found = PRODUCTS[name]
        return _filled("product.html", request, PRODUCT=name, TITLE=found.title, PRICE=found.price)

    @operations.add("GET /shop/files/{name}", None)
    async def shop_file(_context: ServiceContext, request: Request) -> Answer:
        """Load a file of the demo shop."""
        name = request.path_values["name"]
        if name not in _FILES:
            raise RequestProblem("unknown-route", "the shop has no such file")
        return answer_asset(load_asset(PACKAGE, name), request)

    @operations.add("POST /shop/orders", None, body=Order)
    async def shop_order(context: ServiceContext, request: Request) -> Answer:
        """Take an order; a shop's own server would report it with a track key."""
        bought: Order = request.body
        if bought.product not in PRODUCTS:
            raise RequestProblem("unknown-route", "the shop has no such product")
        sale = ConversionEvent(
            conversion_id=bought.order_id,
            decision_id=bought.decision_id,
            link_id=bought.product,
            revenue_micros=PRODUCTS[bought.product].price_micros,
            currency="EUR",
        )
        context.service.committer.submit_events([sale], context.clock_us())
        return Answer(b"{}")

    return operations


def _filled(name: str, request: Request, **values: str) -> Answer:
    """Answer a page of the shop with the values filled in; they are constants, never input."""
    page = load_asset(PACKAGE, name)
    content = page.content.replace(b"{PICTURES}", load_asset(PACKAGE, "pictures.svg").content)
    for mark, value in values.items():
        content = content.replace(b"{%s}" % mark.encode(), value.encode())
    return answer_asset(Asset(content, page.content_type), request, _GUARDED)
