"""A digest of source files: equal for equal code, in whatever folder it lies."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2]
LENGTH = 16


@cache
def digest_sources(parts: Iterable[str]) -> str:
    """Return a digest of some files and folders of the package.

    The version number is not enough, because the code changes between two versions.
    """
    digest = hashlib.sha256()
    for part in parts:
        path = PACKAGE / part
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.relative_to(PACKAGE).as_posix().encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:LENGTH]
