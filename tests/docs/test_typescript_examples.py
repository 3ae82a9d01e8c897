"""The manual's TypeScript compiles and runs with the official packages, on Node.js and in Chromium.

The blocks under one heading of a page are one program.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from tests.browser.conftest import USER_AGENT
from tests.chromium import PATIENCE_MS, running_chromium
from tests.docs.pages import PAGES, ROOT, blocks_of, read_page
from tests.loopback_server import LoopbackServer
from tests.service.conftest import http
from tests.system_programs import MISSING, system_program

pytestmark = pytest.mark.system

PACKAGES = ROOT / ".cache" / "npm" / "node_modules"
SHOWN_URL, SHOWN_KEY = "https://links.example", "sw_pk_..."


def programs() -> dict[tuple[str, str], str]:
    """Return the TypeScript of the manual by page and heading."""
    found = {}
    for page in PAGES:
        for part in re.split(r"^(?=## )", read_page(page), flags=re.MULTILINE):
            heading = part.partition("\n")[0].removeprefix("## ")
            code = [block.code for block in blocks_of(part) if block.language == "ts"]
            if code:
                found[page, heading] = "\n".join(code)
    return found


PROGRAMS = programs()
SERVER = ("docs/openfeature.md", "TypeScript on a server")
CLIENT = ("docs/recipes/typescript.md", "Ask for a page and report what it earns")
IN_BROWSER = [
    ("docs/openfeature.md", "TypeScript in a browser"),
    ("docs/recipes/cors.md", "A page without the script"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which programs find the packages."""
    system_program("node", package="nodejs")
    if not PACKAGES.is_dir():
        pytest.skip(f"{MISSING}npm, or of a registry that answers")
    place: Path = tmp_path_factory.mktemp("programs")
    (place / "node_modules").symlink_to(PACKAGES)
    document = ROOT / "docs" / "openapi.json"
    node(
        place,
        *("openapi-typescript", document, "--output", "slotwise.d.ts"),
        *("--default-non-nullable", "false"),
    )
    return place


def node(folder: Path, program: str, *arguments: str | Path, **environment: str) -> str:
    """Run a program of the packages, or a file of this folder."""
    bin_file = PACKAGES / ".bin" / program
    command = [str(bin_file)] if bin_file.exists() else ["node", program]
    done = subprocess.run(
        [*command, *map(str, arguments)],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout


def bundle(folder: Path, code: str, name: str, platform: str) -> Path:
    (folder / f"{name}.ts").write_text(code)
    made = folder / f"{name}.mjs"
    options = ("--bundle", "--format=esm", f"--platform={platform}", f"--outfile={made}")
    node(folder, "esbuild", f"{name}.ts", *options)
    return made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackgroundServer]:
    store: Path = tmp_path_factory.mktemp("store") / "slotwise.db"
    with BackgroundServer(Settings(port=0, store=f"sqlite:///{store}", seed=1)) as server:
        with http(server.url, server.admin_key) as admin:
            settings = {
                "slots": 2,
                "click_floor": 0.1,
                "max_revenue": {"amount_micros": 50_000_000, "currency": "EUR"},
                "features": {"device": ["phone", "desktop"]},
                "allowed_hosts": ["shop.example"],
            }
            admin.put("/v1/pools/home", json=settings).raise_for_status()
            links = [{"link_id": f"l{k}", "url": f"https://shop.example/{k}"} for k in range(3)]
            admin.post("/v1/pools/home/links:batch", json={"links": links}).raise_for_status()
        yield server


@pytest.fixture
def admin(server: BackgroundServer) -> Iterator[httpx.Client]:
    with http(server.url, server.admin_key) as client:
        yield client


def test_there_are_programs() -> None:
    assert {SERVER, CLIENT, *IN_BROWSER} == PROGRAMS.keys()


@pytest.mark.parametrize("program", PROGRAMS, ids=" ".join)
def test_a_program_is_typed(program: tuple[str, str], folder: Path) -> None:
    (folder / "typed.ts").write_text(PROGRAMS[program] + "\nexport {};\n")
    options = "--noEmit --strict --skipLibCheck --module esnext --moduleResolution bundler"
    options += " --target es2022 --lib es2022,dom,dom.iterable --types node"
    node(folder, "tsc", *options.split(), "typed.ts")


def test_the_server_provider_shows_a_page_and_reports_the_sale(
    folder: Path, server: BackgroundServer, admin: httpx.Client
) -> None:
    code = PROGRAMS[SERVER].replace(SHOWN_URL, server.url)
    made = bundle(folder, f"{code}\nconsole.log(page.decision_id);\n", "server", "node")
    printed = node(folder, made.name, SLOTWISE_KEY=str(server.admin_key)).splitlines()
    assert len(printed) == 3
    assert all(f"{server.url}/r/" in line for line in printed[:2])
    found = admin.get(f"/v1/decisions/{printed[-1]}").json()
    assert found["decision"]["visitor"] == {"device": "phone"}
    [sale] = found["received"]
    assert (sale["type"], sale["event_id"]) == ("conversion", "order-17")
    assert (sale["amount_micros"], sale["currency"]) == (12_500_000, "EUR")


class Shop(LoopbackServer):
    """A shop with the program on its page."""

    def __init__(self, script: bytes) -> None:
        html = b'<div style="height: 300vh"></div><ul id="links"></ul>'
        html += b'<script type="module" src="/program.mjs"></script>'
        files = {"/": (b"text/html", html), "/program.mjs": (b"text/javascript", script)}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                kind, body = files.get(self.path, (b"text/plain", b""))
                self.send_response(200)
                self.send_header("content-type", kind.decode())
                self.end_headers()
                self.wfile.write(body)

        super().__init__(Handler)


def test_a_client_made_of_the_description_works(
    folder: Path, server: BackgroundServer, admin: httpx.Client
) -> None:
    code = PROGRAMS[CLIENT].replace(SHOWN_URL, server.url)
    made = bundle(folder, f"{code}\nconsole.log(page.decision_id);\n", "client", "node")
    *links, outcome, decision = node(
        folder, made.name, SLOTWISE_KEY=str(server.admin_key)
    ).splitlines()
    assert len(links) == 2
    assert outcome == "accepted"
    [sale] = admin.get(f"/v1/decisions/{decision}").json()["received"]
    assert sale["event_id"] == "order-18"


def test_fields_with_a_default_are_optional_in_the_types(folder: Path) -> None:
    needed = re.compile(r"^            (\w+): ", re.MULTILINE)
    types = (folder / "slotwise.d.ts").read_text()

    def required(name: str) -> set[str]:
        schema = rf"(?ms)^        {name}: \{{\n(.*?)^        \}};"
        [body] = re.findall(schema, types)
        return set(needed.findall(re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL)))

    schemas = json.loads((ROOT / "docs" / "openapi.json").read_text())["components"]["schemas"]
    for name in ("PoolBody", "LinkBody", "DecideBody"):
        assert required(name) == set(schemas[name].get("required", ())), name


@pytest.mark.parametrize("program", IN_BROWSER, ids=" ".join)
def test_a_page_in_a_browser_counts_once_it_was_seen(
    program: tuple[str, str], folder: Path, server: BackgroundServer, admin: httpx.Client
) -> None:
    key = admin.post("/v1/keys", json={"scopes": ["page"], "pool_id": "home"}).json()["key"]
    code = PROGRAMS[program].replace(SHOWN_URL, server.url).replace(SHOWN_KEY, key)
    made = bundle(folder, f"{code}\n(globalThis as any).page = page;\n", "browser", "browser")
    shop = Shop(made.read_bytes())
    hosts = {"allowed_hosts": ["shop.example", shop.host]}
    admin.patch("/v1/pools/home", json=hosts).raise_for_status()
    try:
        with running_chromium() as browser:
            tab = browser.new_page(user_agent=USER_AGENT)
            tab.goto(shop.url)
            links = tab.locator("#links a")
            expect(links).to_have_count(2, timeout=PATIENCE_MS)
            decision = tab.evaluate("page.decision_id")
            assert admin.get(f"/v1/decisions/{decision}").status_code == 404
            with tab.expect_response(lambda answer: "/v/" in answer.url):
                links.first.scroll_into_view_if_needed()
            assert admin.get(f"/v1/decisions/{decision}").status_code == 200
    finally:
        shop.close()
