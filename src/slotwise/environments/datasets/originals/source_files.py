"""Find the original files, read the columns that a loader needs, and name errors in them.

Every cell is read as text: columns that a loader does not need cannot make it fail, and a wrong
cell is reported as it is in the file, with its row (counted from 1 after the header).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slotwise.errors import InvalidInput, MissingData

__all__ = [
    "BLOCK_BYTES",
    "Block",
    "SourceFile",
    "check_cells",
    "numbers_of",
    "read_blocks",
    "read_columns",
]

BLOCK_BYTES = 8 * 2**20
"""The number of bytes of a large file that are in memory at once."""


@dataclass(frozen=True)
class SourceFile:
    """A text table that was found, and where users can get it.

    `header` names the columns of a file whose first line does not.
    """

    path: Path
    origin: str
    separator: str = ","
    quote: str | None = '"'
    header: tuple[str, ...] | None = None

    @classmethod
    def find(cls, directory: Path, dataset: str, file_name: str, origin: str) -> SourceFile:
        """Look for `file_name` in `directory` and in its folder named after the data set.

        A file whose name ends in .tsv is read with tabs and without quotes, as Kaggle writes it.
        """
        for folder in (directory, directory / dataset):
            if (folder / file_name).is_file():
                if file_name.endswith(".tsv"):
                    return cls(folder / file_name, origin, separator="\t", quote=None)
                return cls(folder / file_name, origin)
        raise MissingData(
            f"`{file_name}` must be in the directory {directory} or in its folder {dataset}, "
            f"got no such file; {origin}"
        )

    def columns(self) -> list[str]:
        """Return the names of the columns."""
        if self.header is not None:
            return list(self.header)
        with self.path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            if self.quote is None:
                return file.readline().rstrip("\r\n").split(self.separator)
            return next(csv.reader(file, delimiter=self.separator, quotechar=self.quote), [])

    def require(self, needed: Sequence[str]) -> None:
        """Raise MissingData when the header lacks a column in `needed`."""
        columns = self.columns()
        for name in needed:
            if name not in columns:
                raise MissingData(
                    f"`{name}` must be a column of {self.path.name} in {self.path.parent}, "
                    f"got the columns {', '.join(columns) or '(none)'}; {self.origin}"
                )


class Block(NamedTuple):
    """Consecutive rows of a file, and the number of the first row."""

    rows: pl.DataFrame
    first_row: int


def read_columns(source: SourceFile, needed: Sequence[str]) -> Block:
    """Read some columns of a table that fits into memory, all cells as text."""
    source.require(needed)
    try:
        rows = pl.read_csv(
            source.path,
            has_header=source.header is None,
            new_columns=source.columns(),
            separator=source.separator,
            quote_char=source.quote,
            infer_schema=False,
            encoding="utf8-lossy",
        ).select(needed)
    except pl.exceptions.PolarsError as error:
        raise InvalidInput(f"`{source.path.name}` must be a readable table, got {error}") from error
    return Block(rows, first_row=1)


def read_blocks(source: SourceFile, needed: Sequence[str]) -> Iterator[Block]:
    """Read some columns of a table of any size block by block, all cells as text.

    Memory holds one block of whole lines, never the file; no cell may contain a line break.
    """
    source.require(needed)
    columns = source.columns()
    first_row = 1
    with source.path.open("rb") as file:
        if source.header is None:
            file.readline()
        while block := file.read(BLOCK_BYTES):
            try:
                rows = pl.read_csv(
                    BytesIO(block + file.readline()),
                    has_header=False,
                    new_columns=columns,
                    separator=source.separator,
                    quote_char=source.quote,
                    infer_schema=False,
                    encoding="utf8-lossy",
                )
            except pl.exceptions.PolarsError as error:
                raise InvalidInput(
                    f"`{source.path.name}` must be a readable table, got {error}; "
                    f"see the rows from {first_row}"
                ) from error
            yield Block(rows.select(needed), first_row)
            first_row += rows.height


def check_cells(
    source: SourceFile, block: Block, column: str, is_good: pl.Series, rule: str
) -> None:
    """Raise InvalidInput for the first row where `is_good` does not hold."""
    bad = (~is_good.fill_null(value=False)).arg_true()
    if len(bad):
        raise _bad_cell(source, block, column, int(bad[0]), rule)


def numbers_of(
    source: SourceFile, block: Block, column: str, low: float = 0.0, high: float = np.inf
) -> NDArray[np.float64]:
    """Return a column as finite numbers from `low` to `high`."""
    cells = block.rows[column]
    if cells.dtype == pl.String:
        cells = cells.str.strip_chars()
    numbers = cells.cast(pl.Float64, strict=False)
    is_good = numbers.is_finite() & (numbers >= low) & (numbers <= high)
    rule = f"a number from {low:g} to {high:g}" if high < np.inf else f"a number from {low:g} up"
    check_cells(source, block, column, is_good, rule)
    return numbers.to_numpy()


def _bad_cell(source: SourceFile, block: Block, column: str, place: int, rule: str) -> InvalidInput:
    row = block.first_row + place
    return InvalidInput.of(
        column, rule, block.rows[column][place], f"see row {row} of {source.path.name}"
    )
