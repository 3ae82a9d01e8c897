"""The results file: one tidy Parquet table with the settings in its schema.

Columns `policy`, `run`, `round`, then one per quantity; rows go by policy, run and round. The
schema's metadata holds the settings as JSON under `slotwise.config` and the version of this layout
under `slotwise.results`. Any Parquet reader opens it. Used by `results`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slotwise.arrays import Floats, Whole
from slotwise.errors import MissingData, UnsupportedState
from slotwise.extras import imported

if TYPE_CHECKING:
    import polars as pl


FORMAT = 1
"""The version of this layout; it grows when a reader of the old one would misread the new one."""

FORMAT_KEY, CONFIG_KEY = "slotwise.results", "slotwise.config"
KEYS = ("policy", "run", "round")

Totals = Mapping[str, Mapping[str, Floats]]
Contents = tuple[dict[str, Any], Whole, dict[str, dict[str, Floats]]]


def tidy_columns(rounds: Whole, totals: Totals) -> dict[str, Any]:
    """Return a column for each quantity, with a row for each policy, run and checkpoint."""
    labels = list(totals)
    n_runs = [len(totals[label]["reward"]) for label in labels]
    runs = np.concatenate([np.arange(n, dtype=np.int32) for n in n_runs])
    columns: dict[str, Any] = {
        "policy": np.repeat(np.array(labels, np.str_), np.multiply(n_runs, len(rounds))),
        "run": np.repeat(runs, len(rounds)),
        "round": np.tile(rounds, sum(n_runs)),
    }
    for quantity in totals[labels[0]]:
        columns[quantity] = np.concatenate([totals[label][quantity].ravel() for label in labels])
    return columns


def write(path: Path, config: Mapping[str, object], rounds: Whole, totals: Totals) -> None:
    """Write a results file under a temporary name, then rename it in one step."""
    table = imported("polars", "a table of results").DataFrame(tidy_columns(rounds, totals))
    metadata = {FORMAT_KEY: str(FORMAT), CONFIG_KEY: json.dumps(dict(config))}
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        table.write_parquet(unfinished, compression="zstd", metadata=metadata)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def read(path: Path) -> Contents:
    """Return settings, checkpoints and totals of a results file."""
    pl = imported("polars", "a results file")
    if not path.is_file():
        raise MissingData(f"no results file {path}; `slotwise simulate` writes one")
    try:
        metadata = pl.read_parquet_metadata(path)
        _check_format(path, metadata)
        table = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise broken(path, "it is not a complete Parquet file") from error
    for key in KEYS:
        if key not in table.columns:
            raise broken(path, f"it has no column {key!r}")
    if not table.height:
        raise broken(path, "it has no rows")
    rounds = table["round"].unique().sort().to_numpy().astype(np.int64)
    return _config(path, metadata[CONFIG_KEY]), rounds, _totals(path, table, rounds)


def _totals(path: Path, table: pl.DataFrame, rounds: Whole) -> dict[str, dict[str, Floats]]:
    """Return the totals by label, in the order of the labels' first rows."""
    totals = {}
    by_policy = table.with_columns(table["policy"].cast(str)).partition_by(
        "policy", maintain_order=True, as_dict=True, include_key=False
    )
    for (label,), rows in by_policy.items():
        in_order = rows.sort("run", "round")
        shape = (in_order["run"].n_unique(), len(rounds))
        if not np.array_equal(in_order["round"], np.tile(rounds, shape[0])):
            raise broken(path, f"rows of {label!r} are missing or repeated")
        totals[str(label)] = {
            name: in_order[name].to_numpy().reshape(shape)
            for name in in_order.columns
            if name not in KEYS
        }
    return totals


def broken(path: Path, why: str) -> UnsupportedState:
    """Return the error that says why a file cannot be read."""
    advice = "name a file that `slotwise simulate` wrote, or run its experiment again"
    return UnsupportedState(f"{path} cannot be read as a results file: {why}; {advice}")


def _config(path: Path, text: str) -> dict[str, Any]:
    try:
        config: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise broken(path, "its settings are not JSON") from error
    return config


def _check_format(path: Path, metadata: Mapping[str, str]) -> None:
    """Refuse a file of something else, or of a layout this version does not know."""
    version = metadata.get(FORMAT_KEY, "")
    if not version.isdigit() or CONFIG_KEY not in metadata:
        raise UnsupportedState(
            f"{path} is not a results file of slotwise: its settings are missing"
        )
    if int(version) > FORMAT:
        raise UnsupportedState(
            f"{path} has results format {int(version)}, but this slotwise reads up to {FORMAT}; "
            "install a newer slotwise"
        )
