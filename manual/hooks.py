"""What mkdocs calls while it builds the site; mkdocs.yml names this file.

Run it as `python -m mkdocs`, from the root of the project, so that this package is found.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from manual.figures import FIGURES, draw_themed
from manual.generated import with_generated
from manual.mathml import with_mathml


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the decisions by their files: writing one is all that a new decision needs."""
    config.nav = with_decisions(config.nav or [], Path(config.docs_dir))
    return config


def with_decisions(nav: list[Any], docs: Path) -> list[Any]:
    """Return the navigation with every decision below its heading "Decisions"."""
    filled: list[Any] = []
    for entry in nav:
        if not isinstance(entry, dict):
            filled.append(entry)
            continue
        [(title, inside)] = entry.items()
        if title == "Decisions":
            files = sorted(path.name for path in (docs / "decisions").glob("[0-9]*.md"))
            inside = ["decisions/README.md", *(f"decisions/{name}" for name in files)]
        elif isinstance(inside, list):
            inside = with_decisions(inside, docs)
        filled.append({title: inside})
    return filled


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


def on_post_page(output: str, **_: Any) -> str:
    """Name the search for those who hear the page: the theme's dialog has no name."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"', 1)
