"""What every test stands on: compiled code of these sources, and the same examples every time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.system_programs import skipped_for

ROOT = Path(__file__).resolve().parent.parent

# Machine code is made before it is used, unless a test is about the switch; in our own folder.
os.environ.setdefault("SLOTWISE_COMPILE", "first")
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".cache" / "machine-code"))

# Seeded by the test's own name, with no clock in it: a failure is a failure everywhere.
settings.register_profile("slotwise", derandomize=True, deadline=None, database=None)
settings.load_profile("slotwise")

SLOW_LIMIT_S = 7200.0

ORDER = (
    *("policies", "service", "simulation", "newcomer", "docs", "browser", "cli", ""),
    "browser/test_plan.py",
)
"""Folders as they are run, "" for all others: what others wait for is compiled first.

A plan is computed at a low priority, while the browser waits: it is last, when workers are idle.
"""


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Accept `cache_dir` of pyproject without pytest's cache too (`-p no:cacheprovider`)."""
    if not pluginmanager.hasplugin("cacheprovider"):
        parser.addini("cache_dir", "not used: the cache is off")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files, and give slow tests more time before they count as stuck.

    The time of other tests is in pyproject.
    """
    items.sort(key=lambda item: _place(item.nodeid))
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_LIMIT_S))


def _place(nodeid: str) -> int:
    named = [one for one in ORDER if one and nodeid.startswith(f"tests/{one}")]
    return ORDER.index(max(named, key=len, default=""))


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interpret in a test of few pages, for which compiling would take far longer."""
    monkeypatch.setenv("SLOTWISE_COMPILE", "never")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """End with one line on the tests that were skipped because a system package is missing."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = [str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped]
    if line := skipped_for(reasons):
        terminalreporter.write_line(line, yellow=True)
