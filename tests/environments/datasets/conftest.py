"""Where the original files are, when they are here at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def original_files() -> Path:
    """Return the directory with the original files; skip the test where there is none.

    It is named by the environment variable SLOTWISE_DATA, or it is shared/data beside the
    repository.
    """
    named = os.environ.get("SLOTWISE_DATA")
    directory = Path(named) if named else ROOT.parent / "shared" / "data"
    if not directory.is_dir():
        pytest.skip(f"the original files are not here: {directory} (set SLOTWISE_DATA)")
    return directory
