"""The pages of the manual as tests see them: blocks of code, and what is said about testing them.

Every block runs, or is parsed, unless a comment right above it says why not:

    <!-- test: skip, because it needs a printer -->

What an example takes for granted stands in a comment before it, out of the reader's sight:

    <!-- test: setup
    rates = [0.1, 0.2]
    -->
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]

PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"))
)

PARTS = re.compile(
    r"^<!-- test: setup\n(?P<setup>.*?)^-->$"
    r"|(?:^<!-- test: skip(?P<reason>[^\n]*)-->\n+)?"
    r"^```(?P<language>[\w-]*)[^\n]*\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
SHELLS = {"", "sh", "bash", "console"}


class Block(NamedTuple):
    """A piece of a page's code, and the line of the page it starts at, counted from 0."""

    language: str
    code: str
    line: int

    @property
    def is_shell(self) -> bool:
        return self.language in SHELLS


def read_page(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks_of(text: str) -> list[Block]:
    """Return the blocks that are to be tested, in order; a setup is a block of Python."""
    found = []
    for match in PARTS.finditer(text):
        reason = match["reason"]
        if reason is not None:
            assert re.match(r", because \w+", reason), f"a skipped block says why: {match[0][:80]}"
            continue
        name = "setup" if match["setup"] is not None else "code"
        language = "python" if name == "setup" else match["language"]
        line = text[: match.start(name)].count("\n")
        found.append(Block(language, match[name], line))
    return found


def command_lines(code: str) -> list[str]:
    """Return the commands of a block of shell, those over several lines as one."""
    joined = re.sub(r"\s*\\\n\s*", " ", code)
    return [line.strip() for line in joined.splitlines() if line.strip()]
