"""What mkdocs calls while it builds the site; mkdocs.yml names this file.

Run it as `python -m mkdocs`, from the root of the project, so that this package is found.
"""

from __future__ import annotations

from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from manual.figures import FIGURES, draw_themed
from manual.generated import with_generated
from manual.mathml import with_mathml

__all__ = ["on_files", "on_page_content", "on_page_markdown"]


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the figures, drawn from the committed numbers."""
    for name in FIGURES:
        for path, svg in draw_themed(name).items():
            files.append(File.generated(config, path, content=svg))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the generated parts into a page."""
    return with_generated(markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Turn a page's formulas into MathML."""
    return with_mathml(html)
