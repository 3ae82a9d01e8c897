"""Find the original files, read the columns that a loader needs, and name errors in them.

Every cell is read as text: columns that a loader does not need cannot make it fail, and a wrong
cell is reported as it is in the file, with its row (counted from 1 after the header). Used by
`ad_clicks`, `coupon_purchase` and `edx_courses`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from slotwise.arrays import Floats
from slotwise.environments.datasets.dataset import Dataset, PageSetting
from slotwise.errors import InvalidInput, MissingData

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

        `directory` may also be the file itself, or another file in its folder. A file whose name
        ends in .tsv is read with tabs and without quotes, as Kaggle writes it.
        """
        if directory.is_file():
            directory = directory.parent
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


class FileBlock(NamedTuple):
    """Consecutive rows of a file, and the number of the first row."""

    rows: pl.DataFrame
    first_row: int


def _read(source: SourceFile, text: Path | BytesIO, has_header: bool) -> pl.DataFrame:
    return pl.read_csv(
        text,
        has_header=has_header,
        new_columns=source.columns(),
        separator=source.separator,
        quote_char=source.quote,
        infer_schema=False,
        encoding="utf8-lossy",
    )


def read_columns(source: SourceFile, needed: Sequence[str]) -> FileBlock:
    """Read some columns of a table that fits into memory, all cells as text."""
    source.require(needed)
    try:
        rows = _read(source, source.path, source.header is None).select(needed)
    except pl.exceptions.PolarsError as error:
        raise InvalidInput(f"`{source.path.name}` must be a readable table, got {error}") from error
    return FileBlock(rows, first_row=1)


def read_blocks(source: SourceFile, needed: Sequence[str]) -> Iterator[FileBlock]:
    """Read some columns of a table of any size block by block, all cells as text.

    Memory holds one block of whole lines, never the file; no cell may contain a line break.
    """
    source.require(needed)
    first_row = 1
    with source.path.open("rb") as file:
        if source.header is None:
            file.readline()
        while block := file.read(BLOCK_BYTES):
            try:
                rows = _read(source, BytesIO(block + file.readline()), has_header=False)
            except pl.exceptions.PolarsError as error:
                raise InvalidInput(
                    f"`{source.path.name}` must be a readable table, got {error}; "
                    f"see the rows from {first_row}"
                ) from error
            yield FileBlock(rows.select(needed), first_row)
            first_row += rows.height


def check_cells(
    source: SourceFile, block: FileBlock, column: str, is_good: pl.Series, rule: str
) -> None:
    """Raise InvalidInput for the first row where `is_good` does not hold."""
    bad = (~is_good.fill_null(value=False)).arg_true()
    if len(bad):
        row = f"see row {block.first_row + int(bad[0])} of {source.path.name}"
        raise InvalidInput.of(column, rule, block.rows[column][int(bad[0])], row)


def numbers_of(
    source: SourceFile, block: FileBlock, column: str, low: float = 0.0, high: float = np.inf
) -> Floats:
    """Return a column as finite numbers from `low` to `high`."""
    cells = block.rows[column]
    if cells.dtype == pl.String:
        cells = cells.str.strip_chars()
    numbers = cells.cast(pl.Float64, strict=False)
    is_good = numbers.is_finite() & (numbers >= low) & (numbers <= high)
    rule = f"a number from {low:g} to {high:g}" if high < np.inf else f"a number from {low:g} up"
    check_cells(source, block, column, is_good, rule)
    return numbers.to_numpy()


RATES_ORIGIN = "name your own columns with the options `click_rate`, `revenue_per_click` and `link`"
ORIGIN = "name your own columns with the options `clicks`, `views`, `revenue` and `link`"
SUFFIXES = (".csv", ".tsv", ".parquet")


def find_table(path: Path, file: str | None, origin: str) -> SourceFile:
    """Return the table at `path`: the file itself, `file` in a folder, or a folder's only one."""
    if not path.exists():
        raise MissingData(f"`directory` must be a file or folder that exists, got {str(path)!r}")
    if not path.is_file() and file is None:
        tables = [one for one in sorted(path.glob("*")) if one.suffix in SUFFIXES]
        if len(tables) != 1:
            rule = f"given: {path} has {len(tables)} tables ({', '.join(SUFFIXES)}), not one"
            raise InvalidInput.of("file", rule, file)
        path = tables[0]
    elif not path.is_file():
        path = SourceFile.find(path, "table", str(file), "check the option `file`").path
    if path.suffix not in SUFFIXES:
        raise InvalidInput.of("file", f"named {', '.join(SUFFIXES)}", path.name)
    return SourceFile(path, origin, separator="\t" if path.suffix == ".tsv" else ",")


def read_table(source: SourceFile, columns: Sequence[str], link: str | None) -> FileBlock:
    """Read columns of a table of any of the `SUFFIXES`, with the column of names if it has one."""
    needed = [*columns, *([link] if link else [])]
    if source.path.suffix != ".parquet":
        return read_columns(source, needed)
    rows = pl.read_parquet(source.path)
    for name in needed:
        if name not in rows.columns:
            raise MissingData(
                f"`{name}` must be a column of {source.path.name} in {source.path.parent}, "
                f"got the columns {', '.join(rows.columns)}; {source.origin}"
            )
    return FileBlock(rows.select(needed), first_row=1)


def names_of(source: SourceFile, block: FileBlock, link: str | None) -> tuple[str, ...] | None:
    """Return the names of the links, or None where no column has them."""
    if link is None:
        return None
    names = block.rows[link].cast(pl.String)
    is_name = names.is_not_null() & names.is_first_distinct()
    check_cells(source, block, link, is_name, "a name that occurs once")
    return tuple(names)


@dataclass(frozen=True)
class RatesTable:
    """Loader of a table of rates with one row per link.

    `click_rate` and `revenue_per_click` name the columns with the rates, both from 0 to 1; `link`
    names the column with the name of the link, if there is one. `file` is as for `Table`.
    """

    file: str | None = None
    click_rate: str = "click_rate"
    revenue_per_click: str = "revenue_per_click"
    link: str | None = None

    def load(self, directory: Path, page: PageSetting) -> Dataset:
        """Read the table."""
        source = find_table(directory, self.file, RATES_ORIGIN)
        block = read_table(source, [self.click_rate, self.revenue_per_click], self.link)
        return Dataset(
            name="rates",
            title=source.path.name,
            click_rate=numbers_of(source, block, self.click_rate, high=1.0),
            revenue_per_click=numbers_of(source, block, self.revenue_per_click, high=1.0),
            **asdict(page),
            look_alike=False,
            source=f"{source.path.name}: rates of {block.rows.height} links",
            link_names=names_of(source, block, self.link),
        )


@dataclass(frozen=True)
class Table:
    """Loader of a table with one row per link.

    `clicks`, `views` and `revenue` name the columns with the number of clicks, the number of views
    and the total revenue of each link; `link` names the column with the name of the link, if there
    is one. The click rate is clicks over views. The revenue per click is revenue over clicks,
    divided by `max_revenue`, the largest revenue of one click; by default, the largest revenue per
    click in the table. A link without clicks gets revenue 0.

    `levels` names further columns of counts, with commas between, for a pool with more levels than
    two: "cart,purchase" for how often a link was put into the cart and bought, each at most the
    count before it. The levels are then the click and these columns, and `revenue` is not read.

    `file` is the name of the file in the directory; it may be left out if the path given is the
    file itself, or a directory with one table.
    """

    file: str | None = None
    clicks: str = "clicks"
    views: str = "views"
    revenue: str = "revenue"
    link: str | None = None
    max_revenue: float | None = None
    levels: str | None = None

    def __post_init__(self) -> None:
        names = self._later_levels
        if self.levels is not None and (not all(names) or len({"click", *names}) <= len(names)):
            rule = "different columns, none of them called click, with commas between"
            raise InvalidInput.of("levels", rule, self.levels)
        if self.max_revenue is not None and not 0 < self.max_revenue < np.inf:
            raise InvalidInput.of("max_revenue", "above 0 and finite", self.max_revenue)

    def load(self, directory: Path, page: PageSetting) -> Dataset:
        """Read the table."""
        source = find_table(directory, self.file, ORIGIN)
        block = self._read(source)
        views = numbers_of(source, block, self.views)
        check_cells(source, block, self.views, pl.Series(views > 0), "above 0")
        clicks = numbers_of(source, block, self.clicks)
        at_most = pl.Series(clicks <= views)
        check_cells(source, block, self.clicks, at_most, f"at most `{self.views}`")
        described: dict[str, Any] = {
            "name": "table",
            "title": source.path.name,
            **asdict(page),
            "look_alike": False,
            "source": f"{source.path.name}: {block.rows.height} links",
            "link_names": names_of(source, block, self.link),
        }
        click_rate, click_note = clicks / views, f"click rate: {self.clicks} / {self.views}"
        if self._later_levels:
            later, notes = self._rates_of_levels(source, block, clicks)
            rates = {"click": click_rate, **later}
            return Dataset.of_levels(rates, notes=(click_note, *notes), **described)
        revenue_per_click, max_revenue = self._revenue_per_click(source, block, clicks)
        is_given = "as given" if self.max_revenue is not None else "the largest in the table"
        note = f"revenue: {self.revenue} / {self.clicks} / {max_revenue:g} ({is_given})"
        return Dataset(
            click_rate=click_rate,
            revenue_per_click=revenue_per_click,
            notes=(click_note, note),
            **described,
        )

    @property
    def _later_levels(self) -> tuple[str, ...]:
        if self.levels is None:
            return ()
        return tuple(name.strip() for name in self.levels.split(","))

    def _rates_of_levels(
        self, source: SourceFile, block: FileBlock, clicks: Floats
    ) -> tuple[dict[str, Floats], list[str]]:
        """Return the conditional rate of every level after the click, and how each was made."""
        rates, notes = {}, []
        before, counts_before = self.clicks, clicks
        for name in self._later_levels:
            counts = numbers_of(source, block, name)
            at_most = pl.Series(counts <= counts_before)
            check_cells(source, block, name, at_most, f"at most `{before}`")
            rates[name] = _ratio(counts, counts_before)
            notes.append(f"{name}: {name} / {before}")
            before, counts_before = name, counts
        return rates, notes

    def _read(self, source: SourceFile) -> FileBlock:
        brought = self._later_levels or (self.revenue,)
        return read_table(source, [self.clicks, self.views, *brought], self.link)

    def _revenue_per_click(
        self, source: SourceFile, block: FileBlock, clicks: Floats
    ) -> tuple[Floats, float]:
        """Return the scaled revenue per click, and the number that it was divided by."""
        revenue = numbers_of(source, block, self.revenue)
        is_clicked = clicks > 0
        check_cells(
            source, block, self.revenue, pl.Series(is_clicked | (revenue == 0)), "0 without clicks"
        )
        per_click = _ratio(revenue, clicks)
        # A pool without revenue keeps its zeros, whatever they are divided by.
        max_revenue = self.max_revenue or float(per_click.max(initial=0.0)) or 1.0
        # Tolerate one part in a billion: the rounding error of a sum of prices.
        at_most = pl.Series(per_click <= max_revenue * (1 + 1e-9))
        rule = f"at most {max_revenue:g} per click (`max_revenue`)"
        check_cells(source, block, self.revenue, at_most, rule)
        return np.minimum(1.0, per_click / max_revenue), max_revenue


def _ratio(parts: Floats, whole: Floats) -> Floats:
    """Return `parts` over `whole`, 0 where the whole is 0."""
    return np.divide(parts, whole, out=np.zeros_like(parts), where=whole > 0)
