"""A real Chromium against a real server; every page is watched for what it must not do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import httpx
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from slotwise.service import planning
from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from tests.browser.simulated_day import POOL, DayClock, links, play_day
from tests.chromium import PATIENCE_MS, running_chromium

USER_AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0 Safari/537.36"
PICTURES = Path(".cache/screenshots")
FLAGS = (
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.system)


expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_chromium(FLAGS) as started:
        yield started


@pytest.fixture(scope="module")
def clock() -> DayClock:
    return DayClock()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, clock: DayClock) -> Iterator[BackgroundServer]:
    store: Path = tmp_path_factory.mktemp("store") / "slotwise.db"
    settings = Settings(
        port=0,
        store=f"sqlite:///{store}",
        seed=1,
        calls_per_s=1e6,
        fold_every_s=3600,
    )
    # Next to other tests, a plan of the lowest priority would take minutes.
    with (
        patch.object(planning, "PRIORITY", 0),
        BackgroundServer(settings, clock_us=clock) as server,
    ):
        yield server


@pytest.fixture(scope="module")
def admin(server: BackgroundServer) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {server.admin_key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=600) as client:
        yield client


@pytest.fixture(scope="module")
def day(server: BackgroundServer, admin: httpx.Client, clock: DayClock) -> str:
    """Return a pool that has had a day of visitors."""
    admin.put("/v1/pools/day", json=POOL).raise_for_status()
    admin.post("/v1/pools/day/links:batch", json={"links": links(8)}).raise_for_status()
    play_day(server, admin, clock, "day")
    return "day"


class Watched:
    """Opens pages that ask nobody but the server and report no error."""

    def __init__(self, browser: Browser, server: BackgroundServer) -> None:
        self._browser = browser
        self._server = server
        self._opened: list[Page] = []
        self.errors: list[str] = []
        self.allowed_errors: tuple[str, ...] = ()

    def page(self, *, width: int = 1280, dark: bool = False) -> Page:
        context = self._browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            user_agent=USER_AGENT,
            locale="en-GB",
            timezone_id="UTC",
        )
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: self.errors.append(f"error: {error}"))
        page.on("console", self._hear)
        page.on("request", lambda request: self._check(request.url))
        self._opened.append(page)
        return page

    def _hear(self, said: ConsoleMessage) -> None:
        is_slow = "was preloaded using link preload but not used" in said.text
        if said.type in ("error", "warning") and not is_slow:  # after a few seconds, by the clock
            self.errors.append(said.text)

    def _check(self, url: str) -> None:
        if not url.startswith((self._server.url, "data:", "blob:")):
            self.errors.append(f"asked another address: {url}")

    def open(self, pool_id: str, tab: str = "", *, width: int = 1280, dark: bool = False) -> Page:
        page = self.page(width=width, dark=dark)
        self.load(page, pool_id, tab)
        return page

    def load(self, page: Page, pool_id: str, tab: str = "") -> None:
        page.goto(f"{self._server.url}/?pool={pool_id}#{tab}")
        expect(page.locator("#freshness")).not_to_be_empty()

    def close(self) -> None:
        for page in self._opened:
            page.context.close()
        wrong = [
            error for error in self.errors if not any(one in error for one in self.allowed_errors)
        ]
        assert not wrong, wrong


@pytest.fixture
def watched(browser: Browser, server: BackgroundServer) -> Iterator[Watched]:
    watched = Watched(browser, server)
    yield watched
    watched.close()


@pytest.fixture(scope="session")
def keep_picture() -> Callable[[Page, str], None]:
    """Write a picture of the whole page, for people to look at."""
    PICTURES.mkdir(parents=True, exist_ok=True)

    def keep(page: Page, name: str) -> None:
        page.screenshot(path=PICTURES / f"{name}.png", full_page=True)

    return keep
