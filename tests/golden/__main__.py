"""Refresh the files that are generated from the present code: `make golden`.

    python -m tests.golden              refresh all of these
    python -m tests.golden openapi      refresh one of them

Files of earlier formats (stores, selectors, results) are never written again: later versions must
open them. A new format gets a new file by `python -m tests.golden.write_store FILE`,
`tests.golden.write_selector FOLDER` or `tests.golden.write_default FOLDER`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).resolve().parent
REFRESHED = {
    "openapi": ("slotwise.service.api", ROOT / "docs" / "openapi.json"),
    "pages": ("tests.selector.test_special_case", GOLDEN / "pages-of-equal-visitors.json"),
    "results": ("tests.simulation.pin_results", None),
}
"""Modules that write a file, or whose output is one."""


def refresh(name: str) -> None:
    """Write one of the files again."""
    module, output = REFRESHED[name]
    done = subprocess.run(
        [sys.executable, "-m", module], cwd=ROOT, check=True, stdout=subprocess.PIPE
    )
    if output is not None:
        output.write_bytes(done.stdout)


def main(names: list[str]) -> str:
    """Refresh the named files, or all of them; return what was wrong."""
    unknown = [name for name in names if name not in REFRESHED]
    if unknown:
        return f"must be some of {', '.join(REFRESHED)}, got {unknown[0]!r}"
    for name in names or REFRESHED:
        refresh(name)
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) or None)
