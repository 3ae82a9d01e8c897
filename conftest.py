"""What all tests share: interpreted code, one lane per test, and the same examples every time.

It is for the examples in docstrings, too. A test runs interpreted code unless it is marked
`compiled`. It needs only Python unless it is marked `system`, which a test with one of
`SYSTEM_FIXTURES` is.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from tests import system_programs
from tests.plug_in import install_plug_in

pytest_plugins = ["tests.processor_time"]

ROOT = Path(__file__).resolve().parent
SYSTEM_FIXTURES = frozenset({"mortal", "postgresql", "site"})

os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".cache" / "machine-code"))
_FOR_ALL = os.environ.get("SLOTWISE_COMPILE")

# Seeded by the test's own name, with no clock in it: a failure is a failure everywhere.
if hasattr(providers, "Constants"):  # else examples have constants of what others imported before
    providers._get_local_constants = providers.Constants
settings.register_profile("slotwise", derandomize=True, deadline=None, database=None)
settings.load_profile("slotwise")

SLOW_LIMIT_S = 7200.0


install_plug_in()

ORDER = (
    *("policies/test_visitor_rates.py", "policies/test_paced_bayes.py"),
    *("policies", "service", "simulation", "newcomer", "docs", "browser", "cli", ""),
    "browser/test_plan.py",
)
"""Folders and files as they are run, "" for all others.

What others wait for is compiled first: the two forms of the default, by two workers at once.

A plan is computed at a low priority, while the browser waits: it is last, when workers are idle.
"""


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Accept `cache_dir` of pyproject without pytest's cache too (`-p no:cacheprovider`)."""
    if not pluginmanager.hasplugin("cacheprovider"):
        parser.addini("cache_dir", "not used: the cache is off")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark tests by their fixtures, and give slow ones more time before they count as stuck.

    The time of other tests is in pyproject.
    """
    if not SYSTEM_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
        item.add_marker("system")
    if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
        item.add_marker(pytest.mark.timeout(SLOW_LIMIT_S))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files."""
    items.sort(key=lambda item: _place(item.nodeid))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Choose between machine code and interpreting before the first fixture is set up.

    The variable SLOTWISE_COMPILE, where it is set, is for all tests.
    """
    is_compiled = item.get_closest_marker("compiled") is not None
    os.environ["SLOTWISE_COMPILE"] = _FOR_ALL or ("first" if is_compiled else "never")
    system_programs.is_allowed = item.get_closest_marker("system") is not None


def _place(nodeid: str) -> int:
    named = [one for one in ORDER if one and nodeid.startswith(f"tests/{one}")]
    return ORDER.index(max(named, key=len, default=""))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """End with one line on the tests that were skipped because a system package is missing."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = [str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped]
    if line := system_programs.skipped_for(reasons):
        terminalreporter.write_line(line, yellow=True)
