"""The script on a shop's page, in a real browser, from another origin than the service."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from slotwise.service.api.page_json import PageWriter
from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from tests.browser.conftest import USER_AGENT, Watched
from tests.browser.simulated_day import POOL
from tests.chromium import PATIENCE_MS
from tests.loopback_server import LoopbackServer

PAGE = """<!doctype html><html lang="en"><title>Shop</title>
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; script-src {service}; connect-src {service}">
<body><div>{above}</div>
<ul data-slotwise-pool="{pool}" data-slotwise-slots="3" data-slotwise-key="{key}">
<li class="tile"><a class="name" href="/own">Our own link</a></li></ul>
<script src="{service}/slotwise.js"></script>"""


class Shop(LoopbackServer):
    """A shop on its own port; `html` is its page, every other address a product."""

    def __init__(self) -> None:
        shop = self
        self.html = ""

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = shop.html if self.path == "/" else "<title>Product</title>"
                self.send_response(200)
                self.send_header("content-type", "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write(body.encode())

        super().__init__(Handler)


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    shop = Shop()
    yield shop
    shop.close()


class Gate:
    """A way to the service that can be shut, or made slow.

    Closed it refuses connections, frozen it is silent for ever, held it passes on what it got when
    it is released.
    """

    def __init__(self, service: str) -> None:
        address = httpx.URL(service)
        self._service = (address.host, address.port or 80)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._is_frozen = Event()
        self._released = Event()
        self._released.set()
        self._open: list[socket.socket] = []
        Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                visitor, _ = self._listening.accept()
                self._open.append(visitor)
                if not self._is_frozen.is_set():
                    service = socket.create_connection(self._service)
                    self._open.append(service)
                    Thread(target=self._pass_on, args=(visitor, service), daemon=True).start()
                    Thread(target=self._pass_on, args=(service, visitor), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self._is_frozen.is_set():
                    return
                self._released.wait()
                target.sendall(data)

    def freeze(self) -> None:
        self._is_frozen.set()

    def hold(self) -> None:
        self._released.clear()

    def release(self) -> None:
        self._released.set()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


class Visit:
    """One visitor's tab on the shop's page, and what the script sent."""

    def __init__(self, page: Page, shop: Shop, pool_id: str) -> None:
        self.page = page
        self.shop = shop
        self.pool_id = pool_id
        self.views: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("request", self._note)
        page.clock.install(time=0)
        page.clock.pause_at(1000)

    def _note(self, request: Any) -> None:
        if "/v/s1." in request.url:
            self.views.append(request.url)

    def load(self) -> None:
        self.page.goto(f"http://{self.shop.host}/")

    def stay_until_seen(self) -> None:
        """Let time pass; the browser tells the script what is in sight when it draws a frame."""
        for _ in range(100):
            self.page.clock.run_for(200)
            if self.views:
                return

    @property
    def anchors(self) -> Any:
        return self.page.locator("ul a")


def make_pool(admin: httpx.Client, pool_id: str, shop: Shop) -> str:
    """Make a pool of five products and return the key for its pages."""
    settings = POOL | {"allowed_hosts": [shop.host], "holdout": 0.0}
    settings["policy"] = {"name": "uniform", "settings": {}}
    admin.put(f"/v1/pools/{pool_id}", json=settings).raise_for_status()
    offered = [
        {"link_id": f"l{n}", "url": f"http://{shop.host}/product/{n}", "title": f"<b>Offer {n}"}
        for n in range(5)
    ]
    admin.post(f"/v1/pools/{pool_id}/links:batch", json={"links": offered}).raise_for_status()
    made = admin.post("/v1/keys", json={"scopes": ["page"], "pool_id": pool_id})
    key: str = made.json()["key"]
    return key


@pytest.fixture
def visit(
    browser: Browser,
    server: BackgroundServer,
    admin: httpx.Client,
    shop: Shop,
    request: pytest.FixtureRequest,
) -> Iterator[Visit]:
    """Return a visit to a page whose list stands at the top; `above` pushes it down."""
    pool_id = f"shop-{abs(hash(request.node.name)) % 10**8}"
    key = make_pool(admin, pool_id, shop)
    above = "<br>" * getattr(request, "param", 0)
    shop.html = PAGE.format(service=server.url, pool=pool_id, key=key, above=above)
    context = browser.new_context(user_agent=USER_AGENT, viewport={"width": 800, "height": 600})
    yield Visit(context.new_page(), shop, pool_id)
    context.close()


def test_hostile_titles_are_text_on_the_page(visit: Visit, admin: httpx.Client) -> None:
    """On a page without a policy of its own that would stop scripts."""
    title = (
        "<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>"
    )
    offered = [
        {"link_id": f"l{n}", "url": f"http://{visit.shop.host}/{n}?q='%22onload=", "title": title}
        for n in range(5)
    ]
    path = f"/v1/pools/{visit.pool_id}/links:batch"
    admin.post(path, json={"links": offered}).raise_for_status()
    visit.shop.html = re.sub(r"<meta[^>]*>", "", visit.shop.html)
    visit.load()
    expect(visit.anchors).to_have_count(3)
    expect(visit.anchors.first).to_have_text(title)
    assert visit.page.locator("ul img, ul script").count() == 0
    assert visit.page.title() == "Shop"
    scripted = offered[0] | {"url": "javascript:alert(1)"}
    assert admin.post(path, json={"links": [scripted]}).status_code == 422


def test_the_script_says_what_the_page_declares_and_the_device(
    visit: Visit, server: BackgroundServer, admin: httpx.Client
) -> None:
    """Nothing is stored that the pool did not declare, not even the device."""
    pool = f"/v1/pools/{visit.pool_id}"
    said = "data-slotwise-visitor='{\"returning\": true}'"
    visit.shop.html = visit.shop.html.replace("<ul ", f"<ul {said} ")
    admin.patch(pool, json={"features": {"returning": "bool"}}).raise_for_status()
    for features, stored in (
        ({"returning": "bool"}, {"returning": "True"}),
        ({"returning": "bool", "device": ["phone", "desktop"]}, {"device": "desktop"}),
        ({"returning": "bool", "device": "bool"}, {}),
    ):
        admin.patch(pool, json={"features": features}).raise_for_status()
        visit.views.clear()
        visit.load()
        expect(visit.anchors).to_have_count(3)
        with visit.page.expect_response("**/v/s1.*"):
            visit.stay_until_seen()
        server.context.service.flush().result()
        assert rounds(admin, visit.pool_id)[-1]["visitor"] == {"returning": "True", **stored}


def test_the_event_does_not_tell_visitors_about_the_floor(visit: Visit) -> None:
    listen = "addEventListener('slotwise', (event) => { window.told = Object.keys(event.detail); })"
    visit.page.add_init_script(listen)
    visit.load()
    expect(visit.anchors).to_have_count(3)
    told = visit.page.evaluate("window.told")
    assert "links" in told
    assert "floor" not in told


def test_a_page_that_says_what_was_not_declared_keeps_its_links(
    visit: Visit, admin: httpx.Client
) -> None:
    said = 'data-slotwise-visitor=\'{"mood": "good"}\''
    visit.shop.html = visit.shop.html.replace("<ul ", f"<ul {said} ")
    with visit.page.expect_response(lambda answer: answer.status == 422):
        visit.load()
    expect(visit.anchors).to_have_text(["Our own link"])
    figures = admin.get(f"/dashboard/pools/{visit.pool_id}").json()["overview"]
    [problem] = [one for one in figures["page_problems"] if one["kind"] == "refused-visitor"]
    assert "declared features only" in problem["name"]


def rounds(admin: httpx.Client, pool_id: str) -> list[dict[str, Any]]:
    lines = admin.get(f"/v1/pools/{pool_id}/export").text.splitlines()
    return [httpx.Response(200, text=line).json() for line in lines]


def views_of(server: BackgroundServer, admin: httpx.Client, pool_id: str) -> int:
    server.context.service.flush().result()
    return len(rounds(admin, pool_id))


def test_the_list_is_filled_with_chosen_links_as_text(visit: Visit) -> None:
    visit.load()
    expect(visit.anchors).to_have_count(3)
    for text in visit.anchors.all_text_contents():
        assert text.startswith("<b>Offer ")
    expect(visit.page.locator("ul li.tile a.name")).to_have_count(3)
    for anchor in visit.anchors.all():
        assert str(anchor.get_attribute("href")).startswith(f"http://{visit.shop.host}/product/")
    assert visit.page.evaluate("document.cookie") == ""


def test_a_view_counts_once_after_a_second_in_sight(
    visit: Visit, server: BackgroundServer, admin: httpx.Client
) -> None:
    visit.load()
    expect(visit.anchors).to_have_count(3)
    visit.page.clock.run_for(900)
    assert views_of(server, admin, visit.pool_id) == 0
    with visit.page.expect_response("**/v/s1.*") as sent:
        visit.stay_until_seen()
    assert sent.value.status == 204
    assert views_of(server, admin, visit.pool_id) == 1
    visit.page.clock.run_for(60_000)
    assert len(visit.views) == 1
    again = httpx.post(visit.views[0], headers={"user-agent": USER_AGENT})
    assert again.status_code == 204
    assert views_of(server, admin, visit.pool_id) == 1


@pytest.mark.parametrize("visit", [80], indirect=True)
def test_a_list_below_the_fold_counts_when_it_is_scrolled_to(
    visit: Visit, server: BackgroundServer, admin: httpx.Client
) -> None:
    visit.load()
    expect(visit.anchors).to_have_count(3)
    visit.page.clock.run_for(5_000)
    assert views_of(server, admin, visit.pool_id) == 0
    visit.page.locator("ul").scroll_into_view_if_needed()
    with visit.page.expect_response("**/v/s1.*"):
        visit.stay_until_seen()
    assert views_of(server, admin, visit.pool_id) == 1


def test_a_quick_click_counts_one_view_and_one_click(
    visit: Visit, server: BackgroundServer, admin: httpx.Client
) -> None:
    visit.load()
    expect(visit.anchors).to_have_count(3)
    decision_id = visit.page.locator("ul").get_attribute("data-slotwise-decision")
    visit.anchors.first.click()
    visit.page.wait_for_url("**/product/*")
    for _ in range(1000):  # the page has left: nobody tells it when its view is counted
        found = admin.get(f"/v1/decisions/{decision_id}")
        if found.status_code == 200 and found.json()["clicked"]:
            break
    assert views_of(server, admin, visit.pool_id) == 1
    report = admin.get(f"/v1/decisions/{decision_id}").json()
    assert len(report["clicked"]) == 1
    assert [event["type"] for event in report["received"]] == ["click"]
    visit.page.go_back()
    assert views_of(server, admin, visit.pool_id) == 1


def test_a_dead_service_leaves_the_pages_own_links(visit: Visit) -> None:
    visit.page.route("**/page?*", lambda route: route.abort())
    visit.load()
    expect(visit.anchors).to_have_text("Our own link")
    expect(visit.page.locator("ul")).to_be_visible()


def test_a_slow_service_is_waited_for_150_ms(visit: Visit) -> None:
    held: list[Route] = []
    visit.page.route("**/page?*", lambda route: held.append(route))
    with visit.page.expect_request("**/page?*"):
        visit.load()
    expect(visit.page.locator("ul")).to_be_hidden()
    visit.page.clock.run_for(140)
    expect(visit.page.locator("ul")).to_be_hidden()
    visit.page.clock.run_for(20)
    expect(visit.page.locator("ul")).to_be_visible()
    expect(visit.anchors).to_have_text("Our own link")


@pytest.mark.parametrize(
    "answer", ['{"links": [{"click_url": "javascript:alert(1)"}]}', "{", "[]", '{"links": []}']
)
def test_an_odd_answer_leaves_the_pages_own_links(visit: Visit, answer: str) -> None:
    headers = {"access-control-allow-origin": "*"}
    visit.page.route("**/page?*", lambda route: route.fulfill(body=answer, headers=headers))
    with visit.page.expect_response("**/page?*"):
        visit.load()
    expect(visit.page.locator("ul")).to_be_visible()
    expect(visit.anchors).to_have_text("Our own link")


def test_a_page_of_another_host_gets_nothing(
    visit: Visit, server: BackgroundServer, admin: httpx.Client
) -> None:
    visit.shop.html = visit.shop.html.replace(visit.pool_id, "elsewhere")
    settings = POOL | {"policy": {"name": "uniform", "settings": {}}}
    admin.put("/v1/pools/elsewhere", json=settings).raise_for_status()
    visit.load()
    expect(visit.page.locator("ul")).to_be_visible()
    expect(visit.anchors).to_have_text("Our own link")


@pytest.mark.parametrize("fate", ["dead", "frozen", "slow"])
def test_every_click_reaches_the_shop_whatever_happens_to_the_service(
    browser: Browser, shop: Shop, tmp_path: Path, fate: str
) -> None:
    settings = Settings(port=0, store=f"sqlite:///{tmp_path / 'gate.db'}", seed=1)
    with BackgroundServer(settings) as server:
        gate = Gate(server.url)
        server.context.page_writer = PageWriter(
            server.context.service, server.context.signer, gate.url
        )
        server.context.public_base = gate.url
        headers = {"authorization": f"Bearer {server.admin_key}"}
        with httpx.Client(base_url=server.url, headers=headers, timeout=600) as admin:
            key = make_pool(admin, "gate", shop)
            shop.html = PAGE.format(service=gate.url, pool="gate", key=key, above="")
            context = browser.new_context(user_agent=USER_AGENT)
            page = context.new_page()
            page.set_default_timeout(PATIENCE_MS)
            for _ in range(20):  # a busy machine may not answer within the script's 150 ms
                page.goto(f"http://{shop.host}/", wait_until="networkidle")
                if page.locator("ul[data-slotwise-decision]").count():
                    break
            anchors = page.locator("ul a")
            expect(anchors).to_have_count(3)
            decision_id = page.locator("ul").get_attribute("data-slotwise-decision")
            {"dead": gate.close, "frozen": gate.freeze, "slow": gate.hold}[fate]()

            addresses = [anchor.get_attribute("href") for anchor in anchors.all()]
            with context.expect_page() as beside:
                anchors.nth(0).click(modifiers=["ControlOrMeta"])
            with context.expect_page() as middle:
                anchors.nth(1).click(button="middle")
            anchors.nth(2).focus()
            page.keyboard.press("Enter")
            tabs = [beside.value, middle.value, page]
            for tab, address in zip(tabs, addresses, strict=True):
                # Not "load": a tab opened by a click may have loaded before it is looked at.
                tab.wait_for_url(str(address), wait_until="commit")
                expect(tab).to_have_title("Product", timeout=PATIENCE_MS)

            if fate == "slow":  # late, but not lost
                gate.release()
                for _ in range(1000):
                    found = admin.get(f"/v1/decisions/{decision_id}")
                    if found.status_code == 200 and len(found.json()["clicked"]) == 3:
                        break
                assert len(admin.get(f"/v1/decisions/{decision_id}").json()["clicked"]) == 3
            context.close()
            if fate != "dead":
                gate.close()


CARDS = """<ul data-slotwise-pool="{pool}" data-slotwise-slots="3" data-slotwise-key="{key}">
<li class="card"><a href="/own">
<img src="/own.png" alt="own" data-slotwise-src="image" data-slotwise-alt="title">
<h3 data-slotwise-text="title">Our own</h3><p data-slotwise-text="teaser">Own</p></a>
</li></ul><script src="{service}/slotwise.js"></script>"""


def test_the_first_item_is_the_template(
    visit: Visit, server: BackgroundServer, admin: httpx.Client
) -> None:
    for number in range(5):
        metadata = {"teaser": f"<i>Only {number}</i>", "image": f"/pictures/{number}.png"}
        if number == 4:
            metadata["image"] = "javascript:alert(1)"
        path = f"/v1/pools/{visit.pool_id}/links/l{number}"
        admin.patch(path, json={"metadata": metadata}).raise_for_status()
    key = admin.post("/v1/keys", json={"scopes": ["page"], "pool_id": visit.pool_id}).json()["key"]
    visit.shop.html = CARDS.format(service=server.url, pool=visit.pool_id, key=key)
    visit.page.goto(f"http://{visit.shop.host}/")
    expect(visit.page.locator("li.card")).to_have_count(3)
    for card in visit.page.locator("li.card").all():
        link_id = str(card.locator("a").get_attribute("data-slotwise-link"))
        name = link_id.removeprefix("l")
        assert card.locator("h3").text_content() == f"<b>Offer {name}"
        assert card.locator("p").text_content() == f"<i>Only {name}</i>"
        picture = None if name == "4" else f"/pictures/{name}.png"
        assert card.locator("img").get_attribute("src") == picture
        assert card.locator("img").get_attribute("alt") == f"<b>Offer {name}"


def test_the_dashboard_says_why_a_page_stays_empty(
    visit: Visit, server: BackgroundServer, admin: httpx.Client, watched: Watched
) -> None:
    visit.load()
    expect(visit.anchors).to_have_count(3)
    crawler = {"user-agent": "HeadlessChrome/140"}
    page = admin.post(f"/v1/pools/{visit.pool_id}/page").json()
    assert httpx.post(page["view_url"], headers=crawler).status_code == 204
    address = f"{server.url}/v1/pools/{visit.pool_id}/page"
    httpx.options(address, headers={"origin": "https://old.shop.example"})
    httpx.options(f"{server.url}/v1/pools/hme/page", headers={"origin": "https://shop.example"})
    dashboard = watched.open(visit.pool_id)
    facts = dashboard.locator("#health .facts")
    expect(facts).to_contain_text("A page on https://old.shop.example asked for links once")
    expect(facts).to_contain_text("for the pool “hme”, which does not exist")
    expect(facts).to_contain_text("programs that name themselves (crawlers, headless browsers)")


@pytest.mark.parametrize("asks", [True, False])
def test_a_key_is_remembered_only_where_the_page_asks(visit: Visit, asks: bool) -> None:
    """The same key after a reload, and nothing in the browser's storage otherwise."""
    if asks:
        visit.shop.html = visit.shop.html.replace("<ul ", '<ul data-slotwise-visitor="remember" ')
    sent: list[Any] = []

    def note(request: Any) -> None:
        if request.method == "POST" and "/page?slots=" in request.url:
            sent.append(request.post_data_json.get("visitor_key"))

    visit.page.on("request", note)
    for _ in range(2):
        visit.load()
        expect(visit.anchors).to_have_count(3)
    stored = visit.page.evaluate("Object.entries({ ...localStorage, ...sessionStorage })")
    if asks:
        assert stored == [["slotwise-visitor", sent[0]]]
        assert re.fullmatch("[0-9a-f]{32}", sent[0])
        assert sent == [sent[0]] * 2
    else:
        assert (stored, sent) == ([], [None, None])
    assert visit.page.context.cookies() == []
