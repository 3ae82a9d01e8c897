"""Every target of the Makefile with what it says of itself."""

from __future__ import annotations

import re
from pathlib import Path

from manual.markdown import code, table

ROOT = Path(__file__).resolve().parent.parent
TARGET = re.compile(r"^([a-z][a-z-]*):(?:[^#\n]*## (.*))?", re.MULTILINE)


def make_targets() -> dict[str, str]:
    """Return the targets of the Makefile with their notes; a target without one has ""."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return dict(TARGET.findall(text))


def make_targets_reference() -> str:
    """Return the table of all targets."""
    rows = [[code(f"make {name}"), note] for name, note in make_targets().items()]
    return table(["command", "what it does"], rows)
