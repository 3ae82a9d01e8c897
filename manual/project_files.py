"""Files of the project that are also pages of the manual."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def project_file(name: str) -> str:
    """Return a Markdown file of the root folder, with its links into docs/ adapted."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return re.sub(r"\]\(docs/", "](", text)
