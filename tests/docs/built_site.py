"""The built site as tests read it: what every page loads, links to and says."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

from tests.docs.pages import ROOT

# What a browser fetches by itself, by element and attribute; a link is only followed by people.
LOADED = {
    ("script", "src"),
    ("link", "href"),
    ("img", "src"),
    ("img", "srcset"),
    ("iframe", "src"),
    ("source", "src"),
    ("video", "src"),
    ("object", "data"),
    ("embed", "src"),
}
STYLE_ADDRESS = re.compile(r"""(?:url\(|@import)\s*["']?([^"')\s]+)""")
SITE = "https://manual.invalid/"


@dataclass
class Page(HTMLParser):
    """One page: the addresses it loads, its links, its anchors, its text."""

    name: str
    source: str
    loads: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    code: list[str] = field(default_factory=list)
    """What stands in `code` elements, piece by piece."""

    def __post_init__(self) -> None:
        super().__init__()
        self._depth = 0
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        for name in ("id", "name"):
            if name in values:
                self.anchors.add(values[name])
        self.loads += [
            values[name] for element, name in LOADED if element == tag and name in values
        ]
        self.loads += STYLE_ADDRESS.findall(values.get("style", ""))
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag == "code":
            self._depth += 1
            self.code.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "code" and self._depth:
            self._depth -= 1

    def handle_data(self, data: str) -> None:
        if self._depth:
            self.code[-1] += data

    @cached_property
    def sections(self) -> dict[str, Page]:
        """The page in pieces, one for each heading of the second level, by what it says."""
        pieces = re.split(r"<h2[^>]*>(.*?)</h2>", self.source, flags=re.DOTALL)[1:]
        plain = [re.sub(r"<[^>]+>|&para;|¶", "", heading).strip() for heading in pieces[::2]]
        return {
            heading: Page(f"{self.name}#{heading}", source)
            for heading, source in zip(plain, pieces[1::2], strict=True)
        }


def shared_site(base: Path) -> Path:
    """Return the folder of the manual, built once for all workers of a test run.

    `base` is the temporary folder of this process. Workers have theirs in one folder of the run.
    """
    of_run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = of_run / "manual"
    with (of_run / "manual.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            build_site(of_run / "manual-in-progress")
            (of_run / "manual-in-progress").rename(folder)
    return folder


def build_site(folder: Path) -> None:
    """Build the manual as `make docs` does."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr, done.stderr


def read_site(folder: Path) -> dict[str, Page]:
    """Return the pages of the built manual by their place."""
    return {
        path.relative_to(folder).as_posix(): Page(
            path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8")
        )
        for path in sorted(folder.rglob("*.html"))
    }


def foreign(addresses: Iterable[str]) -> list[str]:
    """Return the addresses that lead to another host."""
    return [
        one for one in addresses if urlsplit(one).netloc or urlsplit(one).scheme not in ("", "data")
    ]


def broken_links(pages: dict[str, Page], files: set[str]) -> list[str]:
    """Return the links within the site that lead to no file, or to no place in it."""
    broken = []
    for page in pages.values():
        for link in page.links:
            if foreign([link]):
                continue
            whole = urlsplit(urljoin(SITE + page.name, link))
            target = unquote(whole.path.removeprefix("/")) or "index.html"
            anchor = unquote(whole.fragment)
            if target not in files:
                broken.append(f"{page.name}: {link}: no such file")
            elif anchor and target in pages and anchor not in pages[target].anchors:
                broken.append(f"{page.name}: {link}: no such place")
    return broken


def missing(wanted: Iterable[str], page: Page) -> list[str]:
    """Return what does not stand as code on a page, alone."""
    said = set(page.code)
    return [name for name in wanted if name not in said]
