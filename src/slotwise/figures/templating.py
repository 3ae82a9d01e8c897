"""HTML and Markdown from templates, with all names escaped."""

from __future__ import annotations

from pathlib import Path

import jinja2

__all__ = ["markdown_cell", "templates"]


def templates(*folders: Path, is_html: bool) -> jinja2.Environment:
    """Return the templates, with those of further folders; HTML is escaped, plain text is not."""
    own = jinja2.PackageLoader("slotwise.figures", "templates")
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([own, *map(jinja2.FileSystemLoader, folders)]),
        autoescape=is_html,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["cell"] = markdown_cell
    environment.filters["notes_as_markdown"] = _paragraphs_as_markdown
    return environment


def _paragraphs_as_markdown(html: str) -> str:
    """Return HTML paragraphs of plain text as Markdown."""
    return html.replace("<p>", "").replace("</p>\n", "\n\n").rstrip() + "\n"


def markdown_cell(text: str) -> str:
    """Return text escaped for one cell of a Markdown table."""
    escaped = "".join(f"\\{letter}" if letter in "\\`*_[]<>|#" else letter for letter in text)
    return " ".join(escaped.split())
