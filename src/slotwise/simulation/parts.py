"""Finished runs of an experiment that is not finished: kept on disk, found again."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Parts"]


class Parts:
    """A folder with one small file for each finished run of each policy.

    It belongs to one experiment: the folder is named after a digest of its settings, so a
    changed experiment starts anew instead of mixing with the old one.
    """

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        deciding = {name: value for name, value in config.items() if name not in _NOT_DECIDING}
        digest = hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:16]
        self._folder = folder / digest
        self._root = folder

    def _file(self, label: str, run: int) -> Path:
        name = hashlib.sha256(label.encode()).hexdigest()[:12]
        return self._folder / f"{name}-{run:06d}.npy"

    def find(self, label: str, run: int) -> NDArray[np.float64] | None:
        """Return the record of a finished run, or None."""
        try:
            record: NDArray[np.float64] = np.load(self._file(label, run), allow_pickle=False)
        except (OSError, ValueError):
            return None
        return record

    def keep(self, label: str, run: int, record: NDArray[np.float64]) -> None:
        """Store the record of a finished run; the file appears whole or not at all."""
        self._folder.mkdir(parents=True, exist_ok=True)
        final = self._file(label, run)
        temporary = final.with_suffix(f".{os.getpid()}.tmp")
        with temporary.open("wb") as file:
            np.save(file, record, allow_pickle=False)
        temporary.replace(final)

    def discard(self) -> None:
        """Remove the folder: its experiment is finished."""
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._root.is_dir() and not any(self._root.iterdir()):
            self._root.rmdir()


_NOT_DECIDING = {"experiment", "dataset", "n_runs", "commit", "seconds"}
"""Settings that change no number of a run: more runs go on where fewer ended."""
