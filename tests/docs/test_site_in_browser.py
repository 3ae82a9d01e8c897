"""The manual in real Chromium: it asks nobody, can be searched and fits a phone, light and dark."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.chromium import PATIENCE_MS, running_chromium
from tests.docs.built_site import shared_site

pytestmark = pytest.mark.system

expect.set_options(timeout=PATIENCE_MS)

PICTURES = Path(".cache/screenshots/manual")
PLACES = (
    "index",
    "start",
    "web-team",
    "postback",
    "choosing-a-policy",
    "benchmarks",
    "mathematics/con-ucb",
    "mathematics/queues",
    "reference/commands",
    "reference/routes",
    "reference/problems",
    "reference/python/policies",
)


LONG = ("python/slotwise", "python/policy", "python/selector", "python/selection")
MAX_HEIGHT = 15_000


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return where the built site is served, on this machine."""
    folder = shared_site(tmp_path_factory.getbasetemp())
    handler = partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_chromium() as started:
        yield started


class Reader:
    """Opens pages and remembers whom they asked and what went wrong."""

    def __init__(self, browser: Browser, address: str, *, width: int, dark: bool) -> None:
        scheme = "dark" if dark else "light"
        self._context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
        )
        self._address = address
        self._name = f"{scheme}-{width}"
        self.page: Page = self._context.new_page()
        self.asked: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on(
            "console", lambda said: self.errors.append(said.text) if said.type == "error" else None
        )

    def open(self, place: str) -> Page:
        self.page.goto(f"{self._address}/{place}.html")
        expect(self.page.locator("h1").first).to_be_visible()
        return self.page

    def keep_picture(self, place: str) -> None:
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=PICTURES / f"{place.replace('/', '-')}-{self._name}.png")

    def close(self) -> None:
        self._context.close()
        assert not [url for url in self.asked if not url.startswith(self._address)]
        assert not self.errors


@pytest.mark.parametrize(
    ("width", "dark"),
    [
        pytest.param(1280, False, id="1280-light"),
        pytest.param(390, True, id="390-dark"),
        pytest.param(1280, True, id="1280-dark", marks=pytest.mark.slow),
        pytest.param(390, False, id="390-light", marks=pytest.mark.slow),
    ],
)
def test_pages_fit_and_ask_nobody_else(
    browser: Browser, address: str, width: int, dark: bool
) -> None:
    reader = Reader(browser, address, width=width, dark=dark)
    for place in PLACES:
        page = reader.open(place)
        reader.keep_picture(place)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{place} is {wide} pixels wide"
    reader.close()


def test_no_page_is_endless(browser: Browser, address: str) -> None:
    reader = Reader(browser, address, width=1280, dark=False)
    heights = {}
    for place in (*PLACES, *(f"reference/{page}" for page in LONG), "leaderboard", "feedback"):
        page = reader.open(place)
        heights[place] = page.evaluate("document.documentElement.scrollHeight")
    reader.close()
    assert not {place: height for place, height in heights.items() if height > MAX_HEIGHT}


# The theme's copy buttons and lists of pages are landmarks of equal names.
ACCEPTED = {"landmark-unique", "empty-table-header"}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_that_matters(browser: Browser, address: str, dark: bool) -> None:
    reader = Reader(browser, address, width=1280, dark=dark)
    found = []
    for place in ("index", "start", "postback", "mathematics/con-ucb", "reference/python/policies"):
        page = reader.open(place)
        found += [
            (place, violation["id"], violation["nodes"][0]["html"])
            for violation in Axe().run(page).response["violations"]
            if violation["id"] not in ACCEPTED
        ]
    reader.close()
    assert not found


def test_search_finds_a_setting(browser: Browser, address: str) -> None:
    reader = Reader(browser, address, width=1280, dark=False)
    page = reader.open("index")
    page.locator("input.md-search__input").click()
    expect(page.locator(".md-search-result__meta")).to_have_text("Type to start searching")
    page.locator("input.md-search__input").press_sequentially("fold_every_s")
    expect(page.locator(".md-search-result__item").first).to_contain_text("Settings")
    reader.close()


def test_formulas_have_a_size(browser: Browser, address: str) -> None:
    reader = Reader(browser, address, width=1280, dark=False)
    page = reader.open("mathematics/con-ucb")
    box = page.locator(".formula math").first.bounding_box()
    assert box is not None
    assert box["width"] > 200
    assert box["height"] > 25
    reader.close()


@pytest.mark.slow
def test_figures_follow_the_colours_of_the_page(browser: Browser, address: str) -> None:
    for dark, shown, hidden in ((False, "light", "dark"), (True, "dark", "light")):
        reader = Reader(browser, address, width=1280, dark=dark)
        page = reader.open("index")
        expect(page.locator(f'img[src*="frontier-{shown}"]')).to_be_visible()
        expect(page.locator(f'img[src*="frontier-{hidden}"]')).to_be_hidden()
        reader.close()
