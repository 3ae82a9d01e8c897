"""Tables of known counts of links: read and checked.

`Player.import_counts` learns them; Selector and service read tables with `parse_known_counts`. Used
by `selector` and `service`.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from slotwise.errors import InvalidInput, MissingData

DELIMITERS = ",;\t"
COUNTS = ("views", "clicks", "revenue")


class KnownCounts(NamedTuple):
    """Views, clicks and revenue of one link, for visitors with these features."""

    link: str
    visitor: dict[str, str]
    views: int
    clicks: int
    revenue: float


def read_known_counts(path: str | Path) -> list[KnownCounts]:
    """Read a CSV file with the columns link, views and clicks, and optionally revenue.

    Any further column is a feature of visitors, with a row for each of its values.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingData(f"counts must be a CSV file that exists, got {str(path)!r}")
    try:
        return parse_known_counts(path.read_text(encoding="utf-8-sig"), path.name)
    except UnicodeDecodeError:
        raise InvalidInput(f"{path.name}: counts must be a CSV file in UTF-8") from None


def parse_known_counts(text: str, name: str) -> list[KnownCounts]:
    """Read a table with the columns of `read_known_counts`; `name` is what errors call it.

    Cells are separated by commas, semicolons or tabs. A number that could be read in two ways is
    refused.
    """
    lines = text.removeprefix("\ufeff").lstrip("\r\n")
    delimiter = max(DELIMITERS, key=lines.partition("\n")[0].count)
    reader = csv.reader(io.StringIO(lines, newline=""), delimiter=delimiter, strict=True)
    try:
        names = [cell.strip() for cell in next(reader, [])]
        _check_columns(name, names)
        rows = [
            _row(f"{name}, row {reader.line_num}", names, row, delimiter) for row in reader if row
        ]
    except csv.Error as error:
        raise InvalidInput(f"{name}, row {reader.line_num}: not CSV: {error}") from None
    if not rows:
        raise MissingData(f"{name}: counts must have a row for each link, got none")
    return rows


def _check_columns(name: str, names: Sequence[str]) -> None:
    if not {"link", "views", "clicks"} <= set(names):
        raise MissingData(f"{name}: counts must have the columns link, views, clicks")
    seen: set[str] = set()
    for column in names:
        if column in seen:
            raise InvalidInput(f"{name}: counts must have each column once, got {column!r} again")
        seen.add(column)


def _row(where: str, names: Sequence[str], row: Sequence[str], delimiter: str) -> KnownCounts:
    if len(row) != len(names):
        rule = f"{len(names)} cells, one for each column"
        raise InvalidInput(f"{where}: counts must have {rule}, got {len(row)}")
    cells = {name: cell.strip() for name, cell in zip(names, row, strict=True)}
    features = {key: cells[key] for key in names if key not in ("link", *COUNTS) and cells[key]}
    views, clicks = (_whole(where, key, cells[key]) for key in ("views", "clicks"))
    revenue = cells.get("revenue") or "0"
    if delimiter != ",":  # spreadsheets of many countries write 9,5
        revenue = revenue.replace(",", ".")
    return KnownCounts(cells["link"], features, views, clicks, _amount(where, revenue))


def _whole(where: str, name: str, cell: str) -> int:
    """Return a count; 10,000 and 10.000 are refused: they mean 10000 or 10, by country."""
    if not re.fullmatch(r"[0-9]{1,300}", cell):
        rule = "a whole number of at least 0 in digits alone, such as 10000"
        raise InvalidInput(f"{where}: {InvalidInput.of(name, rule, cell)}")
    return int(cell)


def _amount(where: str, cell: str) -> float:
    is_number = re.fullmatch(r"[0-9]*\.?[0-9]*([eE][+-]?[0-9]{1,3})?", cell)
    try:
        amount = float(cell) if is_number else math.nan
    except ValueError:  # a sign alone
        amount = math.nan
    if not math.isfinite(amount):
        raise InvalidInput(f"{where}: {InvalidInput.of('revenue', 'a number of at least 0', cell)}")
    return amount
