"""The results file: one tidy Parquet table with the settings in its schema.

Columns `policy`, `run`, `round`, then one per quantity; rows go by policy, run and round. The
schema's metadata holds the settings as JSON under `slotwise.config` and the version of this layout
under `slotwise.results`. Any Parquet reader opens it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.errors import MissingData, UnsupportedState

__all__ = ["FORMAT", "broken", "read", "write"]

FORMAT = 1
"""Raised when a reader of the old layout would misread the new one."""

FORMAT_KEY, CONFIG_KEY = b"slotwise.results", b"slotwise.config"
KEYS = ("policy", "run", "round")

Floats = NDArray[np.float64]
Totals = Mapping[str, Mapping[str, Floats]]
Contents = tuple[dict[str, Any], NDArray[np.int64], dict[str, dict[str, Floats]]]

# pyarrow comes with the extra for experiments, while `slotwise.Results` can be named without it:
# it is imported where a file is touched.


def write(path: Path, config: Mapping[str, Any], rounds: NDArray[np.int64], totals: Totals) -> None:
    """Write a results file beside its place, then move it there in one step."""
    import pyarrow
    import pyarrow.parquet

    labels = list(totals)
    n_runs = [len(totals[label]["reward"]) for label in labels]
    places = np.repeat(np.arange(len(labels), dtype=np.int32), np.multiply(n_runs, len(rounds)))
    runs = np.concatenate([np.arange(n, dtype=np.int32) for n in n_runs])
    columns = {
        "policy": pyarrow.DictionaryArray.from_arrays(places, labels),
        "run": np.repeat(runs, len(rounds)),
        "round": np.tile(rounds, sum(n_runs)),
    }
    for quantity in totals[labels[0]]:
        columns[quantity] = np.concatenate([totals[label][quantity].ravel() for label in labels])
    table = pyarrow.table(columns).replace_schema_metadata(
        {FORMAT_KEY: str(FORMAT), CONFIG_KEY: json.dumps(dict(config))}
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        pyarrow.parquet.write_table(table, unfinished, compression="zstd")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def read(path: Path) -> Contents:
    """Return settings, checkpoints and totals of a results file."""
    import pyarrow
    import pyarrow.parquet

    if not path.is_file():
        raise MissingData(f"no results file {path}; `slotwise simulate` writes one")
    try:
        metadata = pyarrow.parquet.read_schema(path).metadata or {}
        _check_format(path, metadata)
        table = pyarrow.parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise broken(path, "it is no whole Parquet file") from error
    missing = [key for key in KEYS if key not in table.column_names]
    if missing:
        raise broken(path, f"it has no column {missing[0]!r}")
    if not table.num_rows:
        raise broken(path, "it has no rows")
    # Label by label, in the order of their first rows, as the experiment listed them.
    encoded = table["policy"].cast(pyarrow.string()).combine_chunks().dictionary_encode()
    labels, of_policy = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
    runs, checkpoints = table["run"].to_numpy(), table["round"].to_numpy()
    names = [name for name in table.column_names if name not in KEYS]
    columns = {name: table[name].to_numpy() for name in names}
    rounds = np.unique(checkpoints)
    totals = {}
    for place, label in enumerate(labels):
        rows = np.flatnonzero(of_policy == place)
        rows = rows[np.lexsort((checkpoints[rows], runs[rows]))]
        n_runs = len(np.unique(runs[rows]))
        if not np.array_equal(checkpoints[rows], np.tile(rounds, n_runs)):
            raise broken(path, f"rows of {label!r} are missing or double")
        shape = (n_runs, len(rounds))
        totals[label] = {name: column[rows].reshape(shape) for name, column in columns.items()}
    return _config(path, metadata[CONFIG_KEY]), rounds, totals


def broken(path: Path, why: str) -> UnsupportedState:
    """Return the error that says why a file cannot be read."""
    return UnsupportedState(f"{path} cannot be read as a results file: {why}; run it again")


def _config(path: Path, text: bytes) -> dict[str, Any]:
    try:
        config: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise broken(path, "its settings are no JSON") from error
    return config


def _check_format(path: Path, metadata: Mapping[bytes, bytes]) -> None:
    """Refuse a file of something else, or of a layout this version does not know."""
    version = metadata.get(FORMAT_KEY, b"")
    if not version.isdigit() or CONFIG_KEY not in metadata:
        raise UnsupportedState(f"{path} is no results file of slotwise: its settings are missing")
    if int(version) > FORMAT:
        raise UnsupportedState(
            f"{path} has results format {int(version)}, but this slotwise reads up to {FORMAT}; "
            "install a newer slotwise"
        )
