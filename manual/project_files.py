"""Files of the project that are pages of the manual as they are."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["project_file"]

ROOT = Path(__file__).resolve().parent.parent


def project_file(name: str) -> str:
    """Return a Markdown file of the project's root, its links into docs/ fit for the manual."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return re.sub(r"\]\(docs/", "](", text)
