"""The original files are found here as they are for the data sets."""

from __future__ import annotations

from tests.environments.datasets.conftest import original_files

__all__ = ["original_files"]
