"""Debian's Chromium for the tests that need a browser."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

from tests.system_programs import system_program

PATIENCE_MS = 120_000
"""How long a test waits for a page: never reached when all is well, however busy the machine is."""


@contextmanager
def running_chromium(flags: Sequence[str] = ()) -> Iterator[Browser]:
    """Start the browser; it must end with the file that asked for it.

    While it runs its thread counts as one with a running event loop, and neither a second
    browser nor a test that runs a loop of its own could start there.
    """
    chromium = system_program("chromium", "chromium-browser", package="chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", *flags]
        )
        yield browser
        browser.close()
