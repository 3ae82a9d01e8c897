"""The Python of the documentation runs: every block of a page, in order, in one program.

A block of `>>>` lines is a doctest, so that what it shows is checked; any other runs as it is.
"""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent

PAGES = ["docs/embed.md", "docs/price-of-the-floor.md", "docs/several-floors.md"]

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    """The code of one fenced block, and the line of the page it starts at, counted from 0."""

    code: str
    line: int


def python_blocks(text: str) -> list[Block]:
    return [
        Block(match[1], text[: match.start(1)].count("\n"))
        for match in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


def run_block(block: Block, page: str, names: dict[str, Any]) -> None:
    """Run a block with the names that the blocks before it left, and leave its own."""
    if not block.code.startswith(">>>"):
        exec(compile("\n" * block.line + block.code, page, "exec"), names)
        return
    example = doctest.DocTestParser().get_doctest(block.code, names, page, page, block.line)
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    said: list[str] = []
    failures = runner.run(example, out=said.append, clear_globs=False).failed
    names.update(example.globs)
    assert not failures, "".join(said)


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run_in_order(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = python_blocks((ROOT / page).read_text(encoding="utf-8"))
    assert blocks, f"{page} has no Python to run"
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": page}
    for block in blocks:
        run_block(block, page, names)


def test_a_wrong_example_is_noticed() -> None:
    page = "text\n```python\nx = 2\n```\n```sh\nrm\n```\n```python\n>>> x + 1\n4\n```\n"
    first, second = python_blocks(page)
    assert (first.line, second.line) == (2, 8)
    names: dict[str, Any] = {}
    run_block(first, "page", names)
    with pytest.raises(AssertionError, match=r"Expected:\s+4\s+Got:\s+3"):
        run_block(second, "page", names)
    with pytest.raises(NameError, match="unknown"):
        run_block(Block("unknown()\n", 3), "page", names)
