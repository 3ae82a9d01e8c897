"""Pieces of Markdown: cells, tables and fenced code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def cell(text: str) -> str:
    r"""Return text escaped for one cell of a table.

    >>> cell("svg|png\nor both")
    'svg\\|png or both'
    """
    return " ".join(text.split()).replace("|", r"\|")


def code(text: str) -> str:
    """Return text as inline code; empty text stays empty.

    >>> code("n_slots"), code("")
    ('`n_slots`', '')
    """
    return f"`{text}`" if text else ""


def fence(text: str, language: str = "") -> str:
    """Return text as a block of code; its first line may be indented."""
    return f"```{language}\n{text.rstrip().lstrip(chr(10))}\n```"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; every row has a cell for each heading.

    >>> print(table(["name", "meaning"], [["`port`", "where to listen"]]))
    | name | meaning |
    | --- | --- |
    | `port` | where to listen |
    """
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(map(cell, line)) + " |" for line in lines)
