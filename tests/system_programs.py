"""Programs that tests start but Python cannot install: a browser, a database, a proxy, a pooler.

`scripts/system-packages` installs them. Tests that start one are marked `system`. Where one is
missing, the tests that need it are skipped, and the last line of the run names it
(`conftest.py`).
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

MISSING = "needs the system package "
"""How the reason of such a skip begins."""
FOLDERS = ("/usr/sbin", "/usr/local/sbin")
"""Debian keeps servers in folders that only root has in its path."""

is_allowed = True
"""Whether the running test is marked `system`; a command such as the soak needs no mark."""


def system_program(*names: str, package: str) -> Path:
    """Return the first of these programs that is installed; skip the test where none is.

    A test without the mark `system` fails here, whether the program is installed or not.
    """
    if not is_allowed:
        pytest.fail(f"a test that starts {names[0]} must be marked `system`")
    places = [os.environ.get("PATH", ""), *FOLDERS, *_postgresql_folders()]
    for name in names:
        found = shutil.which(name, path=os.pathsep.join(places))
        if found:
            return Path(found)
    pytest.skip(f"{MISSING}{package}", allow_module_level=True)


def _postgresql_folders() -> list[str]:
    folders = Path("/usr/lib/postgresql").glob("*/bin")
    return [str(one) for one in sorted(folders, key=lambda one: -int(one.parent.name))]


def skipped_for(reasons: list[str]) -> str:
    """Return the line that says what was skipped for want of programs; empty where nothing was.

    >>> skipped_for(["needs the system package nginx", "needs the original data"])
    'skipped 1 test for want of nginx; to run it: scripts/system-packages (as root, with apt)'
    """
    packages = [one.removeprefix(MISSING) for one in reasons if one.startswith(MISSING)]
    if not packages:
        return ""
    tests, them = ("test", "it") if len(packages) == 1 else ("tests", "them")
    return (
        f"skipped {len(packages)} {tests} for want of {', '.join(sorted(set(packages)))}; "
        f"to run {them}: scripts/system-packages (as root, with apt)"
    )
