"""Finished runs of an unfinished experiment, kept on disk."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Parts"]

DECIDING = (
    "version",
    "code",
    "environment",
    "environment_fingerprint",
    "n_slots",
    "floors",
    "rate_floors",
    "rewards",
    "feature_sizes",
    "slot_weights",
    "value_floors",
    "levels",
    "n_rounds",
    "seed",
)
"""The settings that determine a run, besides the policy."""


class Parts:
    """A folder with one small file for each finished run of each policy.

    A run is stored under a digest of everything that determines its numbers: the environment, the
    page, the rounds, the seed, the settings of the policy and slotwise's own code. So a changed
    experiment starts again, an experiment with more runs or another policy reuses finished runs,
    and two experiments may share a folder and their common runs. The code of a policy of your own
    is not part of the digest: remove the folder when you change it.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        self._root = folder
        setting = {name: config[name] for name in DECIDING}
        self._folders = {
            policy["label"]: folder / _digest([setting, policy["name"], policy["settings"]])
            for policy in config["policies"]
        }

    def file(self, label: str, run: int) -> Path:
        """Return where a run is kept; equal runs of two experiments have the same file."""
        return self._folders[label] / f"{run:06d}.npy"

    def find(self, label: str, run: int) -> NDArray[np.float64] | None:
        """Return the record of a finished run, or None."""
        try:
            record: NDArray[np.float64] = np.load(self.file(label, run), allow_pickle=False)
        except (OSError, ValueError):
            return None
        return record

    def keep(self, label: str, run: int, record: NDArray[np.float64]) -> None:
        """Store the record of a finished run; the file appears complete or not at all."""
        final = self.file(label, run)
        final.parent.mkdir(parents=True, exist_ok=True)
        temporary = final.with_suffix(f".{os.getpid()}-{threading.get_ident()}.tmp")
        try:
            with temporary.open("wb") as file:
                np.save(file, record, allow_pickle=False)
            temporary.replace(final)
        except BaseException:
            temporary.unlink(missing_ok=True)  # what a full disk has room for is of no use
            raise

    def count(self, runs: Iterable[int]) -> int:
        """Return the number of finished runs of every policy among `runs`."""
        wanted = list(runs)
        return sum(self.file(label, run).is_file() for label in self._folders for run in wanted)

    def discard(self) -> None:
        """Remove the runs of these policies, because their experiment is finished."""
        for folder in self._folders.values():
            shutil.rmtree(folder, ignore_errors=True)
        if self._root.is_dir() and not any(self._root.iterdir()):
            self._root.rmdir()


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
