"""Measure the processor time of tests: `pytest --processor-time=folders`, `files` or `tests`.

The time includes the threads of the process and the processes that a test started and waited for.
Collecting is not included.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator, Iterable
from pathlib import PurePosixPath

import pytest

PROPERTY = "processor_s"
_started: dict[str, float] = {}


def processor_s() -> float:
    """Return the processor time of this process and of its ended children."""
    return sum(os.times()[:4])


def table_of(times: Iterable[tuple[str, float]], by: str = "folders") -> list[str]:
    """Return a line for each folder, file or test, with the sum of its times; the largest first.

    >>> times = [("tests/cli/test_a.py::b", 1.0), ("tests/cli/c/test_d.py", 2.0), ("src/e.py", 4.0)]
    >>> table_of(times)
    ['     4.0 s     1 src', '     3.0 s     2 tests/cli', '     7.0 s     3 all']
    """
    sums: dict[str, list[float]] = defaultdict(list)
    for nodeid, seconds in times:
        file = PurePosixPath(nodeid.partition("::")[0])
        n_parts = 2 if file.parts[0] == "tests" else 1
        folder = "/".join(file.parts[:n_parts])
        sums[{"tests": nodeid, "files": str(file), "folders": folder}[by]].append(seconds)
        sums["all"].append(seconds)
    largest_last = sorted(sums.items(), key=lambda one: (one[0] == "all", -sum(one[1])))
    return [f"{sum(own):8.1f} s {len(own):5} {name}" for name, own in largest_last]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that prints the table."""
    parser.addoption(
        "--processor-time",
        choices=["folders", "files", "tests"],
        help="print the processor time of each folder, of each file or of each test",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logstart(nodeid: str) -> None:
    """Note the processor time when a test starts."""
    _started[nodeid] = processor_s()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the processor time to the last report of a test, so that workers send it."""
    report = yield
    if call.when == "teardown" and item.nodeid in _started:
        report.user_properties.append((PROPERTY, processor_s() - _started.pop(item.nodeid)))
    return report


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the table."""
    wanted = config.getoption("--processor-time")
    if not wanted:
        return
    times = [
        (report.nodeid, float(seconds))
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, seconds in getattr(report, "user_properties", ())
        if name == PROPERTY
    ]
    terminalreporter.section("processor time")
    for line in table_of(times, wanted):
        terminalreporter.write_line(line)
