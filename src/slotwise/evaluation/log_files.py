"""The files of a log of page views: where they are, and whether their columns are those of a log.

Used by `evaluate`, `fitted_links`, `log_frontier` and `log_reader`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from slotwise.errors import InvalidLog, MissingData, UnsupportedState
from slotwise.page_log import (
    FORMAT_KEY,
    FORMAT_VERSION,
    MAX_REVENUE_KEY,
    OPTIONAL_COLUMNS,
    REQUIRED_COLUMNS,
    VISITOR_PREFIX,
)

Source = str | os.PathLike[str] | Sequence[str | os.PathLike[str] | BinaryIO]
"""A file, a folder with `*.parquet` files, or a list of files in the order of time."""

ROWS_A_BATCH = 1 << 17

NUMBERS = ("time_us", "slot", "probability", "clicked", "revenue")


class LogFiles(NamedTuple):
    """The files of a log, all with the same columns."""

    name: str
    files: tuple[str | BinaryIO, ...]
    columns: frozenset[str]
    n_rows: int
    max_revenue: float | None

    @property
    def features(self) -> tuple[str, ...]:
        """The features of visitors that the log has."""
        found = (name for name in self.columns if name.startswith(VISITOR_PREFIX))
        return tuple(sorted(name.removeprefix(VISITOR_PREFIX) for name in found))

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the files once, a hundred thousand rows at a time."""
        for file in self.files:
            try:
                with pq.ParquetFile(file, read_dictionary=["link"]) as opened:
                    yield from opened.iter_batches(ROWS_A_BATCH, columns=list(columns))
            except (OSError, pa.ArrowException) as error:
                rule = f"a log must be Parquet files that can be read, got a damaged one ({error})"
                raise InvalidLog(f"{self.name}: {rule}; write it again") from error


def find_files(source: Source) -> LogFiles:
    """Return the files of the log at `source` after checking their columns and version."""
    files, name = _list_files(source)
    columns: frozenset[str] = frozenset()
    n_rows = 0
    scales: set[float | None] = set()
    for file in files:
        schema, n_file_rows = _read_schema(file, name)
        _check_columns(schema, name)
        found = frozenset(schema.names)
        if n_rows and found != columns:
            one = min(found ^ columns)
            raise InvalidLog(f"{name}: every file must have the same columns, got {one!r} in some")
        columns, n_rows = found, n_rows + n_file_rows
        scales.add(_check_metadata(schema.metadata or {}, name))
    if not n_rows:
        raise InvalidLog(f"{name}: a log must have at least one page, got an empty one")
    if len(scales) > 1:
        listed = sorted(str(scale) for scale in scales)
        raise InvalidLog(f"{name}: every file must have the same max_revenue, got {listed}")
    return LogFiles(name, files, columns, n_rows, scales.pop())


def _list_files(source: Source) -> tuple[tuple[str | BinaryIO, ...], str]:
    if not isinstance(source, str | os.PathLike):
        listed = tuple(file if hasattr(file, "read") else os.fspath(file) for file in source)
        return listed, "log"  # type: ignore[return-value]
    path = Path(source)
    if path.is_dir():
        files = tuple(str(file) for file in sorted(path.glob("*.parquet")))
        if not files:
            rule = "a log's folder must hold *.parquet files, got none"
            advice = "if a selector logs to it, `close_log` writes the pages that are in memory"
            raise MissingData(f"{path.name}: {rule}; {advice}")
        return files, path.name
    if not path.is_file():
        raise MissingData(f"`log` must be a file or folder that exists, got {str(source)!r}")
    return (str(path),), path.name


def _read_schema(file: str | BinaryIO, name: str) -> tuple[Any, int]:
    try:
        with pq.ParquetFile(file) as opened:
            return opened.schema_arrow, opened.metadata.num_rows
    except pa.ArrowInvalid as error:
        advice = "`polars.read_csv(...).write_parquet(...)` converts a CSV file"
        raise InvalidLog(f"{name}: not a Parquet file; {advice}") from error


def _check_columns(schema: pa.Schema, name: str) -> None:
    missing = [column for column in REQUIRED_COLUMNS if column not in schema.names]
    if missing:
        raise InvalidLog(
            f"{name}: a log must have the columns {', '.join(REQUIRED_COLUMNS)}, "
            f"got none named {', '.join(missing)}"
        )
    numbers = [column for column in (*NUMBERS, *OPTIONAL_COLUMNS) if column in schema.names]
    for column in numbers:
        kind = schema.field(column).type
        texts = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        wants_text = OPTIONAL_COLUMNS.get(column) == "string"
        is_number = any(
            test(kind) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
        )
        if not wants_text and not is_number:
            raise InvalidLog(f"{name}: `{column}` must be a column of numbers, got {kind}")
        if wants_text and not texts and not pa.types.is_dictionary(kind):
            raise InvalidLog(f"{name}: `{column}` must be a column of texts, got {kind}")


def _check_metadata(metadata: dict[bytes, bytes], name: str) -> float | None:
    version = metadata.get(FORMAT_KEY, b"1").decode()
    if version != str(FORMAT_VERSION):
        raise UnsupportedState(
            f"{name}: the log's format must be version {FORMAT_VERSION}, got {version}; "
            "a newer slotwise wrote it"
        )
    scale = metadata.get(MAX_REVENUE_KEY)
    return None if scale is None else float(scale)
